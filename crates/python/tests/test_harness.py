"""The harness itself: it must be able to fail, and say how."""

import math
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

import tickstone
from tickstone.testing import STATES, Mismatch, State, asking, assert_same, check, strategies
from tickstone.testing.states import TestTable, arrival

NAN = float("nan")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([(1, 0.1 + 0.2)], [(1, 0.3)]),
        ([(NAN, None)], [(NAN, None)]),
        ([(1,), (2,), (2,)], [(2,), (1,), (2,)]),
        ([(Decimal(7), "a")], [(7, "a")]),
        ([(1.0, 5.0), (1.0 + 1e-12, 4.0)], [(1.0, 4.0), (1.0, 5.0)]),
        ([([1.0, None],)], [([1.0 + 1e-12, None],)]),
        ([], []),
    ],
)
def test_equal_answers(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> None:
    assert_same(ours, theirs)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([(1.0,)], [(1.00000001,)]),
        ([(0.0,)], [(1e-300,)]),
        ([(NAN,)], [(None,)]),
        ([(None,)], [(0,)]),
        ([(2**53,)], [(2**53 + 1,)]),
        ([(1,)], [(True,)]),
        ([(1,), (1,)], [(1,)]),
        ([(1,), (1,), (2,)], [(1,), (2,), (2,)]),
        ([(1,)], [(1, 1)]),
        ([("a",)], [("A",)]),
        ([(Decimal("0.1"),)], [(Decimal("0.2"),)]),
    ],
)
def test_different_answers(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> None:
    with pytest.raises(Mismatch):
        assert_same(ours, theirs)


def as_table(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Rows as Arrow, which are compared column by column first."""
    return pa.table({str(at): pa.array(column) for at, column in enumerate(zip(*rows, strict=True))})


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([("a", 1.0), ("b", 2.0)], [("b", 2.0 + 1e-12), ("a", 1.0)]),
        ([("a", NAN), ("b", None), ("c", math.inf)], [("c", math.inf), ("b", None), ("a", NAN)]),
        ([(1.0, 5.0), (1.0 + 1e-12, 4.0)], [(1.0, 4.0), (1.0, 5.0)]),
    ],
)
def test_equal_tables(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> None:
    assert_same(as_table(ours), as_table(theirs))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ([("a", 1.0), ("b", 2.0)], [("b", 1.0), ("a", 2.0)]),
        ([("a", 1.0), ("a", 1.0)], [("a", 1.0), ("b", 1.0)]),
        ([("a", 1.0)], [("a", 1.00000001)]),
        ([("a", math.inf)], [("a", 1e300)]),
        ([("a", math.inf)], [("a", -math.inf)]),
        ([("a", NAN)], [("a", 1.0)]),
        ([("a", None), ("a", 1.0)], [("a", NAN), ("a", 1.0)]),
        ([(1, None)], [(1, 0)]),
    ],
)
def test_different_tables(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> None:
    with pytest.raises(Mismatch):
        assert_same(as_table(ours), as_table(theirs))


def test_exact_allows_no_difference() -> None:
    for make in (list, as_table):
        assert_same(make([(0.5, NAN)]), make([(0.5, NAN)]), exact=True)
        with pytest.raises(Mismatch):
            assert_same(make([(0.1 + 0.2,)]), make([(0.3,)]), exact=True)


def test_order_counts_only_if_asked_for() -> None:
    assert_same([(1,), (2,)], [(2,), (1,)])
    with pytest.raises(Mismatch, match="the order of the rows counts"):
        assert_same([(1,), (2,)], [(2,), (1,)], ordered=True)


def test_a_difference_is_readable() -> None:
    ours = pa.table({"id": [1, 2, 3], "price": [1.0, 2.0, 3.0]})
    theirs = pa.table({"id": [1, 2, 3], "price": [1.0, 2.5, 3.0]})
    with pytest.raises(Mismatch) as caught:
        assert_same(ours, theirs, what="vwap", names=("tickstone", "duckdb"))
    message = str(caught.value)
    assert "tickstone has 3 rows, 1 of them alone" in message
    assert "differs in: price" in message
    assert "(2, 2.0)" in message and "(2, 2.5)" in message and "(3, 3.0)" not in message


def test_times_of_all_units_are_nanoseconds() -> None:
    seconds = pa.table({"t": pa.array([5], pa.timestamp("s"))})
    nanoseconds = pa.table({"t": pa.array([5_000_000_000], pa.timestamp("ns"))})
    assert_same(seconds, nanoseconds)
    with pytest.raises(Mismatch):
        assert_same(nanoseconds, pa.table({"t": pa.array([5_000_000_001], pa.timestamp("ns"))}))


@given(strategies.trades(max_rows=40))
def test_shuffling_keeps_equal_times_in_order(trades: pa.Table) -> None:
    order = arrival(TestTable(trades, "ts", "symbol"))
    assert sorted(order) == list(range(trades.num_rows))
    times = trades.column("ts").to_pylist()
    for row, later in ((a, b) for at, a in enumerate(order) for b in order[at + 1 :]):
        assert times[row] != times[later] or row < later


TRADES = pa.table(
    {"ts": pa.array([1, 2, 3], pa.timestamp("ns")), "symbol": ["A", "A", "B"], "price": [1.0, 3.0, 5.0]}
)


def test_every_peer_and_state_is_asked() -> None:
    answer = check(
        "SELECT symbol, sum(price) AS total FROM trades GROUP BY symbol",
        duckdb="SELECT symbol, sum(price) FROM trades GROUP BY symbol",
        polars=lambda trades: trades.group_by("symbol").agg(pl.col("price").sum()),
        pandas=lambda trades: trades.groupby("symbol", as_index=False)["price"].sum(),
        expect=[("B", 5.0), ("A", 4.0)],
        trades=TRADES,
    )
    assert answer.column_names == ["symbol", "total"]


def test_many_questions_about_the_same_rows() -> None:
    with asking(trades=TRADES, series=["symbol"]) as ask:
        assert list(ask.states) == list(STATES)
        for threshold in (0, 2, 4, 9):
            counted = f"SELECT count(*) FROM trades WHERE price > {threshold}"
            ask.check(counted, duckdb=counted)
        with pytest.raises(Mismatch, match="state memory, against duckdb"):
            ask.check("SELECT max(price) FROM trades", duckdb="SELECT min(price) FROM trades")
        with pytest.raises(ValueError, match="no peer"):
            ask.check("SELECT max(price) FROM trades")


@pytest.mark.parametrize("peer", ["duckdb", "polars", "pandas", "expect"])
def test_a_wrong_peer_is_found(peer: str) -> None:
    wrong: dict[str, Any] = {
        "duckdb": "SELECT 4 FROM trades LIMIT 1",
        "polars": lambda trades: trades.select("price").head(1),
        "pandas": lambda trades: trades[["price"]].head(1),
        "expect": [(4,)],
    }
    with pytest.raises(Mismatch, match=f"against {'expected' if peer == 'expect' else peer}"):
        check("SELECT count(*) FROM trades WHERE price > 1", trades=TRADES, **{peer: wrong[peer]})


def test_states_that_disagree_are_found() -> None:
    def lose(database: tickstone.Database, tables: Any) -> None:
        for name, table in tables.items():
            database.append(name, table.rows.slice(1), timestamp="ts", create=True)

    with pytest.raises(Mismatch, match="state losing"):
        check("SELECT count(*) FROM trades", states=["memory", State("losing", lose)], trades=TRADES)


def test_the_states() -> None:
    stored = ["memory", "parts", "half", "shuffled", "overlapping", "reopened", "changed", "changed, reopened"]
    assert list(STATES) == [*stored, "frames"]


@given(strategies.quotes())
def test_quotes_are_what_they_say(quotes: pa.Table) -> None:
    times = quotes.column("ts").cast(pa.int64()).to_pylist()
    assert times == sorted(times) and all(ts >= strategies.START for ts in times)
    for bid, ask in zip(quotes.column("bid").to_pylist(), quotes.column("ask").to_pylist(), strict=True):
        assert bid is None or ask is None or (ask > bid and math.isfinite(ask))
