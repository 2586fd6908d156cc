"""Texts that come again, which are not parsed again: they mean what they would mean if they were."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest

import tickstone

SQL = "SELECT s, x FROM t WHERE s = 'A' ORDER BY ts"


@pytest.fixture
def db() -> tickstone.Database:
    database = tickstone.open(":memory:")
    database.sql("CREATE TABLE t (ts TIMESTAMP, s SYMBOL, x INT) TIMESTAMP(ts) SERIES BY (s)")
    database.sql("INSERT INTO t VALUES ('2024-01-01', 'A', 1), ('2024-01-02', 'B', 2)")
    return database


def test_rows_that_came_meanwhile_are_seen(db: tickstone.Database) -> None:
    for _ in range(4):
        assert db.sql(SQL).fetchall() == [("A", 1)]
    db.sql("INSERT INTO t VALUES ('2024-01-03', 'A', 3)")
    assert db.sql(SQL).fetchall() == [("A", 1), ("A", 3)]
    asked = db.sql(SQL)
    db.sql("INSERT INTO t VALUES ('2024-01-04', 'A', 4)")
    # It is run when its rows are asked for.
    assert len(asked.fetchall()) == 3
    db.sql("DELETE FROM t WHERE x = 3")
    assert db.sql(SQL).fetchall() == [("A", 1), ("A", 4)]


def test_values_of_parameters_are_their_own(db: tickstone.Database) -> None:
    text = "SELECT x FROM t WHERE s = $1"
    for symbol, x in [("A", 1), ("B", 2), ("A", 1), ("B", 2)]:
        assert db.sql(text, [symbol]).fetchall() == [(x,)]


def test_another_table_or_a_variable_takes_the_place(db: tickstone.Database) -> None:
    for _ in range(3):
        db.sql(SQL).fetchall()
    db.sql("DROP TABLE t")
    with pytest.raises(tickstone.Error):
        db.sql(SQL).fetchall()
    t = pa.table({"ts": [1, 2], "s": ["A", "B"], "x": [7, 8]})
    assert db.sql(SQL).fetchall() == [("A", 7)]
    del t
    db.sql("CREATE TABLE t (ts TIMESTAMP, s SYMBOL, x VARCHAR) TIMESTAMP(ts) SERIES BY (s)")
    db.sql("INSERT INTO t VALUES ('2024-01-01', 'A', 'one')")
    for _ in range(3):
        assert db.sql(SQL).fetchall() == [("A", "one")]


def test_settings_and_functions_count(db: tickstone.Database) -> None:
    text = "SELECT s, plus(x) AS y FROM t WHERE s = 'A'"
    for step in (1, 2):
        if step == 2:
            db.remove_function("plus")
        db.create_function("plus", lambda x, step=step: pa.array([v.as_py() + step for v in x]), ["INT"], "BIGINT")
        for _ in range(3):
            assert db.sql(text).fetchall() == [("A", 1 + step)]
    db.sql("SET pipeline = false")
    assert db.sql(SQL).fetchall() == [("A", 1)]


def test_threads_ask_for_the_same(db: tickstone.Database) -> None:
    found: list[object] = []
    ask = lambda: found.extend(db.sql(SQL).fetchall() for _ in range(50))  # noqa: E731
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 400
    assert all(rows == [("A", 1)] for rows in found)


def test_queries_are_listed_by_their_text(db: tickstone.Database) -> None:
    text = "SELECT count(*) FROM queries() WHERE statement LIKE '%queries()%'"
    for _ in range(3):
        assert db.sql(text).fetchall() == [(1,)]
