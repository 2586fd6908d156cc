"""Results that clients take whole: names that differ, and every type as a value of Python and of frames."""

import copy
import datetime
import decimal
import pickle
import uuid
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tickstone
from tickstone import dbapi


@pytest.fixture
def two(db: tickstone.Database) -> tickstone.Database:
    """Two tables with columns of one name."""
    db.sql("CREATE TABLE a (ts TIMESTAMP, symbol SYMBOL, x BIGINT) TIMESTAMP(ts)")
    db.sql("CREATE TABLE b (ts TIMESTAMP, symbol SYMBOL, y BIGINT) TIMESTAMP(ts)")
    db.sql("INSERT INTO a VALUES ('2024-01-01', 'A', 1)")
    db.sql("INSERT INTO b VALUES ('2024-01-02', 'A', 2)")
    return db


JOINED = "SELECT * FROM a JOIN b ON a.symbol = b.symbol"
NAMES = ["ts", "symbol", "x", "ts_1", "symbol_1", "y"]


def test_a_join_gives_names_that_differ(two: tickstone.Database) -> None:
    result = two.sql(JOINED)
    assert result.columns == NAMES
    assert result.arrow().column_names == NAMES
    assert result.polars().columns == NAMES
    assert list(result.pandas().columns) == NAMES
    assert list(result.numpy()) == NAMES
    assert [batch.schema.names for batch in result.batches()] == [NAMES]
    assert pl.DataFrame(result).columns == NAMES
    with dbapi.connect(database=two) as connection:
        cursor = connection.execute(JOINED)
        assert [column[0] for column in cursor.description or []] == NAMES


@pytest.mark.parametrize("format_", ["csv", "ndjson", "parquet", "arrow"])
def test_files_have_names_that_differ(two: tickstone.Database, tmp_path: Any, format_: str) -> None:
    path = tmp_path / f"joined.{format_}"
    assert two.export(JOINED, path) == 1
    two.import_file(path, "back")
    assert two.table("back").columns == NAMES


@pytest.mark.parametrize(
    ("sql", "names", "row"),
    [
        ("SELECT x, x FROM a", ["x", "x_1"], (1, 1)),
        ("SELECT x, a.x, X FROM a", ["x", "x_1", "x_2"], (1, 1, 1)),
        ("SELECT *, x FROM a", ["ts", "symbol", "x", "x_1"], None),
        ("SELECT a.x AS p, b.y AS q FROM a, b WHERE a.symbol = b.symbol AND a.x < b.y", ["p", "q"], (1, 2)),
        ("SELECT x_1 FROM (SELECT x, x FROM a)", ["x_1"], (1,)),
        (f"SELECT ts_1 > ts AS later, x, y FROM ({JOINED})", ["later", "x", "y"], (True, 1, 2)),
        (f"WITH j AS ({JOINED}) SELECT symbol, symbol_1 FROM j", ["symbol", "symbol_1"], ("A", "A")),
        ("SELECT sum(x) AS p, sum(x::DOUBLE) AS q, sum(x::INT) AS r FROM a", ["p", "q", "r"], (1, 1.0, 1)),
        ("SELECT sum(x) OVER (ORDER BY ts) AS p, sum(x::DOUBLE) OVER (ORDER BY ts) AS q FROM a", ["p", "q"], (1, 1.0)),
    ],
)
def test_expressions_that_look_alike(
    two: tickstone.Database, sql: str, names: list[str], row: tuple[Any, ...] | None
) -> None:
    result = two.sql(sql)
    assert result.columns == names
    found = result.fetchall()
    assert len(found) == 1
    if row is not None:
        assert found == [row] and list(map(type, found[0])) == list(map(type, row))


def test_two_sums_of_one_look_have_names(two: tickstone.Database) -> None:
    result = two.sql("SELECT sum(x), sum(x::DOUBLE) FROM a")
    assert len(set(result.columns)) == 2
    assert result.fetchall() == [(1, 1.0)]


VALUES: list[tuple[str, Any]] = [
    ("TIME '12:30:00.000001'", datetime.time(12, 30, 0, 1)),
    ("INTERVAL '1 day 2 hours'", datetime.timedelta(days=1, hours=2)),
    ("INTERVAL '-1 day 1 microsecond'", datetime.timedelta(days=-1, microseconds=1)),
    ("INTERVAL '1 month 2 days'", tickstone.Interval(1, 2, 0)),
    ("MAP {'a': 1, 'b': NULL}", {"a": 1, "b": None}),
    ("[TIME '01:00:00']", [datetime.time(1)]),
    ("DATE '2024-01-02'", datetime.date(2024, 1, 2)),
    ("CAST('1.50' AS DECIMAL(10, 2))", decimal.Decimal("1.50")),
]


@pytest.mark.parametrize(("expression", "wanted"), VALUES, ids=[expression for expression, _ in VALUES])
def test_values_of_python(db: tickstone.Database, expression: str, wanted: Any) -> None:
    assert db.sql(f"SELECT {expression} AS v").fetchall() == [(wanted,)]
    with dbapi.connect(database=db) as connection:
        assert connection.execute(f"SELECT {expression} AS v").fetchall() == [(wanted,)]


def test_what_a_frame_holds_and_tables_do_not(db: tickstone.Database) -> None:
    frame = pa.table(
        {
            "t32": pa.array([datetime.time(1, 2, 3)], pa.time32("s")),
            "d64": pa.array([datetime.date(2024, 1, 2)], pa.date64()),
            "big": pa.array([decimal.Decimal("1.5")], pa.decimal256(40, 1)),
            "fixed": pa.array([[1, 2]], pa.list_(pa.int64(), 2)),
            "large": pa.array([[1, 2]], pa.large_list(pa.int64())),
            "bytes": pa.array([b"abc"], pa.binary(3)),
            "map": pa.array([[("a", datetime.time(1))]], pa.map_(pa.string(), pa.time64("us"))),
        }
    )
    assert frame.num_rows == 1
    assert db.sql("SELECT * FROM frame").fetchall() == [
        (
            datetime.time(1, 2, 3),
            datetime.date(2024, 1, 2),
            decimal.Decimal("1.5"),
            [1, 2],
            [1, 2],
            b"abc",
            {"a": datetime.time(1)},
        )
    ]


def test_intervals_in_frames(db: tickstone.Database) -> None:
    result = db.sql("SELECT INTERVAL '1 day 2 seconds' AS i UNION ALL SELECT NULL ORDER BY 1 NULLS LAST")
    length = datetime.timedelta(days=1, seconds=2)
    assert result.polars()["i"].to_list() == [length, None]
    frame = result.pandas()
    assert frame["i"].dtype == np.dtype("timedelta64[ns]")
    assert frame["i"][0] == pd.Timedelta(length) and pd.isna(frame["i"][1])
    assert result.numpy()["i"][0] == np.timedelta64(86_402, "s")
    assert result.arrow()["i"].to_pylist()[0] == pa.MonthDayNano([0, 1, 2 * 10**9])
    assert result.cache().polars()["i"].to_list() == [length, None]
    assert result.cache().pandas()["i"][0] == pd.Timedelta(length)
    for read in ("polars", "pandas", "numpy"):
        with pytest.raises(tickstone.Error, match="months, which have no length"):
            getattr(db.sql("SELECT INTERVAL '1 month' AS i"), read)()


def test_uuids_and_bytes_of_no_length_in_files(db: tickstone.Database, tmp_path: Any) -> None:
    db.sql("CREATE TABLE t (n BIGINT, id UUID, ids UUID[], raw BINARY)")
    some = uuid.UUID(int=7)
    rows = [(1, some, [some, None], b""), (2, None, [], None), (3, some, None, b"\x00")]
    for row in rows:
        db.append("t", [row])
    for ending in ("csv", "ndjson", "parquet", "arrow"):
        path = tmp_path / f"t.{ending}"
        db.export("SELECT * FROM t ORDER BY n", path)
        db.sql("CREATE TABLE back (n BIGINT, id UUID, ids UUID[], raw BINARY)")
        db.import_file(path, "back")
        assert db.sql("SELECT * FROM back ORDER BY n").fetchall() == rows, ending
        db.sql("DROP TABLE back")
    assert str(some) in (tmp_path / "t.ndjson").read_text()


def test_groups_by_a_value_and_its_cast(db: tickstone.Database) -> None:
    """Both have one name inside."""
    rows = db.sql("SELECT x AS p, x::DOUBLE AS q FROM (SELECT 1 AS x) a GROUP BY x, x::DOUBLE").fetchall()
    assert rows == [(1, 1.0)]


#: A whole number that no double holds.
BIG = 1_234_567_890_123_456_789


@pytest.mark.parametrize("type_", ["TINYINT", "SMALLINT", "INT", "BIGINT", "BIGINT UNSIGNED"])
def test_whole_numbers_beside_null_stay_whole(db: tickstone.Database, type_: str) -> None:
    number = BIG if type_.startswith("BIGINT") else 7
    result = db.sql(f"SELECT CAST({number} AS {type_}) AS n, 1 AS m UNION ALL SELECT NULL, 2 ORDER BY m")
    frame = result.pandas()
    assert frame["n"].dtype.kind in "iu" and pd.api.types.is_extension_array_dtype(frame["n"].dtype)
    assert frame["n"].tolist() == [number, pd.NA] and frame["m"].dtype == np.dtype("int64")
    assert list(frame.columns) == ["n", "m"]
    array = result.numpy()["n"]
    assert isinstance(array, np.ma.MaskedArray) and array.dtype.kind in "iu"
    assert array[0] == number and array[1] is np.ma.masked
    assert result.df().equals(frame) and result.fetchnumpy()["n"][0] == number
    # Without NULLs they are what they always were.
    none = db.sql(f"SELECT CAST({number} AS {type_}) AS n")
    assert none.pandas()["n"].dtype.name in ("int8", "int16", "int32", "int64", "uint64")
    assert type(none.numpy()["n"]) is np.ndarray


def test_arrays_of_whole_numbers_and_null_stay_whole(db: tickstone.Database) -> None:
    result = db.sql(f"SELECT [{BIG}, NULL] AS l, [[{BIG}, NULL]] AS ll, [1, 2] AS whole, NULL AS nothing")
    frame = result.pandas()
    assert frame["l"][0] == [BIG, None] and frame["ll"][0] == [[BIG, None]]
    assert frame["whole"][0].tolist() == [1, 2] and list(frame.columns) == ["l", "ll", "whole", "nothing"]
    assert result.numpy()["l"][0] == [BIG, None]


def test_a_fetched_time_finds_its_row(db: tickstone.Database) -> None:
    db.sql("CREATE TABLE t (ts TIMESTAMP, tm TIME, n INT) TIMESTAMP(ts)")
    db.sql("INSERT INTO t VALUES ('2024-08-08T09:30:00.123456789', '09:30:00.000000001', 1), ('1960-01-01T00:00:00.000000001', NULL, 2)")
    row = db.sql("SELECT max(ts), max(tm) FROM t").fetchone()
    assert row is not None
    latest, clock = row
    assert isinstance(latest, tickstone.Timestamp) and latest.nanosecond == 789 and latest.microsecond == 123_456
    assert isinstance(clock, tickstone.Time) and clock.nanosecond == 1
    assert db.sql("SELECT n FROM t WHERE ts = $1", [latest]).fetchall() == [(1,)]
    assert db.sql("SELECT n FROM t WHERE tm = $1", [clock]).fetchall() == [(1,)]
    first = db.sql("SELECT min(ts) FROM t").fetchall()[0][0]
    assert str(first) == "1960-01-01 00:00:00.000000001+00:00"
    assert db.sql("SELECT n FROM t WHERE ts = $1", [first]).fetchall() == [(2,)]
    assert db.append("t", [(latest, clock, 3)]) == 1
    assert db.sql("SELECT count(*) FROM t WHERE ts = $1 AND tm = $2", [latest, clock]).fetchall() == [(2,)]
    with dbapi.connect(database=db) as connection:
        rows = connection.execute("SELECT ts FROM t WHERE n = 1").fetchall()
        assert connection.execute("SELECT n FROM t WHERE ts = :ts AND n < 3", {"ts": rows[0][0]}).fetchall() == [(1,)]
    # What a datetime holds is one.
    assert type(db.sql("SELECT TIMESTAMP '2024-08-08T09:30:00.123456'").fetchall()[0][0]) is datetime.datetime


def test_clocks_have_no_zone(db: tickstone.Database) -> None:
    """What the clocks of a zone showed is no instant, also of a sub-query, a constant and by the DB-API."""
    db.sql("CREATE TABLE clocks (ts TIMESTAMP, n INT) TIMESTAMP(ts)")
    db.sql("INSERT INTO clocks VALUES ('2024-08-08T09:30:00', 1), ('2024-08-08T09:30:00.000000007', 2)")
    shown = "ts AT TIME ZONE 'America/New_York'"
    found = db.sql(f"SELECT ts, {shown} AS clock, ({shown}) AT TIME ZONE 'America/New_York' FROM clocks ORDER BY n").fetchall()
    plain, exact = datetime.datetime(2024, 8, 8, 5, 30), tickstone.Timestamp(2024, 8, 8, 5, 30, nanosecond=7)
    assert [row[1] for row in found] == [plain, exact] and all(row[1].tzinfo is None for row in found)
    assert all(row[0] == row[2] and row[0].tzinfo == datetime.UTC for row in found)
    for sql in [
        f"SELECT date_trunc('hour', c) AS hour, 1 FROM (SELECT {shown} AS c FROM clocks) GROUP BY 1",
        "SELECT TIMESTAMP '2024-08-08T09:00:00' AT TIME ZONE 'America/New_York', 1",
        f"SELECT max(date_trunc('hour', {shown})), 1 FROM clocks",
    ]:
        assert db.sql(sql).fetchall() == [(datetime.datetime(2024, 8, 8, 5), 1)], sql
        with dbapi.connect(database=db) as connection:
            assert connection.execute(sql).fetchone() == (datetime.datetime(2024, 8, 8, 5), 1)
    # Columns of frames have none either way.
    table = db.sql(f"SELECT ts, {shown} AS clock FROM clocks").arrow()
    assert {str(kind) for kind in table.schema.types} == {"timestamp[ns]"}
    db.sql(f"CREATE TABLE kept AS SELECT ts, {shown} AS clock FROM clocks")
    assert all(row[1].tzinfo == datetime.UTC for row in db.sql("SELECT ts, clock FROM kept").fetchall())


def test_times_with_nanoseconds_are_times() -> None:
    plain = datetime.datetime(2024, 8, 8, 9, 30, 0, 123_456, datetime.UTC)
    day = datetime.timedelta(days=1)
    made = tickstone.Timestamp(2024, 8, 8, 9, 30, 0, 123_456, datetime.UTC, nanosecond=789)
    assert made != plain and plain != made and plain < made and made > plain and made >= plain
    assert not made == plain and hash(made) != hash(plain) and made.replace(nanosecond=0) == plain
    assert hash(made.replace(nanosecond=0)) == hash(plain) and made.replace(year=2020).nanosecond == 789
    assert made + day - day == made and (day + made).nanosecond == 789 and made - plain == datetime.timedelta()
    east = made.astimezone(datetime.timezone(datetime.timedelta(hours=2)))
    assert east == made and east.hour == 11 and east.isoformat() == "2024-08-08T11:30:00.123456789+02:00"
    assert str(made) == "2024-08-08 09:30:00.123456789+00:00"
    assert made.isoformat(timespec="seconds") == "2024-08-08T09:30:00+00:00"
    assert repr(made).endswith("nanosecond=789)")
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert other == made and type(other) is tickstone.Timestamp
    clock = tickstone.Time(1, 2, 3, nanosecond=4)
    assert clock > datetime.time(1, 2, 3) and str(clock) == "01:02:03.000000004" and clock.replace(hour=5).nanosecond == 4
    assert pickle.loads(pickle.dumps(clock)) == clock and clock.isoformat("seconds") == "01:02:03"
    with pytest.raises(ValueError, match="0 to 999"):
        tickstone.Time(1, nanosecond=1000)
    with pytest.raises(TypeError):
        assert made < plain.replace(tzinfo=None)


def test_times_of_day_in_frames_keep_nanoseconds(db: tickstone.Database) -> None:
    """pyarrow refuses to make objects of them."""
    times = "SELECT TIME '09:30:00.123456789' AS t, 1 AS m UNION ALL SELECT TIME '16:00', 2 UNION ALL SELECT NULL, 3"
    result = db.sql(f"{times} ORDER BY m")
    expected = [tickstone.Time(9, 30, 0, 123456, nanosecond=789), datetime.time(16), None]
    assert [row[0] for row in result.fetchall()] == expected
    for frame in (result.pandas(), result.df()):
        assert frame["t"].tolist() == expected and list(frame.columns) == ["t", "m"]
        assert [type(value) for value in frame["t"]] == [tickstone.Time, datetime.time, type(None)]
    assert result.numpy()["t"].tolist() == expected
    lists = db.sql("SELECT [TIME '09:30:00.000000001', NULL] AS l")
    assert lists.pandas()["l"][0] == [tickstone.Time(9, 30, nanosecond=1), None]
    assert lists.numpy()["l"][0] == [tickstone.Time(9, 30, nanosecond=1), None]
    # Without nanoseconds they are what they always were.
    plain = db.sql("SELECT TIME '09:30:00.123456' AS t")
    assert plain.pandas()["t"][0] == plain.numpy()["t"][0] == datetime.time(9, 30, 0, 123456)
