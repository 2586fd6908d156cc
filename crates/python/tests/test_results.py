"""Results that clients take whole: names that differ, and every type as a value of Python and of frames."""

import datetime
import decimal
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
