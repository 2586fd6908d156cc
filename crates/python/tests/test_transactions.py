"""Transactions: all or nothing, over several tables, whatever ends them."""

import pathlib

import polars as pl
import pytest

import tickstone


def counts(db: tickstone.Database) -> tuple[int, int]:
    """Rows of the two tables."""
    return db.table("a").count(), db.table("b").count()


@pytest.fixture
def tables(db: tickstone.Database) -> tickstone.Database:
    """Two empty tables."""
    db.sql("CREATE TABLE a (x BIGINT); CREATE TABLE b (x BIGINT)")
    return db


def test_commit_is_one_moment(tables: tickstone.Database) -> None:
    frame = pl.DataFrame({"x": [1, 2]})
    with tables.transaction() as transaction:
        assert transaction.append("a", frame) == 2
        transaction.sql("INSERT INTO b VALUES ($1), ($2)", [3, 4])
        assert counts(tables) == (0, 0), "nobody sees it before"
    assert counts(tables) == (2, 2)


def test_an_exception_rolls_back(tables: tickstone.Database) -> None:
    with pytest.raises(RuntimeError, match="mine"), tables.transaction() as transaction:
        transaction.append("a", {"x": [1]})
        raise RuntimeError("mine")
    assert counts(tables) == (0, 0)


def test_a_wrong_statement_rolls_back(tables: tickstone.Database) -> None:
    with pytest.raises(tickstone.SqlError), tables.transaction() as transaction:
        transaction.append("a", {"x": [1]})
        transaction.sql("INSERT INTO nowhere VALUES (1)")
    assert counts(tables) == (0, 0)


def test_an_error_that_is_caught_leaves_the_rest(tables: tickstone.Database) -> None:
    with tables.transaction() as transaction:
        transaction.append("a", {"x": [1]})
        with pytest.raises(tickstone.Error):
            transaction.append("b", {"x": ["text"]})
        transaction.append("b", {"x": [2]})
    assert counts(tables) == (1, 1)


def test_an_empty_transaction(tables: tickstone.Database) -> None:
    with tables.transaction():
        pass
    assert counts(tables) == (0, 0)


def test_append_is_a_commit_of_its_own(tables: tickstone.Database) -> None:
    tables.sql("BEGIN; INSERT INTO a VALUES (1)")
    tables.append("a", {"x": [2]})
    assert counts(tables) == (1, 0)
    tables.sql("ROLLBACK")
    assert tables.sql("SELECT x FROM a").fetchall() == [(2,)]


def test_two_at_once(tables: tickstone.Database) -> None:
    with tables.transaction() as one, tables.transaction() as other:
        one.append("a", {"x": [1]})
        other.append("b", {"x": [2]})
        assert counts(tables) == (0, 0)
    assert counts(tables) == (1, 1)


def test_after_its_end_it_is_over(tables: tickstone.Database) -> None:
    with tables.transaction() as transaction:
        transaction.append("a", {"x": [1]})
    with pytest.raises(tickstone.Error):
        transaction.append("a", {"x": [2]})
    assert counts(tables) == (1, 0)


def test_frames_by_name_inside(tables: tickstone.Database) -> None:
    fresh = pl.DataFrame({"x": [1, 2, 3]})
    with tables.transaction() as transaction:
        transaction.sql("INSERT INTO a SELECT x FROM fresh WHERE x > 1")
    assert counts(tables) == (fresh.height - 1, 0)


def test_committed_rows_survive(directory: pathlib.Path) -> None:
    with tickstone.open(directory) as db:
        db.sql("CREATE TABLE a (x BIGINT); CREATE TABLE b (x BIGINT)")
        with db.transaction() as transaction:
            transaction.append("a", {"x": [1]})
            transaction.append("b", {"x": [1]})
        unfinished = db.transaction()
        unfinished.__enter__().append("a", {"x": [2]})
    with tickstone.open(directory) as db:
        assert counts(db) == (1, 1)
