"""Parameters: $1 and :name, of every type that has a meaning."""

import datetime
import decimal
import re
import types
import uuid
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tickstone

NOON = datetime.datetime(2024, 8, 8, 12, 0, 0, 123_456, tzinfo=datetime.UTC)


@pytest.fixture
def table(db: tickstone.Database) -> tickstone.Database:
    """Three rows."""
    db.sql("CREATE TABLE t (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, n BIGINT, d DATE, ok BOOLEAN) TIMESTAMP(ts)")
    db.sql(
        """INSERT INTO t VALUES ('2024-08-08T12:00:00.123456', 'A', 1.5, 1, '2024-08-08', true),
           ('2024-08-08T12:00:00.123456789', 'B', 2.5, 2, '2024-08-09', false), ('2024-08-09', 'A', NULL, 3, NULL, NULL)"""
    )
    return db


def ids(table: tickstone.Database, where: str, params: Any = None, **named: Any) -> list[int]:
    """The rows that a condition keeps."""
    return [row[0] for row in table.sql(f"SELECT n FROM t WHERE {where} ORDER BY n", params, **named).fetchall()]


def test_positions_and_names(table: tickstone.Database) -> None:
    assert ids(table, "symbol = $1 AND n > $2", ["A", 1]) == [3]
    assert ids(table, "n > $2 AND symbol = $1", ("A", 1)) == [3]
    assert ids(table, "n = $1 OR n = $1 + 1", [1]) == [1, 2]
    assert ids(table, "symbol = :symbol", {"symbol": "B"}) == [2]
    assert ids(table, "symbol = :symbol AND n < :most", symbol="A", most=2) == [1]


VALUES: list[tuple[str, Any, list[int]]] = [
    ("ts = $1", NOON, [1]),
    ("ts = $1", NOON.replace(tzinfo=None), [1]),
    ("ts = $1", NOON.astimezone(datetime.timezone(datetime.timedelta(hours=-5))), [1]),
    ("ts = $1", pd.Timestamp("2024-08-08T12:00:00.123456789"), [2]),
    ("ts = $1", pd.Timestamp("2024-08-08T14:00:00.123456789", tz="Europe/Berlin"), [2]),
    ("ts = $1", np.datetime64("2024-08-08T12:00:00.123456789"), [2]),
    ("ts >= $1", np.datetime64("2024-08-09"), [3]),
    ("ts >= $1", "2024-08-09", [3]),
    ("ts >= $1", datetime.date(2024, 8, 9), [3]),
    ("d = $1", datetime.date(2024, 8, 9), [2]),
    ("n = $1", np.int64(2), [2]),
    ("n = $1", np.uint8(2), [2]),
    ("n = $1", 2.0, [2]),
    ("price = $1", np.float64(2.5), [2]),
    ("price = $1", np.float32(2.5), [2]),
    ("price < $1", decimal.Decimal("2.00"), [1]),
    ("ok = $1", True, [1]),
    ("ok = $1", np.bool_(False), [2]),
    ("symbol = $1", np.str_("B"), [2]),
    ("symbol = $1", "'; DROP TABLE t; --", []),
    ("price IS NOT DISTINCT FROM $1", None, [3]),
    ("price = $1", None, []),
]


@pytest.mark.parametrize(("where", "value", "expected"), VALUES, ids=[f"{w} {type(v).__name__}" for w, v, _ in VALUES])
def test_types(table: tickstone.Database, where: str, value: Any, expected: list[int]) -> None:
    assert ids(table, where, [value]) == expected


@pytest.mark.parametrize(
    "value", [None, True, 0, -(2**63), 2**63 - 1, 1e300, "", "quote ' and \\", "\u2602", b"\x00'", datetime.date(1969, 12, 31)]
)
def test_values_come_back(db: tickstone.Database, value: Any) -> None:
    assert db.sql("SELECT $1 AS v", [value]).fetchall() == [(value,)]


def test_a_time_comes_back_in_utc(db: tickstone.Database) -> None:
    (found,) = db.sql("SELECT $1 AS v", [NOON]).fetchone() or ()
    assert found == NOON and found.utcoffset() == datetime.timedelta(0)


def test_nan(db: tickstone.Database) -> None:
    (found,) = db.sql("SELECT $1 AS v", [float("nan")]).fetchone() or ()
    assert found != found


def test_in_limit_and_functions(table: tickstone.Database) -> None:
    assert ids(table, "n IN ($1, $2)", [1, 3]) == [1, 3]
    assert table.sql("SELECT round($1, 1) AS r", [2.26]).fetchone() == (2.3,)


def test_insert(table: tickstone.Database) -> None:
    relation = table.sql("INSERT INTO t (ts, symbol, n) VALUES (:ts, :s, :n)", ts=NOON, s=None, n=9)
    assert relation.rowcount == 1
    assert table.sql("SELECT ts, symbol FROM t WHERE n = 9").fetchall() == [(NOON, None)]


def test_text_that_looks_like_a_parameter(db: tickstone.Database) -> None:
    assert db.sql("SELECT ':a $1' AS text, :a AS a", {"a": 1}).fetchall() == [(":a $1", 1)]
    assert db.sql("SELECT CAST(1 AS BIGINT)::VARCHAR AS t").fetchall() == [("1",)]


@pytest.mark.parametrize(
    ("sql", "params"),
    [
        ("SELECT $1 + $2", [1]),
        ("SELECT :a", {}),
        ("SELECT :a", [1]),
        ("SELECT $1", {"a": 1}),
        ("SELECT $1", "text"),
        ("SELECT $1", [object()]),
        ("SELECT $1", [2**70]),
    ],
)
def test_wrong_parameters(db: tickstone.Database, sql: str, params: Any) -> None:
    with pytest.raises((tickstone.Error, TypeError, ValueError)):
        db.sql(sql, params).fetchall()


@pytest.mark.parametrize("value", [pd.NaT, pd.NA, np.datetime64("NaT"), np.timedelta64("NaT")], ids=repr)
def test_what_is_missing_is_null(db: tickstone.Database, value: Any) -> None:
    assert db.sql("SELECT $1 AS v", [value]).fetchall() == [(None,)]
    assert db.sql("SELECT :v AS v", v=value).fetchall() == [(None,)]


@pytest.mark.parametrize("value", [b"ab", bytearray(b"ab"), memoryview(b"ab")])
def test_bytes_of_every_kind(db: tickstone.Database, value: Any) -> None:
    assert db.sql("SELECT $1 AS v", [value]).fetchall() == [(b"ab",)]


def test_an_array_of_no_dimension_is_a_value(db: tickstone.Database) -> None:
    assert db.sql("SELECT $1 AS v", [np.array(3)]).fetchall() == [(3,)]


@pytest.mark.parametrize("params", [5, True, 1.5, np.array(3), object(), "text", b"text", bytearray(b"text")], ids=lambda value: type(value).__name__)
def test_parameters_are_a_sequence_or_a_mapping(db: tickstone.Database, params: Any) -> None:
    with db.transaction() as transaction:
        for sql in (db.sql, transaction.sql):
            with pytest.raises(tickstone.Error, match="a sequence for .* or a mapping for :name") as caught:
                sql("SELECT $1", params)
            assert caught.value.hint == "put a single value into a list: [value]"


def test_any_mapping_has_names(db: tickstone.Database) -> None:
    assert db.sql("SELECT :a AS v", types.MappingProxyType({"a": 1})).fetchall() == [(1,)]
    assert db.sql("SELECT $2 AS v, $1 AS w", (1, 2)).fetchall() == [(2, 1)]


def test_uuids_are_text(db: tickstone.Database) -> None:
    value = uuid.UUID(int=5)
    assert db.sql("SELECT $1 AS v", [value]).fetchone() == (str(value),)


@pytest.mark.parametrize(
    ("query", "params", "unused"),
    [("SELECT $1", [1, 2], "$2"), ("SELECT :a", {"a": 1, "b": 2}, ":b"), ("SELECT 1", [1], "$1")],
)
def test_a_value_for_no_placeholder(db: tickstone.Database, query: str, params: Any, unused: str) -> None:
    with pytest.raises(tickstone.SqlError, match=re.escape(f"a value was given for {unused}")):
        db.sql(query, params)


def test_values_of_several_statements(db: tickstone.Database) -> None:
    assert db.sql("SELECT $1; SELECT $2", [1, 2]).fetchall() == [(2,)]


@pytest.mark.parametrize(("condition", "count"), [("IN ($1)", 0), ("NOT IN ($1)", 3)])
def test_an_empty_list(db: tickstone.Database, condition: str, count: int) -> None:
    numbers = "(VALUES (1), (2), (NULL)) AS t(n)"
    assert db.sql(f"SELECT count(*) FROM {numbers} WHERE n {condition}", [[]]).fetchall() == [(count,)]
