"""Errors: their classes, where in the SQL they point, and that nothing is left behind."""

import copy
import pathlib
import pickle

import pytest

import tickstone


def failing(db: tickstone.Database, sql: str) -> tickstone.SqlError:
    """The error of a statement."""
    with pytest.raises(tickstone.SqlError) as caught:
        db.sql(sql).fetchall()
    return caught.value


@pytest.fixture
def table(db: tickstone.Database) -> tickstone.Database:
    """A table to be wrong about."""
    db.sql("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE) TIMESTAMP(ts)")
    return db


POSITIONS = [
    ("SELECT nope FROM trades", 1, 8),
    ("SELECT price\nFROM trads", 2, 6),
    ("SELECT price,\n  nope\nFROM trades", 2, 3),
    ("SELECT 'ünï', nope FROM trades", 1, 15),
    ("SELECT price FROM trades SAMPLE BY 1x", 1, 36),
    ("SELECT price FRO trades WHERE", 1, None),
    ("SELECT 1; SELECT 2; SELECT nope FROM trades", 1, 28),
]


@pytest.mark.parametrize(("sql", "line", "column"), POSITIONS)
def test_positions(table: tickstone.Database, sql: str, line: int, column: int | None) -> None:
    error = failing(table, sql)
    assert error.line == line
    assert column is None or error.column == column
    assert error.sql == sql and error.kind == "fix request" and error.message


def test_the_text_shows_the_place(table: tickstone.Database) -> None:
    error = failing(table, "SELECT price\nFROM trads")
    assert str(error).splitlines() == [
        "table 'trads' does not exist",
        " 2 | FROM trads",
        "   |      ^",
        "hint: did you mean 'trades'?",
    ]
    assert error.hint == "did you mean 'trades'?"


def test_errors_come_with_the_statement_not_with_the_rows(table: tickstone.Database) -> None:
    with pytest.raises(tickstone.SqlError):
        table.sql("SELECT nope FROM trades")


def test_the_tree() -> None:
    for kind in (tickstone.SqlError, tickstone.StorageError, tickstone.ClosedError):
        assert issubclass(kind, tickstone.Error)
    assert issubclass(tickstone.Error, Exception)


def test_errors_can_be_copied_and_pickled(table: tickstone.Database) -> None:
    error = failing(table, "SELECT nope FROM trades")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is tickstone.SqlError
        assert str(other) == str(error) and other.column == error.column == 8


def test_while_running(table: tickstone.Database) -> None:
    table.sql("INSERT INTO trades VALUES ('2024-08-08', 'x', 1.0)")
    error = failing(table, "SELECT CAST(symbol AS BIGINT) FROM trades")
    assert "x" in str(error)


def test_several_statements_stop_at_the_first_error(table: tickstone.Database) -> None:
    with pytest.raises(tickstone.SqlError):
        table.sql("CREATE TABLE a (x BIGINT); CREATE TABLE trades (x BIGINT); CREATE TABLE b (x BIGINT)")
    assert table.tables() == ["a", "trades"]


def test_the_last_of_several_statements_is_the_result(table: tickstone.Database) -> None:
    relation = table.sql("CREATE TABLE a (x BIGINT); INSERT INTO a VALUES (1), (2); SELECT sum(x) FROM a;")
    assert relation.fetchall() == [(3,)]


@pytest.mark.parametrize("sql", ["", "  ", ";", "-- only a comment"])
def test_nothing_to_run(db: tickstone.Database, sql: str) -> None:
    try:
        assert db.sql(sql).fetchall() == []
    except tickstone.Error as error:
        assert str(error)


def test_damage_is_a_storage_error(directory: pathlib.Path) -> None:
    with tickstone.open(directory) as db:
        db.append("t", {"a": list(range(1_000))}, create=True)
        db.seal()
    parts = [path for path in directory.rglob("*") if path.is_file() and path.suffix in (".part", ".tsp")]
    largest = max(parts or (p for p in directory.rglob("*") if p.is_file()), key=lambda path: path.stat().st_size)
    damaged = bytearray(largest.read_bytes())
    damaged[len(damaged) // 2 :] = bytes(len(damaged) - len(damaged) // 2)
    largest.write_bytes(damaged)
    with pytest.raises(tickstone.Error) as caught, tickstone.open(directory) as db:
        db.sql("SELECT sum(a) FROM t").fetchall()
    assert isinstance(caught.value, (tickstone.StorageError, tickstone.SqlError))
    assert caught.value.kind in ("report", "fix request")


def test_too_little_memory(directory: pathlib.Path) -> None:
    with tickstone.open(directory, query_memory=1 << 20) as db:
        db.append("t", {"a": list(range(300_000))}, create=True)
        with pytest.raises(tickstone.Error) as caught:
            # The table of a hash join does not go to disk.
            db.sql("SELECT count(*) FROM t x JOIN t y ON x.a = y.a").fetchall()
        assert caught.value.kind in ("retry", "free space", "fix request")
        assert db.sql("SELECT count(*) FROM t").fetchone() == (300_000,)
