"""Functions of the user's own: Python over Arrow arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tickstone._tickstone import Column

if TYPE_CHECKING:
    import pyarrow

__all__ = ["Kind", "NullHandling", "Type", "adapted", "arrow_type"]

Kind: TypeAlias = Literal["scalar", "aggregate", "window"]
NullHandling: TypeAlias = Literal["default", "special"]
Type: TypeAlias = "str | pyarrow.DataType"


def arrow_type(type_: Type) -> pyarrow.DataType:
    """The Arrow type of a type as SQL calls it; an Arrow type is what it is."""
    import pyarrow

    if isinstance(type_, pyarrow.DataType):
        return type_
    if not isinstance(type_, str):
        raise TypeError(f"a type is SQL's name for it or a pyarrow.DataType, not {type(type_).__name__}")
    return pyarrow.array(Column.of_type(type_)).type


def adapted(function: Callable[..., Any], kind: Kind, returns: pyarrow.DataType) -> Callable[..., pyarrow.Array]:
    """`function` as the engine calls it: columns in, an array out."""
    import pyarrow

    def of_rows(columns: list[Column]) -> pyarrow.Array:
        return _as_array(function(*map(pyarrow.array, columns)), returns)

    def of_groups(columns: list[Column], starts: list[int], ends: list[int]) -> pyarrow.Array:
        arrays = [pyarrow.array(column) for column in columns]
        bounds = zip(starts, ends, strict=True)
        values = (function(*(array.slice(start, end - start) for array in arrays)) for start, end in bounds)
        typed = [value.cast(returns) if isinstance(value, pyarrow.Scalar) else value for value in values]
        return pyarrow.array(typed, type=returns)

    return of_groups if kind == "aggregate" else of_rows


def _as_array(values: Any, returns: pyarrow.DataType) -> pyarrow.Array:
    """What a function gave as one array. NaN stays NaN, also in an array of pandas."""
    import pyarrow

    if isinstance(values, pyarrow.ChunkedArray):
        return pyarrow.concat_arrays(values.chunks) if values.num_chunks else pyarrow.array([], type=values.type)
    if isinstance(values, pyarrow.Array):
        return values
    return pyarrow.array(values, type=returns, from_pandas=False)
