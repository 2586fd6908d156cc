"""Comparing two answers: integers, text and times exactly, doubles to a relative 1e-9.

NULL and NaN are told apart. The order of the rows counts only if it is asked for.
"""

from __future__ import annotations

import contextlib
import datetime
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Mismatch", "TOLERANCE", "assert_same", "rows_of"]

#: The largest relative difference between two doubles that count as equal.
TOLERANCE = 1e-9
# Rows of one side shown in a message.
SHOWN_ROWS_MAX = 5
# Groups of rows up to this size are matched pair by pair, larger ones in sorted order.
MATCHED_ROWS_MAX = 400

Row: TypeAlias = tuple[Any, ...]


class Mismatch(AssertionError):
    """Two answers differ; the message shows rows that only one of them has."""


def rows_of(answer: Any) -> list[Row]:
    """The rows of a table, a frame or anything with `__arrow_c_stream__`; a list of tuples as it is.

    Timestamps become integers, nanoseconds since the Unix epoch; dictionaries their values.
    """
    if isinstance(answer, list):
        return [tuple(map(plain_value, row)) for row in answer]
    table = answer if isinstance(answer, pa.Table) else pa.table(answer)
    columns = [plain_column(column) for column in table.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def plain_column(column: pa.ChunkedArray) -> list[Any]:
    """A column as Python values."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64())
    elif pa.types.is_duration(kind):
        column = column.cast(pa.duration("ns")).cast(pa.int64())
    elif pa.types.is_time(kind):
        column = column.cast(pa.time64("ns")).cast(pa.int64())
    return [plain_value(value) for value in column.to_pylist()]


def plain_value(value: Any) -> Any:
    """A value as it is compared: times as nanoseconds, whole decimals as integers."""
    if isinstance(value, datetime.datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
        since = moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        nanoseconds = int(getattr(value, "nanosecond", 0))
        return (since // datetime.timedelta(microseconds=1)) * 1_000 + nanoseconds
    if isinstance(value, Decimal) and value.is_finite() and value == value.to_integral_value():
        return int(value)
    return value


def same_value(ours: Any, theirs: Any, tolerance: float = TOLERANCE) -> bool:
    """Whether two values count as equal, doubles within a relative `tolerance`."""
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(ours, float) and isinstance(theirs, float):
        both_nan = math.isnan(ours) and math.isnan(theirs)
        return both_nan or math.isclose(ours, theirs, rel_tol=tolerance, abs_tol=0)
    if isinstance(ours, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return same_row(tuple(ours), tuple(theirs), tolerance)
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return same_row(tuple(ours.values()), tuple(theirs.values()), tolerance)
    if isinstance(ours, bool) != isinstance(theirs, bool):
        return False
    return bool(ours == theirs)


def same_row(ours: Row, theirs: Row, tolerance: float = TOLERANCE) -> bool:
    """Whether two rows count as equal."""
    return len(ours) == len(theirs) and all(same_value(a, b, tolerance) for a, b in zip(ours, theirs))


def assert_same(
    ours: Any,
    theirs: Any,
    *,
    ordered: bool = False,
    exact: bool = False,
    nan_is_null: bool = False,
    what: str = "",
    names: tuple[str, str] = ("ours", "theirs"),
) -> None:
    """Asserts that two answers hold the same rows, in the same order if `ordered`.

    Takes what `rows_of` takes. `exact` allows doubles no difference: for sums and quotients of numbers that are
    small multiples of a power of two, whose every order of adding gives the same. `nan_is_null` is for systems
    that cannot tell the two apart. Raises Mismatch.
    """
    tolerance = 0.0 if exact else TOLERANCE
    if surely_same(ours, theirs, tolerance, ordered=ordered):
        return
    our_rows, their_rows = rows_of(ours), rows_of(theirs)
    if nan_is_null:
        our_rows, their_rows = without_nan(our_rows), without_nan(their_rows)
    if ordered:
        pairs = list(zip(our_rows, their_rows))
        our_rest = [mine for mine, other in pairs if not same_row(mine, other, tolerance)] + our_rows[len(pairs) :]
        their_rest = [other for mine, other in pairs if not same_row(mine, other, tolerance)] + their_rows[len(pairs) :]
    else:
        our_rest, their_rest = unmatched(our_rows, their_rows, tolerance)
    if our_rest or their_rest:
        columns = column_names(ours) or column_names(theirs)
        sides = [(names[0], our_rows, our_rest), (names[1], their_rows, their_rest)]
        raise Mismatch(difference(what, columns, sides, ordered=ordered, tolerance=tolerance))


def surely_same(ours: Any, theirs: Any, tolerance: float, *, ordered: bool) -> bool:
    """Whether two tables, both sorted if the order does not count, are the same row by row. False says nothing: a
    little difference may sort rows elsewhere, and not every type is known here. Quick, for large answers."""
    if not isinstance(ours, pa.Table) or not isinstance(theirs, pa.Table):
        return False
    if ours.num_rows != theirs.num_rows or ours.num_columns != theirs.num_columns:
        return False
    sides = [plain_arrays(ours), plain_arrays(theirs)]
    if [array.type for array in sides[0]] != [array.type for array in sides[1]]:
        return False
    if any(array.type not in (pa.int64(), pa.float64(), pa.string(), pa.bool_()) for array in sides[0]):
        return False
    if not ordered and ours.num_rows > 1:
        places = sorted(range(len(sides[0])), key=lambda at: sides[0][at].type == pa.float64())
        keys = [(str(at), "ascending") for at in places]
        tables = [pa.table({str(at): array for at, array in enumerate(side)}) for side in sides]
        sides = [table.sort_by(keys).columns for table in tables]
    return all(same_arrays(mine, other, tolerance) for mine, other in zip(*sides))


def plain_arrays(table: pa.Table) -> list[Any]:
    """The columns, their times, integers and whole decimals as 64 bits, dictionaries as their values, text as one
    type."""
    arrays = []
    for column in table.columns:
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        if pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("ns", kind.tz)).cast(pa.int64())
        elif pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            with contextlib.suppress(pa.ArrowInvalid):
                column = column.cast(pa.int64())
        elif kind in (pa.large_string(), pa.string_view()):
            column = column.cast(pa.string())
        arrays.append(column.combine_chunks())
    return arrays


def same_arrays(ours: Any, theirs: Any, tolerance: float) -> bool:
    """Whether two arrays of one type hold the same values, as `same_value` says."""
    if ours.type != pa.float64():
        return bool(ours.equals(theirs))
    if not ours.is_null().equals(theirs.is_null()):
        return False
    both_nan = pc.and_(pc.is_nan(ours), pc.is_nan(theirs))
    size = pc.max_element_wise(pc.abs(ours), pc.abs(theirs))
    # Infinities are equal or as far apart as can be.
    near = pc.and_(pc.less_equal(pc.abs(pc.subtract(ours, theirs)), pc.multiply(size, tolerance)), pc.is_finite(size))
    same = pc.or_(pc.or_(both_nan, pc.equal(ours, theirs)), near)
    return bool(pc.all(same, min_count=0).as_py())


def without_nan(rows: Iterable[Row]) -> list[Row]:
    """The rows with NULL where they had NaN."""
    return [tuple(None if isinstance(v, float) and math.isnan(v) else v for v in row) for row in rows]


def unmatched(ours: Sequence[Row], theirs: Sequence[Row], tolerance: float) -> tuple[list[Row], list[Row]]:
    """The rows of either side that have no equal on the other, each row used once."""
    width = max((len(row) for row in (*ours[:1], *theirs[:1])), default=0)
    exact = [
        at
        for at in range(width)
        if not any(inexact(row[at]) for side in (ours, theirs) for row in side if at < len(row))
    ]
    groups: dict[Row, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for side, rows in enumerate((ours, theirs)):
        for row in rows:
            key = tuple((isinstance(row[at], bool), row[at]) if at < len(row) else () for at in exact)
            groups[(len(row), *key)][side].append(row)
    our_rest: list[Row] = []
    their_rest: list[Row] = []
    for mine, others in groups.values():
        left = matched_group(mine, others, tolerance)
        our_rest += left[0]
        their_rest += left[1]
    return our_rest, their_rest


def inexact(value: Any) -> bool:
    """Whether a value may differ a little, or cannot be a key of a dictionary."""
    return isinstance(value, (float, list, dict))


def matched_group(ours: list[Row], theirs: list[Row], tolerance: float) -> tuple[list[Row], list[Row]]:
    """What is left of two lists of rows with the same exact values after pairing equals."""
    ours, theirs = sorted(ours, key=sort_key), sorted(theirs, key=sort_key)
    if len(ours) == len(theirs) and all(same_row(a, b, tolerance) for a, b in zip(ours, theirs)):
        return [], []
    if max(len(ours), len(theirs)) > MATCHED_ROWS_MAX:
        pairs = [(mine, other) for mine, other in zip(ours, theirs) if not same_row(mine, other, tolerance)]
        shorter = min(len(ours), len(theirs))
        return [pair[0] for pair in pairs] + ours[shorter:], [pair[1] for pair in pairs] + theirs[shorter:]
    rest, left = [], list(theirs)
    for mine in ours:
        at = next((at for at, other in enumerate(left) if same_row(mine, other, tolerance)), None)
        if at is None:
            rest.append(mine)
        else:
            del left[at]
    return rest, left


def sort_key(row: Row) -> tuple[str, ...]:
    """An order in which rows that count as equal mostly stand at the same place."""
    return tuple(f"{value:.6e}" if isinstance(value, float) else repr(value) for value in row)


def column_names(answer: Any) -> list[str]:
    """The names of an answer's columns, if it has any."""
    if isinstance(answer, list):
        return []
    return list((answer if isinstance(answer, pa.Table) else pa.table(answer)).column_names)


def difference(
    what: str,
    columns: list[str],
    sides: list[tuple[str, list[Row], list[Row]]],
    *,
    ordered: bool,
    tolerance: float,
) -> str:
    """The message of a mismatch."""
    counts = ", ".join(f"{name} has {len(rows)} rows, {len(rest)} of them alone" for name, rows, rest in sides)
    lines = [f"{what}: {counts}" if what else counts]
    if columns:
        lines.append(f"  columns: {', '.join(columns)}")
    blamed = blame(columns, sides[0][2], sides[1][2], tolerance)
    if blamed:
        lines.append(f"  differs in: {blamed}")
    for name, _, rest in sides:
        lines += [f"  {name:<10} {row}" for row in rest[:SHOWN_ROWS_MAX]]
        if len(rest) > SHOWN_ROWS_MAX:
            lines.append(f"  {name:<10} … and {len(rest) - SHOWN_ROWS_MAX} more")
    if ordered:
        lines.append("  (the order of the rows counts)")
    return "\n".join(lines)


def blame(columns: list[str], ours: list[Row], theirs: list[Row], tolerance: float) -> str:
    """The columns in which each lone row differs from the most similar one of the other side."""
    counted: Counter[int] = Counter()
    for mine in ours[:50]:
        differing: list[list[int]] = [
            [at for at, (a, b) in enumerate(zip(mine, other)) if not same_value(a, b, tolerance)]
            for other in theirs[:50]
            if len(other) == len(mine)
        ]
        counted.update(sorted(differing, key=len)[0] if differing else [])
    return ", ".join(columns[at] if at < len(columns) else f"column {at}" for at, _ in counted.most_common())
