"""Trades, quotes and odd names for hypothesis.

Frames are `pyarrow.Table`s in order of time, as most peers need them; rows with equal times are in order of
arrival, which `id` counts from 0. `check` mixes the arrival itself. Times are nanoseconds, UTC, without zone.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

__all__ = ["START", "names", "quotes", "trades"]

#: The first time a frame may have: 2024-03-30T22:00:00Z, ns since the Unix epoch; clocks change that night.
START = 1_711_836_000_000_000_000
SECOND = 1_000_000_000
# Steps between rows, ns: equal times, neighbours, within and across seconds, minutes, hours and days.
STEPS = [0, 0, 1, 999, SECOND // 3, SECOND, 59 * SECOND, 61 * SECOND, 3_600 * SECOND, 90_000 * SECOND]
SYMBOLS = ["A", "B", "BTC-USD", "it's", 'a "quoted" name', "Ünïcode ☂", "", "NULL"]
# Words that SQL keeps for itself, characters that need quoting, capitals.
ODD_NAMES = ["select", "from", "Group", "a b", "it's", 'say "hi"', "naïve", "数量", "1st", "a.b", "x;--", "$1"]


def names() -> st.SearchStrategy[str]:
    """Names of tables and columns that need quoting; as tables demand it not empty, without control characters
    and without spaces at the ends."""
    characters = st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"))
    return st.sampled_from(ODD_NAMES) | st.text(characters, max_size=12).map(str.strip).filter(bool)


def prices() -> st.SearchStrategy[float]:
    """Positive prices of ordinary size, with few decimals so that equal ones occur."""
    return st.integers(1, 20_000).map(lambda cents: cents / 100)


def nullable(values: st.SearchStrategy[Any], nulls: bool) -> st.SearchStrategy[Any]:
    """The values, and None sometimes if `nulls`."""
    return st.none() | values if nulls else values


@st.composite
def times(draw: st.DrawFn, row_count: int, ties: bool) -> list[int]:
    """Ascending times, ns since the Unix epoch; without `ties` each is greater than the one before."""
    steps = STEPS if ties else [step for step in STEPS if step]
    made, ts = [], START
    for step in draw(st.lists(st.sampled_from(steps), min_size=row_count, max_size=row_count)):
        ts += step
        made.append(ts)
    return made


@st.composite
def keys(draw: st.DrawFn, row_count: int, nulls: bool) -> list[str | None]:
    """A symbol for each row, of one to four; one symbol alone is as likely as several."""
    chosen = draw(st.lists(st.sampled_from(SYMBOLS), min_size=1, max_size=4, unique=True))
    pool = nullable(st.sampled_from(chosen), nulls)
    return draw(st.lists(pool, min_size=row_count, max_size=row_count))


def column(draw: st.DrawFn, values: st.SearchStrategy[Any], row_count: int) -> list[Any]:
    """A value for each row."""
    return draw(st.lists(values, min_size=row_count, max_size=row_count))


@st.composite
def trades(
    draw: st.DrawFn,
    *,
    min_rows: int = 0,
    max_rows: int = 30,
    ties: bool = True,
    nulls: bool = True,
    nan: bool = False,
    null_symbols: bool = False,
) -> pa.Table:
    """Trades: ts, symbol, side, price, size, id. `nulls` are in price and size, `nan` in price."""
    count = draw(st.integers(min_rows, max_rows))
    price = prices() | st.just(float("nan")) if nan else prices()
    return pa.table(
        {
            "ts": pa.array(draw(times(count, ties)), pa.timestamp("ns")),
            "symbol": pa.array(draw(keys(count, null_symbols)), pa.string()),
            "side": pa.array(column(draw, st.sampled_from(["buy", "sell"]), count), pa.string()),
            "price": pa.array(column(draw, nullable(price, nulls), count), pa.float64()),
            "size": pa.array(column(draw, nullable(st.integers(1, 1_000), nulls), count), pa.int64()),
            "id": pa.array(range(count), pa.int64()),
        }
    )


@st.composite
def quotes(
    draw: st.DrawFn,
    *,
    min_rows: int = 0,
    max_rows: int = 30,
    ties: bool = True,
    nulls: bool = True,
) -> pa.Table:
    """Quotes: ts, symbol, bid, ask, bid_size, ask_size, id; ask > bid. `nulls` are in the four values."""
    count = draw(st.integers(min_rows, max_rows))
    bids = column(draw, nullable(prices(), nulls), count)
    widths = column(draw, nullable(st.integers(1, 50).map(lambda cents: cents / 100), nulls), count)
    asks = [None if bid is None or width is None else bid + width for bid, width in zip(bids, widths)]
    sizes = nullable(st.integers(1, 1_000), nulls)
    return pa.table(
        {
            "ts": pa.array(draw(times(count, ties)), pa.timestamp("ns")),
            "symbol": pa.array(draw(keys(count, False)), pa.string()),
            "bid": pa.array(bids, pa.float64()),
            "ask": pa.array(asks, pa.float64()),
            "bid_size": pa.array(column(draw, sizes, count), pa.int64()),
            "ask_size": pa.array(column(draw, sizes, count), pa.int64()),
            "id": pa.array(range(count), pa.int64()),
        }
    )
