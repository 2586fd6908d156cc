"""Names of DuckDB and Polars on relations, tables and databases, and what is said of names that are not there."""

import datetime
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tickstone
from tickstone import dbapi

AT = 1_723_109_400_000_000_001


@pytest.fixture
def market(db: tickstone.Database) -> tickstone.Database:
    """Trades with NULLs and nanoseconds, and a table without rows."""
    frame = pa.table(
        {
            "ts": pa.array([AT, AT + 1, AT + 2, AT + 10**9], pa.timestamp("ns")),
            "sym": ["A", "B", "A", None],
            "px": [1.5, 2.5, None, 4.5],
            "sz": [1, 2, 3, None],
        }
    )
    db.append("trades", frame, timestamp="ts", series=[], create=True)
    db.sql("CREATE TABLE empty (ts TIMESTAMP, sym SYMBOL, px DOUBLE, sz BIGINT) TIMESTAMP(ts)")
    return db


@pytest.mark.parametrize("name", ["trades", "empty"])
def test_other_names_give_the_same(market: tickstone.Database, name: str) -> None:
    rows: tickstone.Rows
    for rows in (market.table(name), market.sql(f"SELECT * FROM {name} ORDER BY ts"), market.execute(f"FROM {name}")):
        pandas, polars, arrow = rows.pandas(), rows.polars(), rows.arrow()
        for frame in (rows.df(), rows.to_pandas(), rows.fetchdf()):
            pd.testing.assert_frame_equal(frame, pandas)
        assert rows.pl().equals(polars) and rows.to_polars().equals(polars)
        assert rows.to_arrow_table().equals(arrow) and rows.fetch_arrow_table().equals(arrow)
        arrays = rows.fetchnumpy()
        assert list(arrays) == rows.columns and all(len(array) == len(rows) for array in arrays.values())
        assert rows.dtypes == rows.types == ["TIMESTAMP", "SYMBOL", "DOUBLE", "BIGINT"]
        assert rows.shape == pandas.shape == polars.shape
        assert len(rows) == rows.count() == len(pandas) and bool(rows)
        assert arrow.column("ts").cast(pa.int64()).to_pylist() == ([AT, AT + 1, AT + 2, AT + 10**9] if len(rows) else [])


def test_the_shape_is_duckdbs(market: tickstone.Database) -> None:
    frame = market.table("trades").arrow()
    theirs = duckdb.sql("SELECT sym, sum(sz) AS v FROM frame WHERE px > 1 GROUP BY sym ORDER BY sym")
    assert theirs is not None and frame.num_rows == 4
    ours = market.sql("SELECT sym, sum(sz) AS v FROM trades WHERE px > 1 GROUP BY sym ORDER BY sym NULLS LAST")
    assert ours.shape == theirs.shape == (3, 2) and len(ours) == len(theirs) and ours.columns == theirs.columns
    assert [column[0] for column in ours.description] == [column[0] for column in theirs.description]
    rows = theirs.fetchall()
    assert ours.fetchone() == rows[0] == ("A", 1)
    assert ours.fetchmany(1) == rows[1:2] and ours.fetchall() == rows[2:]


def test_the_description_is_that_of_a_cursor(market: tickstone.Database) -> None:
    sql = "SELECT ts, sym, CAST(px AS DECIMAL(10,2)) AS px FROM trades"
    with dbapi.connect(database=market) as connection:
        assert connection.execute(sql).description == market.sql(sql).description
    assert market.sql(sql).description[2] == ("px", "DECIMAL(10,2)", None, None, 10, 2, None)
    assert market.sql("INSERT INTO empty (ts) VALUES ('2024-01-01')").description == []


def test_execute_takes_parameters(market: tickstone.Database) -> None:
    assert market.execute("SELECT px FROM trades WHERE sz = $1", [2]).fetchone() == (2.5,)
    assert market.query("SELECT px FROM trades WHERE sz = :n", {"n": 2}).fetchall() == [(2.5,)]
    frame = pl.DataFrame({"sym": ["A"]})
    assert market.execute("SELECT count(*) FROM trades t JOIN frame f ON t.sym = f.sym").fetchone() == (2,)
    assert frame.height == 1
    with market.transaction() as transaction:
        assert transaction.execute("INSERT INTO empty (ts) VALUES ($1)", ["2024-01-01"]).rowcount == 1
    assert len(market.table("empty")) == 1


def test_a_list_is_one_run(market: tickstone.Database) -> None:
    runs: list[int] = []

    def seen(values: pa.Array) -> pa.Array:
        runs.append(len(values))
        return values

    market.create_function("seen", seen, ["BIGINT"], "BIGINT", side_effects=True)
    relation = market.sql("SELECT seen(sz) FROM trades WHERE sz > 0")
    assert sorted(list(relation)) == [(1,), (2,), (3,)]
    once = sum(runs)
    assert once > 0
    assert sorted(relation.fetchall()) == [(1,), (2,), (3,)]
    assert sum(runs) == 2 * once, "`list` runs the query as often as `fetchall` does"
    rows = iter(relation)
    assert next(rows) in {(1,), (2,), (3,)} and len(relation) == 3 and len(list(rows)) == 2
    rows = iter(relation)
    assert len(relation) == len(relation) == 3 and len(list(rows)) == 3


def test_counting_what_gives_no_rows(market: tickstone.Database) -> None:
    done = market.sql("INSERT INTO empty (ts) VALUES ('2024-01-01')")
    assert len(done) == 0 and done.shape == (0, 0) and list(done) == [] and bool(done)
    with pytest.raises(tickstone.Error, match="gives no rows"):
        done.filter("px > 1")


def test_a_cached_relation_counts_what_it_keeps(market: tickstone.Database) -> None:
    kept = market.sql("SELECT * FROM trades").cache()
    market.sql("INSERT INTO trades (ts) VALUES ('2030-01-01')")
    assert len(kept) == 4 and kept.shape == (4, 4) and kept.filter("px > 2").count() == 2
    assert len(market.table("trades")) == 5


@pytest.mark.parametrize(
    ("what", "name", "message"),
    [
        ("relation", "to_df", "'Relation' object has no attribute 'to_df': here it is df()"),
        ("relation", "fetch_df", "here it is df()"),
        ("relation", "collect", "here it is pl()"),
        ("relation", "group_by", "here it is aggregate("),
        ("relation", "fetchdff", "did you mean 'fetchdf'?"),
        ("relation", "colums", "did you mean 'columns'?"),
        ("relation", "xyzzy", "'Relation' object has no attribute 'xyzzy'$"),
        ("table", "fetchone", r"'Table' object has no attribute 'fetchone': here it is head\(1\).fetchone\(\)"),
        ("table", "latests", "did you mean 'latest'?"),
        ("table", "resample", "here it is sample("),
        ("database", "cursor", "'Database' object has no attribute 'cursor': here it is tickstone.dbapi"),
        ("database", "list_tables", r"here it is tables\(\)"),
        ("database", "excute", "did you mean 'execute'?"),
        ("database", "_nothing", "'Database' object has no attribute '_nothing'$"),
    ],
)
def test_hints(market: tickstone.Database, what: str, name: str, message: str) -> None:
    owner = {"relation": market.sql("SELECT 1"), "table": market.table("trades"), "database": market}[what]
    with pytest.raises(AttributeError, match=message.replace("aggregate(", r"aggregate\(").replace("sample(", r"sample\(")):
        getattr(owner, name)
    assert not hasattr(owner, name)


def test_hints_name_what_is_there() -> None:
    from tickstone.hints import ON_DATABASE, ON_ROWS

    for hints, owners in ((ON_ROWS, (tickstone.Relation, tickstone.Table)), (ON_DATABASE, (tickstone.Database,))):
        for foreign, here in hints.items():
            names = [word.partition("(")[0] for word in here.replace(" or ", " ").split() if "(" in word]
            known = [name for name in names if name.isidentifier()]
            assert all(any(hasattr(owner, name) for owner in owners) for name in known), (foreign, here)
            assert not all(hasattr(owner, foreign) for owner in owners), f"{foreign} is there"


CLOSED: list[Callable[[tickstone.Relation], Any]] = [
    lambda relation: relation.df(),
    lambda relation: relation.pl(),
    lambda relation: relation.fetchone(),
    lambda relation: len(relation),
    lambda relation: relation.filter("px > 1"),
    lambda relation: relation.order("px").df(),
]


@pytest.mark.parametrize("read", CLOSED)
def test_a_closed_database(market: tickstone.Database, read: Callable[[tickstone.Relation], Any]) -> None:
    relation = market.sql("SELECT * FROM trades")
    market.close()
    with pytest.raises(tickstone.ClosedError):
        read(relation)
    with pytest.raises(tickstone.ClosedError):
        market.execute("SELECT 1")


def test_times_of_every_kind(market: tickstone.Database) -> None:
    relation = market.table("trades").order("ts").limit(1)
    assert relation.df()["ts"].astype("int64").tolist() == [AT]
    assert relation.pl()["ts"].to_physical().to_list() == [AT]
    assert relation.fetchnumpy()["ts"][0] == np.datetime64(AT, "ns")
    found = tickstone.Timestamp(2024, 8, 8, 9, 30, tzinfo=datetime.UTC, nanosecond=AT % 1_000)
    assert relation.fetchone() == (found, "A", 1.5, 1)
