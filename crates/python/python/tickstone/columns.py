"""Columns of Arrow as those of pandas and NumPy, without rounding: whole numbers beside NULLs stay whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy
    import pandas
    import pyarrow

__all__ = ["array_of", "frame_of"]


def frame_of(table: pyarrow.Table) -> pandas.DataFrame:
    """A frame whose whole numbers with NULLs are of nullable types, and whose lists of such are lists of Python's."""
    exact = [at for at, column in enumerate(table.columns) if _would_round(column)]
    others = [name for at, name in enumerate(table.column_names) if at not in exact]
    frame: pandas.DataFrame = table.select(others).to_pandas()
    for at in exact:
        frame.insert(at, table.column_names[at], _exact(table.column(at)))
    return frame


def array_of(column: pyarrow.ChunkedArray) -> numpy.ndarray[Any, Any]:
    """An array; of whole numbers with NULLs a masked one, of lists of such one of Python's lists."""
    import numpy
    import pyarrow

    if pyarrow.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not _would_round(column):
        array: numpy.ndarray[Any, Any] = column.to_numpy()
        return array
    if pyarrow.types.is_integer(column.type):
        return numpy.ma.masked_array(column.fill_null(0).to_numpy(), column.is_null().to_numpy())
    return numpy.fromiter(column.to_pylist(), dtype=object, count=len(column))


def _would_round(column: pyarrow.ChunkedArray) -> bool:
    """Whether pyarrow makes doubles of a column's whole numbers: those beside a NULL, also in lists."""
    import pyarrow
    import pyarrow.compute

    while pyarrow.types.is_list(column.type) or pyarrow.types.is_large_list(column.type):
        column = pyarrow.compute.list_flatten(column)
    return bool(pyarrow.types.is_integer(column.type) and column.null_count)


def _exact(column: pyarrow.ChunkedArray) -> pandas.Series[Any]:
    """A column that would be rounded, as it is."""
    import pandas
    import pyarrow

    if not pyarrow.types.is_integer(column.type):
        return pandas.Series(column.to_pylist(), dtype=object)
    dtype = str(column.type).replace("i", "I").replace("uI", "UI")
    return pandas.Series(array_of(column).data, dtype=dtype).mask(column.is_null().to_numpy())
