"""Rows in: frames of every kind, unusual types, names that need quoting."""

import datetime
import decimal
import sys
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tickstone

NOON = datetime.datetime(2024, 8, 8, 12)
NOON_NS = 1_723_118_400_000_000_000
COLUMNS: dict[str, list[Any]] = {
    "ts": [NOON, NOON + datetime.timedelta(microseconds=1), NOON + datetime.timedelta(days=1)],
    "symbol": ["A", "B", "A"],
    "price": [1.5, None, 2.5],
    "size": [1, 2, None],
}
ROWS = list(zip(*COLUMNS.values(), strict=True))


def nanoseconds(db: tickstone.Database, sql: str) -> list[int]:
    """The one column of a query, times as nanoseconds since the Unix epoch."""
    column = db.sql(sql).arrow().column(0)
    assert column.type == pa.timestamp("ns"), column.type
    values: list[int] = column.cast(pa.int64()).to_pylist()
    return values


class OnlyStream:
    """A frame of a library nobody has heard of: nothing but the capsule."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


FRAMES: dict[str, Callable[[], Any]] = {
    "polars": lambda: pl.DataFrame(COLUMNS),
    "polars lazy": lambda: pl.DataFrame(COLUMNS).lazy(),
    "pandas": lambda: pd.DataFrame(COLUMNS).astype({"size": "Int64"}),
    "pyarrow table": lambda: pa.table(COLUMNS),
    "pyarrow batch": lambda: pa.RecordBatch.from_pydict(COLUMNS),
    "pyarrow reader": lambda: pa.table(COLUMNS).to_reader(),
    "capsule": lambda: OnlyStream(pa.table(COLUMNS)),
    "dict of lists": lambda: COLUMNS,
    "list of dicts": lambda: [dict(zip(COLUMNS, row, strict=True)) for row in ROWS],
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_kind_of_frame(db: tickstone.Database, kind: str) -> None:
    assert db.append("t", FRAMES[kind](), timestamp="ts", series="symbol", create=True) == 3
    found = db.sql("SELECT * FROM t ORDER BY ts").fetchall()
    assert [row[1:] for row in found] == [row[1:] for row in ROWS]
    assert [row[0].replace(tzinfo=None) for row in found] == COLUMNS["ts"]


def test_tuples_into_a_table(db: tickstone.Database) -> None:
    db.sql("CREATE TABLE t (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts)")
    assert db.append("t", ROWS) == 3
    assert db.sql("SELECT symbol, price, size FROM t ORDER BY ts").fetchall() == [row[1:] for row in ROWS]


def test_arrays_of_numpy(db: tickstone.Database) -> None:
    frame = {"ts": np.array([NOON_NS], dtype="datetime64[ns]"), "x": np.array([1.5], dtype=np.float32)}
    db.append("t", frame, timestamp="ts", create=True)
    assert db.sql("SELECT x FROM t").fetchall() == [(1.5,)]
    assert nanoseconds(db, "SELECT ts FROM t") == [NOON_NS]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_units_and_zones_of_times(db: tickstone.Database, unit: str, zone: str | None) -> None:
    """A time with a zone is the moment it says; Arrow holds such moments in UTC."""
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    values = [NOON_NS // 10**9 * per_second, -1, None]
    frame = pa.table({"t": pa.array(values, pa.timestamp(unit, zone)), "ts": [NOON] * 3, "n": [0, 1, 2]})
    db.append("t", frame, timestamp="ts", create=True)
    assert nanoseconds(db, "SELECT t FROM t ORDER BY n") == [NOON_NS, -(10**9) // per_second, None]


def test_local_times_of_pandas(db: tickstone.Database) -> None:
    times = pd.to_datetime(["2024-03-10 01:59:59", "2024-03-10 03:00:00"]).tz_localize("America/New_York")
    db.append("t", pd.DataFrame({"ts": times}), timestamp="ts", create=True)
    first, second = nanoseconds(db, "SELECT ts FROM t ORDER BY ts")
    assert second - first == 10**9, "the clocks went forward in between"


def test_a_time_beyond_nanoseconds_is_refused(db: tickstone.Database) -> None:
    frame = pa.table({"ts": pa.array([10**13], pa.timestamp("s"))})
    with pytest.raises(tickstone.Error, match="ts"):
        db.append("t", frame, timestamp="ts", create=True)


def test_categoricals_become_symbols(db: tickstone.Database) -> None:
    polars = pl.DataFrame({"s": pl.Series(["A", None, "B", "A"], dtype=pl.Categorical)})
    pandas = pd.DataFrame({"s": pd.Categorical(["A", None, "B", "A"], categories=["unused", "B", "A"])})
    enum = pl.DataFrame({"s": pl.Series(["A", None, "B", "A"], dtype=pl.Enum(["A", "B"]))})
    for at, frame in enumerate((polars, pandas, enum)):
        db.append(f"t{at}", frame, create=True)
        relation = db.sql(f"SELECT * FROM t{at}")
        assert relation.types == ["SYMBOL"]
        assert relation.arrow().column("s").type == pa.dictionary(pa.uint32(), pa.string())
        assert [row[0] for row in relation.fetchall()] == ["A", None, "B", "A"]


def test_columns_of_nulls_alone_come_from_polars(db: tickstone.Database) -> None:
    db.sql("CREATE TABLE t (ts TIMESTAMP, px DOUBLE, s SYMBOL, u UUID, f BOOLEAN) TIMESTAMP(ts)")
    nothing = pl.DataFrame({"ts": [datetime.datetime(2024, 1, 1)], "px": [None], "s": [None], "u": [None], "f": [None]})
    db.append("t", nothing)
    db.append("t", nothing.lazy())
    assert db.sql("SELECT px, s, u, f FROM t").fetchall() == [(None, None, None, None)] * 2
    assert db.sql("SELECT count(*), count(px) FROM nothing").fetchall() == [(1, 0)]


@pytest.mark.parametrize("kind", ["DOUBLE", "INT", "BIGINT UNSIGNED", "DECIMAL(18, 3)"])
def test_lengths_of_time_are_no_numbers(db: tickstone.Database, kind: str) -> None:
    db.sql(f"CREATE TABLE t (ts TIMESTAMP, n {kind}) TIMESTAMP(ts)")
    moment = pa.array([0], pa.timestamp("ns"))
    for length in (pa.array([1], pa.duration("s")), pa.array([(0, 1, 0)], pa.month_day_nano_interval())):
        with pytest.raises(tickstone.Error, match="column 'n' is"):
            db.append("t", pa.table({"ts": moment, "n": length}))


INTEGERS = [("Int8", 127), ("Int16", -32768), ("Int32", 2**31 - 1), ("Int64", -(2**63)), ("UInt64", 2**64 - 1)]


@pytest.mark.parametrize(("dtype", "extreme"), INTEGERS)
def test_nullable_integers_of_pandas_are_exact(db: tickstone.Database, dtype: Any, extreme: int) -> None:
    db.append("t", pd.DataFrame({"n": pd.Series([extreme, None, 1], dtype=dtype)}), create=True)
    assert db.sql("SELECT n FROM t").fetchall() == [(extreme,), (None,), (1,)]


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.uint64()])
def test_integers_keep_their_width(db: tickstone.Database, kind: pa.DataType) -> None:
    db.append("t", pa.table({"n": pa.array([1, None, 3], kind)}), create=True)
    table = db.sql("SELECT n FROM t").arrow()
    assert table.column("n").type == kind and table.column("n").to_pylist() == [1, None, 3]


def test_decimals_are_exact(db: tickstone.Database) -> None:
    values = [decimal.Decimal("12345678901234567.89"), None, decimal.Decimal("-0.01")]
    db.append("t", pa.table({"d": pa.array(values, pa.decimal128(20, 2))}), create=True)
    relation = db.sql("SELECT d FROM t")
    assert relation.fetchall() == [(value,) for value in values]
    assert relation.types == ["DECIMAL(20,2)"] or relation.types == ["DECIMAL(20, 2)"]


def test_booleans_dates_and_bytes(db: tickstone.Database) -> None:
    frame = pa.table(
        {"b": [True, None], "d": [datetime.date(2024, 2, 29), None], "x": [b"\x00\xff", None], "s": ["", None]}
    )
    db.append("t", frame, create=True)
    assert db.sql("SELECT * FROM t").fetchall() == [
        (True, datetime.date(2024, 2, 29), b"\x00\xff", ""),
        (None, None, None, None),
    ]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_nan_is_not_null(db: tickstone.Database, kind: pa.DataType) -> None:
    db.append("t", pa.table({"x": pa.array([float("nan"), None, -0.0, float("inf")], kind)}), create=True)
    nan, null, zero, infinite = [row[0] for row in db.sql("SELECT x FROM t").fetchall()]
    assert nan != nan and null is None and str(zero) == "-0.0" and infinite == float("inf")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1.0, None], None, []], pa.list_(pa.float64())),
        pa.array([{"a": 1}, None, {"a": 2}], pa.struct([("a", pa.int64())])),
        pa.array([[(1, 2)], None, []], pa.map_(pa.int64(), pa.int64())),
    ],
    ids=["list", "struct", "map"],
)
def test_nested_types_are_kept_or_named_in_an_error(db: tickstone.Database, column: pa.Array) -> None:
    frame = pa.table({"levels": column})
    try:
        db.append("t", frame, create=True)
    except tickstone.Error as error:
        assert "levels" in str(error) and str(column.type).split("<")[0].lower() in str(error).lower()
        assert db.tables() == []
    else:
        assert db.sql("SELECT levels FROM t").arrow().column(0).to_pylist() == column.to_pylist()


def test_frames_without_rows(db: tickstone.Database) -> None:
    empty = pa.table({"ts": pa.array([], pa.timestamp("ns")), "symbol": pa.array([], pa.string())})
    assert db.append("t", empty, timestamp="ts", create=True) == 0
    assert db.append("t", pl.DataFrame(empty)) == 0
    assert db.append("t", pd.DataFrame({"ts": pd.to_datetime([]), "symbol": pd.Series([], dtype="str")})) == 0
    assert db.sql("SELECT * FROM t").fetchall() == []
    assert db.sql("SELECT * FROM t").arrow().column_names == ["ts", "symbol"]


@pytest.mark.parametrize("name", ["select", "a b", 'say "hi"', "it's", "数量", "A.b", "x;--", "UPPER"])
def test_names_that_need_quoting(db: tickstone.Database, name: str) -> None:
    frame = pa.table({"ts": pa.array([1, 2], pa.timestamp("ns")), name: [1.0, 2.0], f"{name} 2": ["x", "y"]})
    db.append(name, frame, timestamp="ts", create=True)
    assert db.tables() == [name]
    table = db.table(name)
    assert table.columns == ["ts", name, f"{name} 2"]
    assert table.select(name).fetchall() == [(1.0,), (2.0,)] if name.isidentifier() else True
    assert table.count() == 2
    assert table.head(1).arrow().column(name).to_pylist() == [1.0]


def test_columns_are_found_by_name(db: tickstone.Database) -> None:
    db.sql("CREATE TABLE t (ts TIMESTAMP, a BIGINT, b DOUBLE) TIMESTAMP(ts)")
    db.append("t", {"b": [2.0], "ts": [NOON], "a": [1]})
    db.append("t", {"ts": [NOON], "a": [3]})
    assert db.sql("SELECT a, b FROM t ORDER BY a").fetchall() == [(1, 2.0), (3, None)]


def test_what_does_not_fit_is_refused_whole(db: tickstone.Database) -> None:
    db.sql("CREATE TABLE t (ts TIMESTAMP, a BIGINT) TIMESTAMP(ts)")
    for wrong in (
        {"ts": [NOON], "a": [1], "surplus": [1]},
        {"ts": [NOON, None], "a": [1, 2]},
        {"ts": [NOON], "a": ["text"]},
    ):
        with pytest.raises((tickstone.Error, TypeError, ValueError)):
            db.append("t", wrong)
    with pytest.raises((tickstone.Error, TypeError, ValueError)):
        db.append("t", {"ts": [NOON, NOON], "a": [1]})
    with pytest.raises(TypeError):
        db.append("t", 42)
    with pytest.raises(tickstone.Error, match="nowhere"):
        db.append("nowhere", {"a": [1]})
    assert db.sql("SELECT count(*) FROM t").fetchone() == (0,)


UNREADABLE: dict[str, tuple[Any, str]] = {
    "columns of different length": ({"ts": [NOON, NOON], "a": [1]}, "length"),
    "values of different types": ({"ts": [NOON], "a": [1, "x"]}, "column 'a' cannot be read"),
    "list of dicts": ([{"ts": NOON, "a": 1}, {"ts": NOON, "a": "x"}], "column 'a' cannot be read"),
    "list of tuples": ([(NOON, 1), (NOON, "x")], "column 'a' cannot be read"),
    "an object": ({"ts": [NOON], "a": [object()]}, "column 'a' cannot be read"),
    "a large number": ({"ts": [NOON], "a": [2**70]}, "column 'a' cannot be read"),
    "no column": ({"ts": 5}, "column 'ts' cannot be read"),
    "complex numbers": ({"ts": [NOON], "a": np.array([1j])}, "cannot be read"),
    "pandas": (pd.DataFrame({"ts": [NOON], "a": [object()]}), "column 'a' cannot be read"),
    "a short tuple": ([(NOON, 1), (NOON,)], "row 2 has 1 values, and there are 2 columns"),
    "no time": ({"ts": [NOON, pd.NaT], "a": [1, 2]}, "row 2: the designated timestamp 'ts' is NULL"),
}


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_cannot_be_read_is_an_error_of_the_package(db: tickstone.Database, kind: str) -> None:
    db.sql("CREATE TABLE t (ts TIMESTAMP, a BIGINT) TIMESTAMP(ts)")
    frame, said = UNREADABLE[kind]
    with pytest.raises(tickstone.Error, match=said):
        db.append("t", frame)
    assert db.table("t").count() == 0


def test_columns_are_read_without_pyarrow(db: tickstone.Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    db.append("t", {"a": [1, pd.NA, 3], "s": ["x", "y", None]}, create=True)
    assert db.sql("SELECT * FROM t").fetchall() == [(1, "x"), (None, "y"), (3, None)]
    for wrong in ({"a": [1, 2], "s": ["x"]}, {"a": [1, "x"]}):
        with pytest.raises(tickstone.Error, match="cannot be read"):
            db.append("t", wrong)


def test_what_pandas_calls_missing_is_null(db: tickstone.Database) -> None:
    db.sql("CREATE TABLE t (n BIGINT, x DOUBLE, later TIMESTAMP)")
    db.append("t", {"n": [1, pd.NA], "x": [1.5, pd.NA], "later": [NOON, pd.NaT]})
    assert db.sql("SELECT n, x, later IS NULL FROM t").fetchall() == [(1, 1.5, False), (None, None, True)]


def test_rows_for_a_table_that_does_not_exist(db: tickstone.Database) -> None:
    db.sql("CREATE TABLE t (a BIGINT)")
    with db.transaction() as transaction:
        for append in (db.append, transaction.append):
            for rows in ([], [(1,)]):
                for columns in (None, ["a"]):
                    with pytest.raises(tickstone.Error, match="'nope' does not exist") as caught:
                        append("nope", rows, columns=columns)
                    assert caught.value.hint == "the tables are t"
    with pytest.raises(tickstone.Error) as caught:
        db.append("nope", [(1,)], create=True)
    assert "columns=" in str(caught.value.hint)
    assert db.append("new", [(1,)], columns=["a"], create=True) == 1


def test_equal_times_keep_their_order(db: tickstone.Database) -> None:
    frame = pa.table({"ts": pa.array([5] * 1_000, pa.timestamp("ns")), "n": range(1_000)})
    db.append("t", frame, timestamp="ts", create=True)
    assert db.sql("SELECT first(n), last(n) FROM t").fetchall() == [(0, 999)]


@pytest.mark.parametrize("sync", ["always", "interval", "never"])
def test_sync_policies(db: tickstone.Database, sync: Literal["always", "interval", "never"]) -> None:
    assert db.append("t", {"ts": [NOON]}, timestamp="ts", create=True, sync=sync) == 1
