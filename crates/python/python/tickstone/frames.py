"""Frames from outside: whatever holds columns or rows, as something with an Arrow stream.

Nothing here imports pyarrow, Polars or pandas before an object needs it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeGuard

from tickstone.errors import Error
from tickstone.scalars import column, is_exotic, library

__all__ = ["as_stream", "caller", "is_frame", "is_rows", "lookup", "rows_with_names"]


def _kind(value: object) -> tuple[str, str]:
    """Top-level package and name of a value's class."""
    return type(value).__module__.partition(".")[0], type(value).__name__


def is_frame(value: object) -> bool:
    """Whether a variable of this value can be named in a query as a table."""
    if isinstance(value, type) or _kind(value) == ("polars", "Series"):
        return False
    if hasattr(value, "__arrow_c_stream__"):
        return True
    return _kind(value) in {("pandas", "DataFrame"), ("polars", "LazyFrame"), ("pyarrow", "RecordBatch")}


def as_stream(value: object) -> object:
    """The rows of `value` as an object with `__arrow_c_stream__` or `__arrow_c_array__`.

    Takes anything with one of these (Polars, pyarrow, DuckDB, a Relation, …), a pandas DataFrame, a Polars
    LazyFrame, a mapping of column names to sequences or arrays, and a sequence of mappings.

    Raises:
        TypeError: for anything else.
        Error: where the values of a column do not go together, or columns differ in length.
        ImportError: where pyarrow or Polars would be needed and neither is installed.
    """
    if _kind(value) == ("polars", "LazyFrame"):
        value = value.collect()  # type: ignore[attr-defined]
    if _kind(value) == ("polars", "DataFrame"):
        return _of_polars(value)
    if _kind(value) == ("pandas", "DataFrame"):
        return _of_pandas(value)
    if hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__"):
        return value
    if isinstance(value, Mapping):
        return _of_columns({str(name): values for name, values in value.items()})
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        return _of_rows(value)
    raise TypeError(
        f"{type(value).__name__} cannot be read as a frame: hand over a Polars, pandas or pyarrow frame, anything "
        "with __arrow_c_stream__, a dict of columns or a list of dicts"
    )


def _of_polars(frame: Any) -> object:
    """A frame of Polars; its columns of nothing but nulls have a form that Arrow does not read: they become texts."""
    import polars

    empty = [name for name, kind in frame.schema.items() if kind == polars.Null]
    return frame.with_columns(polars.col(empty).cast(polars.String)) if empty else frame


def _of_pandas(frame: Any) -> object:
    """A pandas frame; levels of the index that have a name are columns, others are left out."""
    names = [name for name in frame.index.names if name is not None]
    if names:
        frame = frame.reset_index(level=names)
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError("frames of pandas need pyarrow: pip install 'tickstone[pandas]'") from error
    objects = {at: values for at in range(frame.shape[1]) if (values := _objects(frame.iloc[:, at])) is not None}
    others = [at for at in range(frame.shape[1]) if at not in objects]
    with _readable("the frame"):
        table = pyarrow.Table.from_pandas(frame.iloc[:, others], preserve_index=False)
    for at, values in objects.items():
        name = str(frame.columns[at])
        with _readable(f"column '{name}'"):
            table = table.add_column(at, name, column(values))
    return table


def _of_columns(columns: dict[str, Any]) -> object:
    made = {}
    for name, values in columns.items():
        with _readable(f"column '{name}'"):
            values = _objects(values) or values
            made[name] = values if _is_array(values) else column(list(values))
    with _readable("the columns"):
        return library().table(made)


def _is_array(values: Any) -> bool:
    """Whether values are a column of some library, not objects of Python."""
    return any(hasattr(values, name) for name in ("__arrow_c_array__", "__arrow_c_stream__", "dtype"))


def _objects(values: Any) -> list[Any] | None:
    """The values of an array of Python objects that a library would have to guess at; its NaN is nothing."""
    if str(getattr(values, "dtype", "")) not in ("object", "Object"):
        return None
    listed = [None if isinstance(value, float) and value != value else value for value in values]
    return listed if is_exotic(listed) else None


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Raises what pyarrow or Polars say of values they cannot read as an Error."""
    try:
        yield
    except (MemoryError, ImportError):
        raise
    except Error as error:
        detail = error.message if error.detail is None else f"{error.message}; {error.detail}"
        raise Error(f"{what} cannot be read", detail=detail, hint=error.hint) from error
    except Exception as error:
        raise Error(f"{what} cannot be read", detail="; ".join(map(str, error.args))) from error


def _of_rows(rows: Sequence[Any]) -> object:
    if not rows:
        raise TypeError("an empty list says nothing of its columns: hand over a dict of empty columns")
    if not all(isinstance(row, Mapping) for row in rows):
        raise TypeError("rows are dicts; for tuples say the names of their columns: append(table, rows, columns=[…])")
    names = list(dict.fromkeys(str(name) for row in rows for name in row))
    return _of_columns({name: [row.get(name) for row in rows] for name in names})


def is_rows(value: object) -> TypeGuard[Sequence[Sequence[Any]]]:
    """Whether a value is a list of tuples, or empty."""
    if not isinstance(value, (list, tuple)):
        return False
    return all(isinstance(row, (list, tuple)) for row in value)


def rows_with_names(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> object:
    """Tuples and the names of their columns.

    Raises:
        Error: where a row has another number of values than there are names.
    """
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise Error(f"row {number} has {len(row)} values, and there are {len(names)} columns")
    return _of_columns({name: [row[at] for row in rows] for at, name in enumerate(names)})


def caller() -> FrameType | None:
    """The innermost frame of the stack that is outside of this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__package__") == "tickstone":
        frame = frame.f_back
    return frame


def lookup(name: str, frame: FrameType | Mapping[str, object] | None) -> object | None:
    """The frame that a variable of this name holds where `frame` runs: a local, then a global of it. Or the one of this
    name among some variables.

    As in any Python code, a local of an enclosing function is seen where the function that runs uses it.
    """
    if frame is None:
        return None
    scopes = (frame.f_locals, frame.f_globals) if isinstance(frame, FrameType) else (frame,)
    for variables in scopes:
        value = variables.get(name)
        if value is not None and is_frame(value):
            return value
    return None
