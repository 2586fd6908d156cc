"""Columns of Arrow as those of pandas and NumPy, without rounding.

Whole numbers beside NULLs stay whole numbers. Neither library has a type for a time of day: it is an object, a plain
`datetime.time`, or a `tickstone.Time` where it has nanoseconds, as rows have it; pyarrow refuses those.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from .nanoseconds import Time

if TYPE_CHECKING:
    import numpy
    import pandas
    import pyarrow

__all__ = ["array_of", "frame_of"]


def frame_of(table: pyarrow.Table) -> pandas.DataFrame:
    """A frame whose whole numbers with NULLs are of nullable types, times of day objects, lists of such Python's."""
    exact = [at for at, column in enumerate(table.columns) if _is_inexact(column)]
    others = [name for at, name in enumerate(table.column_names) if at not in exact]
    frame: pandas.DataFrame = table.select(others).to_pandas()
    for at in exact:
        frame.insert(at, table.column_names[at], _exact(table.column(at)))
    return frame


def array_of(column: pyarrow.ChunkedArray) -> numpy.ndarray[Any, Any]:
    """An array; of whole numbers with NULLs a masked one, of times of day and of lists one of Python's objects."""
    import numpy
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _is_inexact(column):
        array: numpy.ndarray[Any, Any] = column.to_numpy()
        return array
    if pyarrow.types.is_integer(column.type):
        return numpy.ma.masked_array(column.fill_null(0).to_numpy(), column.is_null().to_numpy())
    return numpy.fromiter(_objects(column), dtype=object, count=len(column))


def _is_inexact(column: pyarrow.ChunkedArray) -> bool:
    """Whether pyarrow rounds or refuses: whole numbers beside a NULL and times with nanoseconds, also in lists."""
    import pyarrow
    import pyarrow.compute

    while _is_list(column.type):
        column = pyarrow.compute.list_flatten(column)
    if column.type == pyarrow.time64("ns"):
        return any(nanos % 1_000 for nanos in column.cast("int64").drop_null().to_pylist())
    return bool(pyarrow.types.is_integer(column.type) and column.null_count)


def _is_list(data_type: pyarrow.DataType) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_list(data_type) or pyarrow.types.is_large_list(data_type))


def _objects(column: pyarrow.ChunkedArray) -> list[Any]:
    """The values as Python's objects."""
    import pyarrow

    element, to = column.type, pyarrow.int64()
    while _is_list(element):
        element, to = element.value_type, pyarrow.list_(to)
    if element != pyarrow.time64("ns"):
        values: list[Any] = column.to_pylist()
        return values
    return [_time_of_day(value) for value in column.cast(to).to_pylist()]


def _time_of_day(value: Any) -> Any:
    """Nanoseconds since midnight as a time, also in lists."""
    if value is None:
        return None
    if isinstance(value, list):
        return [_time_of_day(element) for element in value]
    minutes, nanos = divmod(value, 60 * 10**9)
    seconds, nanos = divmod(nanos, 10**9)
    micros, nanos = divmod(nanos, 1_000)
    clock = (*divmod(minutes, 60), seconds, micros)
    return Time(*clock, nanosecond=nanos) if nanos else datetime.time(*clock)


def _exact(column: pyarrow.ChunkedArray) -> pandas.Series[Any]:
    """A column that would be rounded, as it is."""
    import pandas
    import pyarrow

    if not pyarrow.types.is_integer(column.type):
        return pandas.Series(_objects(column), dtype=object)
    dtype = str(column.type).replace("i", "I").replace("uI", "UI")
    return pandas.Series(array_of(column).data, dtype=dtype).mask(column.is_null().to_numpy())
