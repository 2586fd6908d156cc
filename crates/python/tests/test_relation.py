"""Relations: lazy, run each time, and every way to their rows."""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tickstone

SQL = "SELECT ts, symbol, price, n FROM t ORDER BY n"


@pytest.fixture
def table(db: tickstone.Database) -> tickstone.Database:
    """Three rows."""
    db.sql("CREATE TABLE t (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, n BIGINT) TIMESTAMP(ts)")
    db.sql("INSERT INTO t VALUES ('2024-08-08', 'A', 1.5, 1), ('2024-08-09', 'B', NULL, 2), ('2024-08-10', 'A', 3.5, 3)")
    return db


def test_what_is_known_without_running(table: tickstone.Database) -> None:
    relation = table.sql(SQL)
    assert relation.columns == ["ts", "symbol", "price", "n"]
    assert relation.types == ["TIMESTAMP", "SYMBOL", "DOUBLE", "BIGINT"]
    schema = pa.schema(relation.schema)
    assert schema.field("ts").type == pa.timestamp("ns")
    assert schema.field("symbol").type == pa.dictionary(pa.uint32(), pa.string())


def test_every_way_out(table: tickstone.Database) -> None:
    relation = table.sql(SQL)
    arrow, polars, pandas, arrays = relation.arrow(), relation.polars(), relation.pandas(), relation.numpy()
    assert isinstance(arrow, pa.Table) and arrow.column("n").to_pylist() == [1, 2, 3]
    assert isinstance(polars, pl.DataFrame) and polars["price"].to_list() == [1.5, None, 3.5]
    assert polars["ts"].dtype == pl.Datetime("ns") and polars["symbol"].to_list() == ["A", "B", "A"]
    assert isinstance(pandas, pd.DataFrame) and pandas["n"].tolist() == [1, 2, 3]
    assert str(pandas["ts"].dtype) == "datetime64[ns]" and pandas["symbol"].tolist() == ["A", "B", "A"]
    assert list(arrays) == relation.columns
    assert arrays["n"].dtype == np.int64 and arrays["n"].tolist() == [1, 2, 3]
    assert arrays["ts"].dtype == np.dtype("datetime64[ns]") and arrays["ts"][0] == np.datetime64("2024-08-08")
    assert np.isnan(arrays["price"][1]) and arrays["price"][2] == 3.5
    assert arrays["symbol"].tolist() == ["A", "B", "A"]


def test_negative_numbers_of_rows(table: tickstone.Database) -> None:
    relation = table.sql(SQL)
    with pytest.raises(ValueError, match="count is 0 or more, not -1"):
        relation.fetchmany(-1)
    with pytest.raises(ValueError, match="rows is 0 or more, not -1"):
        relation.show(-1)
    assert relation.fetchmany(0) == [] and len(relation.fetchmany(2)) == 2


def test_columns_are_those_of_the_plan(db: tickstone.Database) -> None:
    db.sql("CREATE TABLE t (a BIGINT)")
    relation = db.sql("SELECT * FROM t")
    db.sql("DROP TABLE t; CREATE TABLE t (b BIGINT)")
    assert relation.columns == ["a"] and relation.arrow().column_names == ["b"]


def test_rows_of_types_without_a_sql_name(db: tickstone.Database) -> None:
    """Arrow as it is, tuples as values of Python; what the documents say of frames."""
    frame = pa.table(
        {
            "date": pa.array([datetime.date(2024, 8, 8)], pa.date64()),
            "wide": pa.array([decimal.Decimal("1.50")], pa.decimal256(50, 2)),
            "bytes": pa.array([b"abcd"], pa.binary(4)),
            "pair": pa.array([[1, 2]], pa.list_(pa.int64(), 2)),
            "map": pa.array([[(1, 2)]], pa.map_(pa.int64(), pa.int64())),
            "time": pa.array([5_000], pa.time64("ns")),
        }
    )
    relation = db.sql("SELECT * FROM frame")
    assert relation.arrow().to_pylist() == frame.to_pylist()
    day, price, pair = datetime.date(2024, 8, 8), decimal.Decimal("1.50"), [1, 2]
    time = datetime.time(0, 0, 0, 5)
    assert relation.fetchall() == [(day, price, b"abcd", pair, {1: 2}, time)]


def test_rows(table: tickstone.Database) -> None:
    relation = table.sql("SELECT n, price FROM t ORDER BY n")
    rows = [(1, 1.5), (2, None), (3, 3.5)]
    assert relation.fetchall() == rows
    assert list(relation) == rows
    assert relation.fetchone() == rows[0]
    assert relation.fetchmany(5) == rows[1:], "it goes on where it was"
    assert relation.fetchone() is None
    assert relation.fetchall() == [] and relation.fetchall() == rows, "from the start again"
    assert table.sql("SELECT n FROM t WHERE n > 9").fetchone() is None
    first = table.sql("SELECT ts FROM t ORDER BY ts").fetchone()
    assert first == (datetime.datetime(2024, 8, 8, tzinfo=datetime.UTC),)


def test_it_runs_each_time(table: tickstone.Database) -> None:
    relation, cached = table.sql("SELECT count(*) FROM t"), table.sql("SELECT count(*) FROM t").cache()
    assert relation.fetchall() == cached.fetchall() == [(3,)]
    table.sql("INSERT INTO t (ts) VALUES ('2024-08-11')")
    assert relation.fetchall() == [(4,)] and relation.polars().rows() == [(4,)]
    assert cached.polars().rows() == [(3,)]
    assert cached.fetchall() == list(cached) == [(3,)] and "3" in repr(cached)


def test_statements_run_at_once(table: tickstone.Database) -> None:
    relation = table.sql("INSERT INTO t (ts) VALUES ('2024-08-11'), ('2024-08-12')")
    assert relation.rowcount == 2 and relation.columns == [] and relation.fetchall() == []
    assert table.table("t").count() == 5


def test_duplicate_names(db: tickstone.Database) -> None:
    relation = db.sql("SELECT 1 AS x, 2 AS y, 3 AS z")
    assert relation.fetchall() == [(1, 2, 3)]
    joined = db.sql("SELECT a.x, b.x FROM (SELECT 1 AS x) a, (SELECT 2 AS x) b")
    assert joined.columns == ["x", "x_1"] and joined.fetchall() == [(1, 2)]


def test_showing(table: tickstone.Database, capsys: pytest.CaptureFixture[str]) -> None:
    relation = table.sql(SQL)
    relation.show(2)
    shown = capsys.readouterr().out
    assert "symbol" in shown and "1.5" in shown and "3.5" not in shown
    assert "2024-08-08" in repr(relation)


def test_html_is_escaped(db: tickstone.Database) -> None:
    html = db.sql("SELECT '<script>' AS \"<b>\", NULL AS n")._repr_html_()
    assert "<table" in html and "&lt;script&gt;" in html and "<script>" not in html and "<b>" not in html


def test_explain(table: tickstone.Database) -> None:
    assert "t" in str(table.sql(SQL).explain())
    assert "rows" in str(table.sql(SQL).explain(analyze=True))


def test_no_rows_keep_their_types(table: tickstone.Database) -> None:
    empty = table.sql("SELECT * FROM t WHERE n > 9")
    assert empty.arrow().schema.types == table.sql("SELECT * FROM t").arrow().schema.types
    assert empty.polars().shape == (0, 4) and len(empty.pandas()) == 0
    assert all(len(array) == 0 for array in empty.numpy().values())


def test_nulls_of_integers_in_numpy(table: tickstone.Database) -> None:
    table.sql("INSERT INTO t (ts) VALUES ('2024-08-11')")
    values = table.sql("SELECT n, ts FROM t ORDER BY ts").numpy()["n"]
    assert values[:3].tolist() == [1, 2, 3]
    assert values[3] is None or np.ma.is_masked(values[3]) or np.isnan(values[3])


def test_a_relation_feeds_another_system(table: tickstone.Database) -> None:
    relation = table.sql(SQL)
    assert table.sql("SELECT sum(n) FROM relation").fetchone() == (6,)
    assert table.append("copy", relation, timestamp="ts", create=True) == 3
    assert table.table("copy").count() == 3


def test_what_is_shown_has_the_columns_of_its_run(table: tickstone.Database) -> None:
    relation = table.sql("SELECT * FROM t")
    assert relation.columns == ["ts", "symbol", "price", "n"]
    table.sql("ALTER TABLE t ADD COLUMN w INT")
    table.sql("ALTER TABLE t DROP COLUMN n")
    assert str(relation).splitlines()[0].split() == ["ts", "|", "symbol", "|", "price", "|", "w"]
    assert ">w</th>" in relation._repr_html_() and ">n</th>" not in relation._repr_html_()


def test_execute_gives_rows(table: tickstone.Database) -> None:
    table.sql("PREPARE above AS SELECT n FROM t WHERE n > $1 ORDER BY n")
    relation = table.sql("EXECUTE above (1)")
    assert relation.columns == ["n"] and relation.fetchall() == [(2,), (3,)] and relation.polars()["n"].to_list() == [2, 3]
    table.sql("PREPARE one AS INSERT INTO t (ts, n) VALUES ('2024-08-11', $1)")
    assert table.sql("EXECUTE one (7)").rowcount == 1
    assert relation.fetchall() == [(2,), (3,), (7,)]
    with pytest.raises(tickstone.SqlError, match="there is no prepared statement nothing"):
        table.sql("EXECUTE nothing")
