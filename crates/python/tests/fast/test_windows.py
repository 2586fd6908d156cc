"""Windows by series against DuckDB."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given

from fast.markets import CONDITIONS, MINUTE, Market
from tickstone.testing import check, strategies

ROW_FRAMES = [
    "ROWS BETWEEN 4 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN 3 PRECEDING AND 2 FOLLOWING",
    "ROWS BETWEEN 5 PRECEDING AND 2 PRECEDING",
    "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "ROWS BETWEEN 1100 PRECEDING AND CURRENT ROW",
]
FRAMED = [
    "sum(price)", "avg(price)", "count(price)", "count(*)", "min(price)", "max(price)", "sum(size)", "min(size)",
    "first_value(price)", "last_value(price)", "sum(price * size)",
]  # fmt: skip
PLACED = [
    "lag(price)", "lead(price)", "lag(price, 3)", "lead(size, 2)", "lag(side, 1)", "row_number()", "rank()",
    "dense_rank()",
]  # fmt: skip


def over(functions: Sequence[str], window: str) -> str:
    """The functions over a window."""
    return ", ".join(f"{each} OVER ({window})" for each in functions)


@pytest.mark.parametrize("frame", ROW_FRAMES)
def test_windows_of_rows(untied: Market, frame: str) -> None:
    """Times are all different, so that each frame is one set of rows."""
    for keys in ("symbol", "side") if frame == ROW_FRAMES[0] else ("symbol",):
        asked = over(FRAMED, f"PARTITION BY {keys} ORDER BY ts {frame}")
        untied.asking.check(f"SELECT id, {asked} FROM ticks", duckdb=f"SELECT id, {asked} FROM ticks", exact=True)


def test_places_in_windows(untied: Market) -> None:
    for window in ("PARTITION BY symbol ORDER BY ts", "PARTITION BY symbol ORDER BY ts DESC", "ORDER BY ts"):
        asked = over(PLACED, window)
        untied.asking.check(f"SELECT id, {asked} FROM ticks", duckdb=f"SELECT id, {asked} FROM ticks", exact=True)


def test_vwap_to_date(untied: Market) -> None:
    window = "PARTITION BY symbol ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
    right = f"""SELECT id, sum(price * size) OVER ({window}) /
                  sum(size) FILTER (price IS NOT NULL) OVER ({window}) FROM ticks"""
    untied.asking.check(f"SELECT id, vwap(price, size) OVER ({window}) FROM ticks", duckdb=right, exact=True)
    untied.asking.check(
        f"SELECT id, sum(price * size) OVER ({window}) / sum(size) OVER ({window}) FROM ticks WHERE price IS NOT NULL",
        duckdb=f"""SELECT id, sum(price * size) OVER ({window}) / sum(size) OVER ({window})
                   FROM ticks WHERE price IS NOT NULL""",
        exact=True,
    )


SPANS = [("5 minutes", 5 * MINUTE), ("6 hours", 360 * MINUTE)]


@pytest.mark.parametrize(("span", "span_ns"), SPANS)
def test_windows_of_time(market: Market, span: str, span_ns: int) -> None:
    """Rows with equal times are in each other's frames, so that there is one answer."""
    functions = ["sum(price)", "avg(price)", "count(*)", "count(size)", "min(price)", "max(price)", "max(ts)"]
    for keys in ("symbol", "symbol, venue") if market.name == "venues" else ("symbol",):
        ours = f"PARTITION BY {keys} ORDER BY ts RANGE BETWEEN INTERVAL '{span}' PRECEDING AND CURRENT ROW"
        theirs = f"PARTITION BY {keys} ORDER BY epoch_ns(ts) RANGE BETWEEN {span_ns} PRECEDING AND CURRENT ROW"
        market.asking.check(
            f"SELECT id, {over(functions, ours)} FROM ticks",
            duckdb=f"SELECT id, {over(functions, theirs)} FROM ticks",
            exact=True,
        )


def test_windows_to_date_with_equal_times(market: Market) -> None:
    """Without a frame it reaches to the last row with the same time."""
    functions = ["sum(price)", "count(*)", "min(size)", "max(price)", "avg(price)", "rank()", "dense_rank()"]
    for window in ("PARTITION BY symbol ORDER BY ts", "ORDER BY ts"):
        asked = over(functions, window)
        market.asking.check(f"SELECT id, {asked} FROM ticks", duckdb=f"SELECT id, {asked} FROM ticks", exact=True)
    asked = over(["sum(price)", "count(*)", "max(size)"], "PARTITION BY symbol")
    market.asking.check(f"SELECT id, {asked} FROM ticks", duckdb=f"SELECT id, {asked} FROM ticks", exact=True)


def test_windows_over_some_rows_and_what_is_asked_of_them(untied: Market) -> None:
    window = "PARTITION BY symbol ORDER BY ts ROWS BETWEEN 9 PRECEDING AND CURRENT ROW"
    for condition in CONDITIONS:
        tick, peer = (f"WHERE {each}" if each else "" for each in CONDITIONS[condition])
        before = "lag(id) OVER (PARTITION BY symbol ORDER BY ts)"
        asked = f"SELECT id, symbol, sum(price) OVER ({window}) AS total, {before} AS before"
        untied.asking.check(
            f"SELECT symbol, count(*), sum(total), max(before) FROM ({asked} FROM ticks {tick}) GROUP BY symbol",
            duckdb=f"SELECT symbol, count(*), sum(total), max(before) FROM ({asked} FROM ticks {peer}) GROUP BY symbol",
            exact=True,
        )
    newest_two = f"""SELECT id, total FROM (
        SELECT id, ts, sum(price) OVER ({window}) AS total,
               row_number() OVER (PARTITION BY symbol ORDER BY ts DESC) AS place
        FROM ticks) WHERE place <= 2 ORDER BY ts"""
    untied.asking.check(newest_two, duckdb=newest_two, ordered=True, exact=True)


@given(strategies.trades(null_symbols=True))
def test_windows_of_drawn_rows(trades: pa.Table) -> None:
    """Frames of time over equal times, and frames of rows in the order of `ts` and `id`."""
    near = "ORDER BY ts RANGE BETWEEN INTERVAL '1 minute' PRECEDING AND CURRENT ROW"
    peer_near = f"ORDER BY epoch_ns(ts) RANGE BETWEEN {MINUTE} PRECEDING AND CURRENT ROW"
    asked = """SELECT id,
        count(*) OVER (PARTITION BY symbol {0}), max(price) OVER (PARTITION BY symbol {0}),
        sum(size) OVER (PARTITION BY symbol ORDER BY ts, id ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING),
        first_value(price) OVER (PARTITION BY symbol, side ORDER BY ts, id)
      FROM trades"""
    check(asked.format(near), duckdb=asked.format(peer_near), trades=trades)
