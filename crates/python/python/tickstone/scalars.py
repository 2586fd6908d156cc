"""Single values of Python, pandas, NumPy and pyarrow as those of the engine, without loss.

Libraries guess the type of a list by its first values, and guess microseconds for every time. Here a value becomes
what it is, and a list of such values a column of one type; parameters of statements go the same way.

Flow: any value -> `plain` -> Python's own types and the four below -> `column`, or the native half.
"""

from __future__ import annotations

import datetime
import decimal
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from tickstone.errors import Error

__all__ = ["Instant", "Interval", "Length", "TimeOfDay", "Uuid", "column", "is_exotic", "library", "plain"]


class Instant(int):
    """Nanoseconds since the Unix epoch, UTC."""


class Length(int):
    """A length of time in nanoseconds."""


class TimeOfDay(int):
    """Nanoseconds since midnight."""


class Uuid(bytes):
    """The 16 bytes of a UUID."""


class Interval(NamedTuple):
    """An INTERVAL with months: they have no length, so it is no timedelta."""

    months: int
    days: int
    nanoseconds: int


_OWN = (Instant, Length, TimeOfDay, Uuid)
#: What such values are called in messages.
_NAMES = {Instant: "times", Length: "lengths of time", TimeOfDay: "times of day", Uuid: "UUIDs"}
# What libraries read as it is.
_PLAIN = frozenset((type(None), bool, int, float, str, bytes))

_NANOS_PER_DAY = 86_400 * 10**9
_EPOCH_ORDINAL = datetime.date(1970, 1, 1).toordinal()
_NANOS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9}
_NANOS |= {"D": _NANOS_PER_DAY, "W": 7 * _NANOS_PER_DAY}
#: Of units below a nanosecond: how many are one.
_IN_A_NANO = {"ps": 10**3, "fs": 10**6, "as": 10**9}
_INT64_MAX = 2**63 - 1


def is_exotic(values: Iterable[Any]) -> bool:
    """Whether a list holds, itself or in its lists, what a library would have to guess at."""
    types = set(map(type, values))
    if types <= _PLAIN:
        return False
    if not types <= _PLAIN | {list, tuple}:
        return True
    return is_exotic(chain.from_iterable(value for value in values if isinstance(value, (list, tuple))))


def plain(value: Any) -> Any:
    """A value as one of Python's own types or of those above; what is missing to a library is None.

    Raises:
        Error: for a time that nanoseconds of 64 bits cannot say, or not exactly.
    """
    if type(value) in _PLAIN or isinstance(value, _OWN):
        return value
    for classes, convert in _CONVERSIONS:
        if isinstance(value, classes):
            return convert(value)
    module = type(value).__module__.partition(".")[0]
    of_library = _OF_LIBRARY.get(module)
    return value if of_library is None else of_library(value)


def _of_datetime(value: datetime.datetime) -> Any:
    if value is _nat():
        return None
    if type(value).__module__.partition(".")[0] == "pandas":
        return plain(value.asm8)  # type: ignore[attr-defined]
    days = value.toordinal() - _EPOCH_ORDINAL
    seconds = (days * 24 + value.hour) * 3_600 + value.minute * 60 + value.second
    nanos = seconds * 10**9 + value.microsecond * 1_000 + getattr(value, "nanosecond", 0)
    offset = value.utcoffset()
    return _instant(nanos if offset is None else nanos - _nanos_of(offset), value)


def _of_timedelta(value: datetime.timedelta) -> Any:
    if value is _nat():
        return None
    if type(value).__module__.partition(".")[0] == "pandas":
        return plain(value.asm8)  # type: ignore[attr-defined]
    return _length(_nanos_of(value), value)


def _nanos_of(value: datetime.timedelta) -> int:
    return (value.days * 86_400 + value.seconds) * 10**9 + value.microseconds * 1_000


def _of_time(value: datetime.time) -> TimeOfDay:
    if value.tzinfo is not None:
        raise Error(f"the time of day {value} has a zone", hint="take it off: value.replace(tzinfo=None)")
    seconds = value.hour * 3_600 + value.minute * 60 + value.second
    return TimeOfDay(seconds * 10**9 + value.microsecond * 1_000 + getattr(value, "nanosecond", 0))


def _of_decimal(value: decimal.Decimal) -> decimal.Decimal:
    if not value.is_finite():
        raise Error(f"{value} is no DECIMAL", hint="hand it over as a float")
    return value


def _instant(nanos: int, value: object) -> Instant:
    if not -_INT64_MAX <= nanos <= _INT64_MAX:
        raise Error(f"{value} is outside of what a TIMESTAMP holds", detail="its years are 1677 to 2262")
    return Instant(nanos)


def _length(nanos: int, value: object) -> Length:
    if not -_INT64_MAX <= nanos <= _INT64_MAX:
        raise Error(f"{value} is longer than the 292 years that nanoseconds of 64 bits say")
    return Length(nanos)


def _nat() -> object:
    pandas = sys.modules.get("pandas")
    # No value is this module.
    return sys if pandas is None else getattr(pandas, "NaT", sys)


# NumPy, pandas, pyarrow and Polars: known by their names, so that nothing is imported for who does not use them.


def _of_numpy(value: Any) -> Any:
    name = type(value).__name__
    if name in ("datetime64", "timedelta64"):
        return _of_numpy_time(value, name == "datetime64")
    if name == "ndarray":
        return _of_array(value)
    if name in ("longdouble", "float128", "float96"):
        if value == value and float(value) != value:
            raise Error(f"{value!r} is no DOUBLE", hint="round it: float(value)")
        return float(value)
    # Numbers of a complex type, and records, are what no column holds.
    item = value.item() if hasattr(value, "item") and "complex" not in name and "clong" not in name else value
    return item if type(item) is type(value) else plain(item)


def _of_array(value: Any) -> Any:
    if value.ndim == 0:
        return plain(value[()])
    is_plain = value.dtype.kind in "biuSU" or value.dtype in ("float16", "float32", "float64")
    return value.tolist() if is_plain else _of_list(value)


def _of_numpy_time(value: Any, is_instant: bool) -> Any:
    numpy = sys.modules["numpy"]
    if numpy.isnat(value):
        return None
    unit, count = numpy.datetime_data(value.dtype)
    ticks = int(value.astype("int64")) * count
    make: Callable[[int, object], Any] = _instant if is_instant else _length
    if unit in _NANOS:
        return make(ticks * _NANOS[unit], value)
    if unit in _IN_A_NANO:
        nanos, rest = divmod(ticks, _IN_A_NANO[unit])
        if rest:
            raise Error(f"{value!r} is finer than a nanosecond")
        return make(nanos, value)
    if not is_instant or unit not in ("Y", "M"):
        raise Error(f"{value!r} is of no unit that has a length", hint="say it in days or shorter units")
    year, month = divmod(ticks * (12 if unit == "Y" else 1), 12)
    if not 1 <= year + 1970 <= 9999:
        raise Error(f"{value} is outside of what a TIMESTAMP holds", detail="its years are 1677 to 2262")
    day = datetime.date(year + 1970, month + 1, 1).toordinal() - _EPOCH_ORDINAL
    return make(day * _NANOS_PER_DAY, value)


def _of_pandas(value: Any) -> Any:
    name = type(value).__name__
    if name in ("NAType", "NaTType"):
        return None
    return [plain(one) for one in value] if name == "Series" or name.endswith("Index") else value


def _of_pyarrow(value: Any) -> Any:
    name = type(value).__name__
    if name == "TimestampScalar":
        return None if value.value is None else _instant(value.value * _NANOS[value.type.unit], value)
    if name == "DurationScalar":
        return None if value.value is None else _length(value.value * _NANOS[value.type.unit], value)
    if name in ("Time32Scalar", "Time64Scalar"):
        return None if value.value is None else TimeOfDay(value.value * _NANOS[value.type.unit])
    if name.endswith(("Array", "ListScalar")):
        return None if getattr(value, "is_valid", True) is False else [plain(one) for one in value]
    return plain(value.as_py()) if name.endswith("Scalar") else value


def _of_polars(value: Any) -> Any:
    if type(value).__name__ != "Series":
        return value
    physical = {"Datetime": Instant, "Duration": Length, "Time": TimeOfDay}.get(value.dtype.base_type().__name__)
    if physical is None:
        return [plain(one) for one in value]
    unit = _NANOS[getattr(value.dtype, "time_unit", None) or "ns"]
    return [None if one is None else physical(one * unit) for one in value.to_physical()]


_OF_LIBRARY: dict[str, Callable[[Any], Any]] = {
    "numpy": _of_numpy,
    "pandas": _of_pandas,
    "pyarrow": _of_pyarrow,
    "polars": _of_polars,
}


def _of_list(value: Iterable[Any]) -> list[Any]:
    return _at_midnight([plain(one) for one in value])


def _of_mapping(value: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(name): plain(one) for name, one in value.items()}


#: Classes and what their values become; the narrower come first: a datetime is a date.
_CONVERSIONS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (datetime.datetime, _of_datetime),
    (datetime.timedelta, _of_timedelta),
    (datetime.time, _of_time),
    (decimal.Decimal, _of_decimal),
    (uuid.UUID, lambda value: Uuid(value.bytes)),
    ((bytearray, memoryview), bytes),
    ((list, tuple, set, frozenset), _of_list),
    (Mapping, _of_mapping),
)


# Columns.


def column(values: list[Any]) -> object:
    """A list as a column of pyarrow, or of Polars where that is missing: of one type, which loses nothing.

    Raises:
        Error: where the values do not go together.
        ImportError: where neither library is installed.
    """
    types = set(map(type, values)) - {type(None)}
    # A list of one type of NumPy's, times apart, is of the type that it has there.
    alike = len(types) == 1 and all(_has_own_width(type_) for type_ in types)
    if is_exotic(values) and not alike:
        values = _at_midnight([plain(value) for value in values])
    made_with = library()
    return made_with.array(values, _type_of(values, made_with))


def _at_midnight(values: list[Any]) -> list[Any]:
    """Values where days that stand among instants are instants, too."""
    if not {Instant, datetime.date} <= set(map(type, values)):
        return values
    return [
        Instant((value.toordinal() - _EPOCH_ORDINAL) * _NANOS_PER_DAY) if type(value) is datetime.date else value
        for value in values
    ]


def _has_own_width(type_: type) -> bool:
    return type_.__module__ == "numpy" and type_.__name__ in (
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )


def _type_of(values: Iterable[Any], library: Library) -> Any:
    """The type of plain values where a library would guess another, else None."""
    types = set(map(type, values)) - {type(None)}
    own = [type_ for type_ in _OWN if type_ in types]
    if own:
        others = types - {own[0]}
        if others:
            names = sorted(_NAMES.get(type_, type_.__name__) for type_ in others)
            raise Error(f"{_NAMES[own[0]]} stand beside values of {', '.join(names)}")
        return library.types[own[0]]
    if types == {list}:
        inner = _type_of(list(chain.from_iterable(value for value in values if value is not None)), library)
        return None if inner is None else library.list_of(inner)
    if types == {dict}:
        return library.struct_of(_fields_of(values, library))
    if types == {int} and max(value for value in values if value is not None) > _INT64_MAX:
        return library.types[int]
    return None


def _fields_of(values: Iterable[Any], library: Library) -> dict[str, tuple[Any, list[Any]]]:
    """Of each field its type, None where that may be guessed, and its values."""
    rows = [value for value in values if value is not None]
    names = dict.fromkeys(name for row in rows for name in row)
    columns = {name: [row.get(name) for row in rows] for name in names}
    return {name: (_type_of(column, library), column) for name, column in columns.items()}


@dataclass(frozen=True)
class Library:
    """What columns and frames are made with."""

    #: Of types of ours, and of whole numbers beyond 63 bits.
    types: dict[type, Any]
    list_of: Callable[[Any], Any]
    #: A type of named types, each None where it is that of the values beside it.
    struct_of: Callable[[dict[str, tuple[Any, list[Any]]]], Any]
    #: A column of values, of a type where one is given.
    array: Callable[[list[Any], Any], object]
    #: A frame of columns by their names.
    table: Callable[[dict[str, object]], object]


def library() -> Library:
    """pyarrow, or Polars where that is missing.

    Raises:
        ImportError: where neither is installed.
    """
    try:
        return _with_pyarrow()
    except ImportError:
        pass
    try:
        return _with_polars()
    except ImportError as error:
        raise ImportError("dicts and rows need pyarrow or Polars: pip install 'tickstone[polars]'") from error


def _with_pyarrow() -> Library:
    import pyarrow

    return Library(
        types={
            Instant: pyarrow.timestamp("ns"),
            Length: pyarrow.duration("ns"),
            TimeOfDay: pyarrow.time64("ns"),
            Uuid: pyarrow.binary(16),
            int: pyarrow.uint64(),
        },
        list_of=pyarrow.list_,
        struct_of=lambda fields: pyarrow.struct(
            [(name, pyarrow.infer_type(values) if type_ is None else type_) for name, (type_, values) in fields.items()]
        ),
        array=lambda values, type_: pyarrow.array(values, type=type_),
        table=pyarrow.table,
    )


def _with_polars() -> Library:
    import polars

    return Library(
        types={
            Instant: polars.Datetime("ns"),
            Length: polars.Duration("ns"),
            TimeOfDay: polars.Time(),
            Uuid: polars.Binary(),
            int: polars.UInt64(),
        },
        list_of=polars.List,
        struct_of=lambda fields: polars.Struct(
            {name: polars.Series(values).dtype if type_ is None else type_ for name, (type_, values) in fields.items()}
        ),
        array=lambda values, type_: polars.Series(values, dtype=type_),
        table=polars.DataFrame,
    )
