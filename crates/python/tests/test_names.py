"""Frames by name: looked up where the query is written, tables of the database first."""

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tickstone

everywhere = pl.DataFrame({"x": [1, 2, 3]})
shadowed = pl.DataFrame({"x": ["global"]})


def total(db: tickstone.Database, sql: str) -> Any:
    """The one value of a query about names of its caller's caller: there are none here."""
    row = db.sql(sql).fetchone()
    assert row is not None
    return row[0]


def test_locals_then_globals(db: tickstone.Database) -> None:
    shadowed = pl.DataFrame({"x": ["local"]})
    assert db.sql("SELECT x FROM shadowed").fetchall() == [("local",)]
    assert db.sql("SELECT sum(x) FROM everywhere").fetchall() == [(6,)]
    assert shadowed.height == 1


def test_names_of_the_caller_only(db: tickstone.Database) -> None:
    mine = pl.DataFrame({"x": [1]})
    with pytest.raises(tickstone.SqlError, match="'mine' does not exist"):
        total(db, "SELECT * FROM mine")
    assert mine.height == 1


def test_every_kind_of_frame(db: tickstone.Database) -> None:
    columns = {"x": [1, 2]}
    for frame in (pl.DataFrame(columns), pl.DataFrame(columns).lazy(), pd.DataFrame(columns), pa.table(columns)):
        assert db.sql("SELECT sum(x) FROM frame").fetchone() == (3,), type(frame)
    relation = db.sql("SELECT 5 AS x")
    assert db.sql("SELECT x + 1 FROM relation").fetchone() == (6,)


def test_deep_in_the_query(db: tickstone.Database) -> None:
    inner = pl.DataFrame({"x": [1, 2, 3]})
    other = pd.DataFrame({"x": [2, 3]})
    sql = """WITH c AS (SELECT x FROM inner_frame WHERE x IN (SELECT x FROM other))
             SELECT sum(c.x) FROM c WHERE EXISTS (SELECT 1 FROM everywhere e WHERE e.x = c.x)"""
    inner_frame = inner
    assert db.sql(sql).fetchone() == (5,)
    assert (inner_frame.height, len(other)) == (3, 2)


def test_a_cte_is_no_frame(db: tickstone.Database) -> None:
    c = pl.DataFrame({"x": [100]})
    assert db.sql("WITH c AS (SELECT 1 AS x) SELECT x FROM c").fetchone() == (1,)
    assert c.height == 1


def test_tables_win(db: tickstone.Database) -> None:
    db.append("t", {"x": [1]}, create=True)
    t = pl.DataFrame({"x": [2]})
    assert db.sql("SELECT x FROM t").fetchall() == [(1,)]
    db.sql("DROP TABLE t")
    assert db.sql("SELECT x FROM t").fetchall() == [(2,)]
    assert t.height == 1


def test_quoted_and_case(db: tickstone.Database) -> None:
    Frame = pl.DataFrame({"Odd Name": [1]})
    assert db.sql('SELECT "Odd Name" FROM "Frame"').fetchall() == [(1,)]
    assert Frame.height == 1


def test_asof_join_with_a_table(db: tickstone.Database) -> None:
    quotes = pl.DataFrame({"ts": [3, 1], "symbol": ["A", "A"], "bid": [30.0, 10.0]}).with_columns(
        pl.col("ts").cast(pl.Datetime("ns"))
    )
    db.append("trades", {"ts": pa.array([2, 4], pa.timestamp("ns")), "symbol": ["A", "A"]}, timestamp="ts", create=True)
    found = db.sql("SELECT t.ts, q.bid FROM trades t ASOF JOIN quotes q ON (symbol) ORDER BY t.ts")
    assert [row[1] for row in found.fetchall()] == [10.0, 30.0]
    bars = db.sql("SELECT ts, first(bid), last(bid) FROM quotes SAMPLE BY 1s")
    assert [row[1:] for row in bars.fetchall()] == [(10.0, 30.0)]
    assert quotes.height == 2


def test_insert_from_a_frame(db: tickstone.Database) -> None:
    fresh = pl.DataFrame({"a": [1, 2]})
    db.sql("CREATE TABLE t (a BIGINT)")
    assert db.sql("INSERT INTO t SELECT * FROM fresh").rowcount == 2
    db.sql("CREATE TABLE u AS (SELECT * FROM fresh)")
    assert db.table("u").count() == fresh.height


def test_a_frame_is_read_each_time(db: tickstone.Database) -> None:
    frame = pl.DataFrame({"x": [1]})
    relation = db.sql("SELECT x FROM frame")
    frame = pl.DataFrame({"x": [2]})
    assert relation.fetchall() == [(1,)], "the frame that the name meant when the query was written"
    assert db.sql("SELECT x FROM frame").fetchall() == [(2,)]
    assert frame.height == 1


def test_what_is_no_frame_is_no_table(db: tickstone.Database) -> None:
    number = 5
    with pytest.raises(tickstone.SqlError, match="'number' does not exist") as caught:
        db.sql("SELECT * FROM number").fetchall()
    assert (caught.value.line, caught.value.column) == (1, 15)
    assert number == 5


def test_registered_frames(db: tickstone.Database) -> None:
    frame = pa.table({"t1": pa.array([2, 1], pa.timestamp("ns")), "t2": pa.array([1, 2], pa.timestamp("ns")), "x": [1, 2]})
    db.register("registered", frame, timestamp="t2")
    assert total(db, "SELECT last(x) FROM registered") == 2
    db.register("registered", frame, timestamp="t1")
    assert total(db, "SELECT last(x) FROM registered") == 1
    db.unregister("registered")
    with pytest.raises(tickstone.SqlError):
        total(db, "SELECT last(x) FROM registered")


def test_designated_timestamps_are_guessed(db: tickstone.Database) -> None:
    only = pa.table({"when": pa.array([2, 1], pa.timestamp("us")), "x": [1, 2]})
    two = pa.table({"a": pa.array([2, 1], pa.timestamp("ns")), "ts": pa.array([1, 2], pa.timestamp("ns")), "x": [1, 2]})
    assert db.sql("SELECT last(x) FROM only").fetchone() == (1,)
    assert db.sql("SELECT last(x) FROM two").fetchone() == (2,)
    assert only.num_rows == two.num_rows


def test_in_a_comprehension_and_a_lambda(db: tickstone.Database) -> None:
    local = pl.DataFrame({"x": [7]})
    assert (lambda frame: db.sql("SELECT x FROM frame").fetchone())(local) == (7,)
