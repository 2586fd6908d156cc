"""Single values of Python and of libraries: nothing is lost on the way in, whichever way they take."""

import datetime
import decimal
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tickstone
from tickstone import scalars

NANOS = st.integers(-(2**63) + 1, 2**63 - 1)
UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3_600 * 10**9, "D": 86_400 * 10**9}


def whole(nanos: int, unit: str) -> int:
    """The same time without what is finer than a unit."""
    return nanos // UNITS[unit] * UNITS[unit]


def numpy_in(unit: str) -> Callable[[int], tuple[Any, int]]:
    """A time of NumPy in a unit, and its nanoseconds."""
    return lambda nanos: (np.array(nanos // UNITS[unit]).astype(f"datetime64[{unit}]")[()], whole(nanos, unit))


def python_time(nanos: int) -> tuple[Any, int]:
    """A datetime without a zone."""
    value = datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=nanos // 1_000)
    return value, whole(nanos, "us")


def zoned(zone: str) -> Callable[[int], tuple[Any, int]]:
    """A Timestamp of pandas in a zone."""
    return lambda nanos: (pd.Timestamp(nanos, unit="ns", tz="UTC").tz_convert(zone), nanos)


INSTANTS: dict[str, Callable[[int], tuple[Any, int]]] = {
    "pandas": lambda nanos: (pd.Timestamp(nanos, unit="ns"), nanos),
    "pandas in Berlin": zoned("Europe/Berlin"),
    "pandas in Kathmandu": zoned("Asia/Kathmandu"),
    "python": python_time,
    "pyarrow": lambda nanos: (pa.scalar(nanos, pa.timestamp("ns")), nanos),
    "pyarrow in milliseconds": lambda nanos: (pa.scalar(nanos // 10**6, pa.timestamp("ms")), whole(nanos, "ms")),
} | {f"numpy in {unit}": numpy_in(unit) for unit in UNITS}


@st.composite
def instants(draw: st.DrawFn) -> tuple[Any, int]:
    """A time of any library, and its nanoseconds since the epoch."""
    # The days at the ends are not whole, and zones move them.
    nanos = draw(st.integers(-(2**63) + 2 * UNITS["D"], 2**63 - 2 * UNITS["D"]))
    return INSTANTS[draw(st.sampled_from(sorted(INSTANTS)))](nanos)


def stored(db: tickstone.Database, table: str, column: str) -> list[int | None]:
    """A column of times as nanoseconds, in the order of `n`."""
    times = db.sql(f"SELECT {column} FROM {table} ORDER BY n").arrow().column(0)
    assert times.type == pa.timestamp("ns")
    values: list[int | None] = times.cast(pa.int64()).to_pylist()
    return values


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(instants(), st.sampled_from([(None, None), (pd.NaT, None), (pd.NA, None)])), min_size=1))
def test_times_of_all_libraries_beside_each_other(rows: list[tuple[Any, int | None]]) -> None:
    wanted = [nanos for _, nanos in rows]
    values = [value for value, _ in rows]
    numbered = list(range(len(rows)))
    with tickstone.open(":memory:") as db:
        db.sql("CREATE TABLE t (n BIGINT, at TIMESTAMP)")
        db.append("t", {"n": numbered, "at": values})
        assert stored(db, "t", "at") == wanted
        db.sql("TRUNCATE TABLE t")
        db.append("t", [{"n": n, "at": value} for n, value in zip(numbered, values, strict=True)])
        assert stored(db, "t", "at") == wanted
        db.sql("TRUNCATE TABLE t")
        db.append("t", list(zip(numbered, values, strict=True)))
        assert stored(db, "t", "at") == wanted
        db.sql("TRUNCATE TABLE t")
        db.append("t", pd.DataFrame({"n": numbered, "at": pd.Series(values, dtype=object)}))
        assert stored(db, "t", "at") == wanted
        db.sql("TRUNCATE TABLE t")
        with db.transaction() as transaction:
            transaction.append("t", {"n": numbered, "at": values})
        assert stored(db, "t", "at") == wanted
        db.sql("TRUNCATE TABLE t")
        for n, value in zip(numbered, values, strict=True):
            db.sql("INSERT INTO t VALUES ($1, $2)", [n, value])
        assert stored(db, "t", "at") == wanted
        for value, nanos in rows:
            if nanos is not None:
                found = db.sql("SELECT count(*) FROM t WHERE at = :v", v=value).fetchone()
                assert found == (wanted.count(nanos),), value
        found = db.sql("SELECT count(*) FROM t WHERE at IN ($1)", [values]).fetchone()
        assert found == (sum(nanos is not None for nanos in wanted),)


@settings(max_examples=30, deadline=None)
@given(st.lists(instants(), min_size=1, max_size=5))
def test_times_in_lists(rows: list[tuple[Any, int]]) -> None:
    with tickstone.open(":memory:") as db:
        db.append("t", {"n": [1, 2], "times": [[value for value, _ in rows], None]}, create=True)
        (times, _) = db.sql("SELECT times FROM t ORDER BY n").arrow().column(0)
        assert times.values.cast(pa.int64()).to_pylist() == [nanos for _, nanos in rows]


@settings(max_examples=60, deadline=None)
@given(NANOS)
def test_lengths_of_time(nanos: int) -> None:
    values = [
        pd.Timedelta(nanos, unit="ns"),
        np.timedelta64(nanos, "ns"),
        pa.scalar(nanos, pa.duration("ns")),
        pd.Timedelta(nanos, unit="ns").to_numpy(),
    ]
    assert [scalars.plain(value) for value in values] == [nanos] * len(values)
    assert all(isinstance(scalars.plain(value), scalars.Length) for value in values)
    short = datetime.timedelta(microseconds=nanos // 1_000)
    assert scalars.plain(short) == whole(nanos, "us")


OTHERS: list[tuple[list[Any], list[Any]]] = [
    ([decimal.Decimal("1.50"), decimal.Decimal("-2.25")], [decimal.Decimal("1.50"), decimal.Decimal("-2.25")]),
    ([np.int8(3), 5, np.uint16(7)], [3, 5, 7]),
    ([np.float32(1.5), 2.5, np.float64(3.5)], [1.5, 2.5, 3.5]),
    ([np.longdouble(1.5), 2.5], [1.5, 2.5]),
    ([np.bool_(True), False], [True, False]),
    ([np.str_("a"), "b"], ["a", "b"]),
    ([np.bytes_(b"a"), bytearray(b"b"), memoryview(b"c")], [b"a", b"b", b"c"]),
    ([np.array(3), 4], [3, 4]),
    ([2**63, 2**64 - 1], [2**63, 2**64 - 1]),
    ([uuid.UUID(int=5), uuid.UUID(int=2**127)], [uuid.UUID(int=5), uuid.UUID(int=2**127)]),
    ([datetime.date(2024, 1, 2), None], [datetime.date(2024, 1, 2), None]),
    ([pa.scalar(7), pa.scalar(None, pa.int64())], [7, None]),
    ([np.array([1.5, 2.5]), [3.5], None], [[1.5, 2.5], [3.5], None]),
]


@pytest.mark.parametrize(("values", "wanted"), OTHERS, ids=[" and ".join(type(value).__name__ for value in values) for values, _ in OTHERS])
def test_values_of_other_types(db: tickstone.Database, values: list[Any], wanted: list[Any]) -> None:
    db.append("t", {"n": list(range(len(values))), "v": values}, create=True)
    assert db.sql("SELECT v FROM t ORDER BY n").fetchall() == [(value,) for value in wanted]
    for value, expected in zip(values, wanted, strict=True):
        if not isinstance(expected, (list, uuid.UUID)):
            assert db.sql("SELECT $1 AS v", [value]).fetchall() == [(expected,)]


def test_a_day_beside_times_is_its_midnight(db: tickstone.Database) -> None:
    db.sql("CREATE TABLE t (n BIGINT, at TIMESTAMP)")
    days = [(datetime.date(2024, 1, 2), 1_704_153_600), (datetime.datetime(2024, 1, 2, 5), 1_704_171_600)]
    for pairs in (days, days[::-1]):
        db.append("t", {"n": [1, 2], "at": [value for value, _ in pairs]})
        assert stored(db, "t", "at") == [seconds * 10**9 for _, seconds in pairs]
        db.sql("TRUNCATE TABLE t")


def test_times_of_day(db: tickstone.Database) -> None:
    noon = datetime.time(12, 0, 0, 123_456)
    assert db.sql("SELECT $1 AS v", [noon]).fetchall() == [(noon,)]
    with pytest.raises(tickstone.Error, match="has a zone"):
        db.sql("SELECT $1 AS v", [noon.replace(tzinfo=zoneinfo.ZoneInfo("UTC"))])


REFUSED = [
    np.datetime64("3000-01-01"),
    np.datetime64(1, "ps"),
    np.timedelta64(1, "M"),
    datetime.datetime(1500, 1, 1),
    pd.Timestamp("3000-01-01"),
    decimal.Decimal("NaN"),
    datetime.time(1, tzinfo=datetime.UTC),
    np.longdouble(1) / 3,
]


@pytest.mark.parametrize("value", REFUSED, ids=repr)
def test_what_cannot_be_held_is_refused(db: tickstone.Database, value: Any) -> None:
    with pytest.raises(tickstone.Error):
        db.sql("SELECT $1 AS v", [value])
    with pytest.raises(tickstone.Error):
        db.append("t", {"v": [value]}, create=True)


@pytest.mark.parametrize(
    "values",
    [[pd.Timestamp(0), 5], [5, np.datetime64(0, "ns")], [uuid.UUID(int=1), b"a"], [pd.Timedelta(1), pd.Timestamp(0)]],
    ids=repr,
)
def test_values_that_do_not_go_together(db: tickstone.Database, values: list[Any]) -> None:
    with pytest.raises(tickstone.Error, match="column 'v' cannot be read"):
        db.append("t", {"v": values}, create=True)
    assert db.tables() == []
