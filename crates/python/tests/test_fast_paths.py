"""Every operator that reads rows by series and time, against DuckDB, Polars and pandas, over every mix of runs and
parts.

The markets are made from fixed seeds and hold what is awkward: hundreds of symbols, the busy ones longer than a
block of 1,024 values and the rare ones of one row; equal times; NULLs in keys and values; NaN; late rows in parts
that overlap; one row; none.

Prices are small multiples of 1/64 and sizes small integers, so that their sums, products and averages come out the
same to the last bit in whatever order they are added: those are compared exactly. `stddev` and `corr` round on their
way, each system in its own, and so does DuckDB in the average of integers (once to a long double, then to a double);
they are compared to a relative 1e-9.
"""

import datetime
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tickstone.testing import STATES, Asking, State, asking, check, strategies
from tickstone.testing.markets import market as market_of
from tickstone.testing.states import overlapping

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
DAY = 86_400 * SECOND
# 2024-03-30T22:00:00Z, so that three days of rows are in four partitions.
START = strategies.START
LATE_REOPENED = State("overlapping, reopened", overlapping, reopened=True)
# Only in memory, only in parts, in order in both, late in both, and late from disk. Frames drawn by hypothesis are
# small and go through all the states.
MIXES: Sequence[str | State] = ("memory", "parts", "half", "overlapping", LATE_REOPENED)
FEW: Sequence[str | State] = ("memory", "parts", LATE_REOPENED)
BUSY = "S000"


# Markets.


@dataclass(frozen=True)
class Market:
    """A table `ticks` in every state and in DuckDB. `ordered_across`: rows of different series have different times,
    so that what is first and last is one row whatever the rows are grouped by."""

    name: str
    asking: Asking
    ordered_across: bool
    ties: bool

    @property
    def times(self) -> list[int]:
        """The times of the rows, ns since the Unix epoch, ascending."""
        times: list[int] = self.asking.rows["ticks"].column("ts").cast(pa.int64()).to_pylist()
        return times


MARKETS: dict[str, tuple[Callable[[], pa.Table], str | list[str], str]] = {
    # Name: the rows, the series key, which rows have equal times. S000 has some 2,600 rows of `crowd`.
    "crowd": (lambda: market_of(1, 14_000, 300, ties="series"), "symbol", "series"),
    "auction": (lambda: market_of(2, 4_000, 40, days=0.3, ties="all"), "symbol", "all"),
    "strict": (lambda: market_of(3, 7_000, 150), "symbol", "none"),
    "venues": (lambda: market_of(4, 7_000, 20), ["symbol", "venue"], "none"),
    "one symbol": (lambda: market_of(5, 5_000, 1, ties="series"), "symbol", "series"),
    "one row": (lambda: market_of(6, 1, 1), "symbol", "none"),
    "empty": (lambda: market_of(7, 0, 1), "symbol", "none"),
}


@contextmanager
def opened(name: str) -> Iterator[Market]:
    """A market by its name."""
    rows, series, ties = MARKETS[name]
    table = rows()
    with asking(states=MIXES if table.num_rows > 1 else FEW, series=series, timestamp="ts", ticks=table) as ask:
        yield Market(name, ask, ties != "all", ties != "none")


@pytest.fixture(scope="module", params=[name for name in MARKETS if name != "strict"])
def market(request: pytest.FixtureRequest) -> Iterator[Market]:
    """Each of the markets but one that is for windows."""
    with opened(request.param) as each:
        yield each


@pytest.fixture(scope="module", params=["strict", "venues", "one row", "empty"])
def untied(request: pytest.FixtureRequest) -> Iterator[Market]:
    """The markets whose times are all different."""
    with opened(request.param) as each:
        yield each


@pytest.fixture(scope="module", params=["crowd", "venues"])
def large(request: pytest.FixtureRequest) -> Iterator[Market]:
    """The largest markets, for questions drawn by hypothesis."""
    with opened(request.param) as each:
        yield each


def literal(ns: int) -> str:
    """A time as Tickstone reads it."""
    moment = datetime.datetime.fromtimestamp(ns // SECOND, datetime.UTC)
    return f"'{moment:%Y-%m-%dT%H:%M:%S}.{ns % SECOND:09}'"


def between(from_ns: int, to_ns: int) -> tuple[str, str]:
    """The condition that a time is in a half-open range, for Tickstone and for DuckDB."""
    return (
        f"ts >= {literal(from_ns)} AND ts < {literal(to_ns)}",
        f"ts >= make_timestamp_ns({from_ns}) AND ts < make_timestamp_ns({to_ns})",
    )


def bucket(stride_ns: int) -> str:
    """The start of a bucket in DuckDB's SQL."""
    return f"make_timestamp_ns(epoch_ns(ts) // {stride_ns} * {stride_ns})"


def test_the_markets_are_what_they_say() -> None:
    """Symbols longer than two blocks and of one row, several partitions, SYMBOL columns beside the series key, late
    rows and equal times: else the tests below would not meet them."""
    rows, series, _ = MARKETS["crowd"]
    with asking(states=(*STATES, LATE_REOPENED), series=series, ticks=rows()) as ask:
        counts = ask.peer.sql("SELECT count(*) FROM ticks GROUP BY symbol ORDER BY 1").fetchall()
        assert counts[0] == (1,) and counts[-1][0] > 2_048 and len(counts) > 250
        for name, database in ask.states.items():
            if name == "frames":
                continue
            kinds = {row[0]: row[1] for row in database.sql("DESCRIBE ticks").fetchall()}
            assert [kinds[column] for column in ("symbol", "venue", "side")] == ["SYMBOL"] * 3, name
            (shown,) = database.sql("SHOW TABLES").fetchall()
            assert shown[2] == "symbol" and shown[5:] == (14_000, 4), name
    for name, (rows, _, ties) in MARKETS.items():
        times = rows().column("ts").cast(pa.int64()).to_pylist()
        assert times == sorted(times) and (len(set(times)) < len(times)) == (ties != "none"), name


# Aggregates: what Tickstone is asked and what DuckDB is asked for the same.

SAME = [
    "count(*)", "count(price)", "sum(price)", "avg(price)", "min(price)", "max(price)",
    "sum(size)", "min(size)", "max(size)", "sum(price * size)", "sum(price * price)",
    "count(odd)", "sum(odd)", "avg(odd)", "min(odd)", "max(odd)", "min(ts)", "max(ts)", "min(side)", "max(venue)",
]  # fmt: skip
WEIGHTED = ("vwap(price, size)", "sum(price * size) / sum(size) FILTER (price IS NOT NULL)")
ENDS = [
    ("first(price)", "arg_min_null(price, id)"),
    ("last(price)", "arg_max_null(price, id)"),
    ("first(side)", "arg_min_null(side, id)"),
    ("last(odd)", "arg_max_null(odd, id)"),
    ("last(id)", "max(id)"),
]
# corr is a number from -1 to 1 that is exact up to a rounding of its parts: where it is near 0, a relative
# difference says nothing. Of two values or less, or of equal ones, it is no number in one system or the other.
ENOUGH = "count(price * size) > 2 AND max(price) > min(price) AND min(size) < max(size)"
SPREADS = [
    ("avg(size)", "avg(size)"),
    ("stddev(price)", "stddev_samp(price)"),
    ("stddev_pop(size)", "stddev_pop(size)"),
    (f"CASE WHEN {ENOUGH} THEN 2 + corr(price, size) END",) * 2,
]


def aggregates(ends: bool) -> tuple[str, str]:
    """The exact aggregates for Tickstone and DuckDB, with or without the first and the last value."""
    pairs = [(each, each) for each in SAME] + [WEIGHTED] + (ENDS if ends else [])
    return ", ".join(pair[0] for pair in pairs), ", ".join(pair[1] for pair in pairs)


def spreads() -> tuple[str, str]:
    """The aggregates that round."""
    return ", ".join(pair[0] for pair in SPREADS), ", ".join(pair[1] for pair in SPREADS)


def ask_groups(
    market: Market,
    keys: str,
    *,
    sample: tuple[str, int] | None = None,
    where: tuple[str, str] = ("", ""),
    rounding: bool = True,
) -> None:
    """All aggregates by keys, and by buckets of a stride (its name and ns) where one is given; those that round only
    if they are asked for."""
    ends = market.ordered_across or keys.startswith("symbol")
    for (tick, peer), exact in ((aggregates(ends), True), (spreads(), False))[: 2 if rounding else 1]:
        ours = ", ".join(filter(None, ["ts" if sample else "", keys, tick]))
        theirs = ", ".join(filter(None, [f"{bucket(sample[1])} AS bucket" if sample else "", keys, peer]))
        group = ", ".join(filter(None, ["bucket" if sample else "", keys]))
        conditions = [f"WHERE {each}" if each else "" for each in where]
        by = f"SAMPLE BY {sample[0]}" if sample else f"GROUP BY {keys}" if keys else ""
        market.asking.check(
            f"SELECT {ours} FROM ticks {conditions[0]} {by}",
            duckdb=f"SELECT {theirs} FROM ticks {conditions[1]} {f'GROUP BY {group}' if group else ''}",
            exact=exact,
        )


# SAMPLE BY.


@pytest.mark.parametrize(
    ("stride", "stride_ns", "keys"),
    [
        ("20m", 20 * MINUTE, "symbol"),
        ("7h", 7 * 60 * MINUTE, "symbol"),
        ("3h", 180 * MINUTE, "symbol, side"),
        ("1h", 60 * MINUTE, "symbol, venue"),
        ("1d", DAY, "symbol, venue, side"),
        ("90s", 90 * SECOND, ""),
        ("1d", DAY, ""),
        ("10m", 10 * MINUTE, "side"),
    ],
)
def test_sample_by(market: Market, stride: str, stride_ns: int, keys: str) -> None:
    ask_groups(market, keys, sample=(stride, stride_ns))


@given(st.data())
@settings(max_examples=6)
def test_sample_by_over_ranges_that_cut_blocks(large: Market, data: st.DataObject) -> None:
    """Ranges begin and end at rows, and beside them by a nanosecond."""
    where = between(*drawn_range(data, large.times))
    stride, stride_ns = data.draw(st.sampled_from([("1s", SECOND), ("61s", 61 * SECOND), ("4h", 240 * MINUTE)]))
    keys = data.draw(st.sampled_from(["", "symbol", "symbol, side"]))
    ask_groups(large, keys, sample=(stride, stride_ns), where=where)


def drawn_range(data: st.DataObject, times: list[int]) -> tuple[int, int]:
    """A range of time whose ends are at rows or beside them; short, long or empty."""
    first = data.draw(st.integers(0, len(times) - 1))
    last = min(first + data.draw(st.sampled_from([0, 1, 50, 1_023, 1_024, 1_025, len(times)])), len(times) - 1)
    beside = st.sampled_from([-1, 0, 1])
    return times[first] + data.draw(beside), times[last] + data.draw(beside)


@pytest.mark.parametrize("every", ["17m", "5h"])
def test_sample_by_against_polars_and_pandas(market: Market, every: str) -> None:
    """Sums of no values are NULL here, as in SQL; Polars and pandas say 0."""

    def of_polars(ticks: pl.DataFrame) -> pl.DataFrame:
        price, size = pl.col("price"), pl.col("size")
        total = pl.when(price.count() > 0).then(price.sum())
        product = pl.when((price * size).count() > 0).then((price * size).sum())
        return ticks.group_by_dynamic("ts", every=every, group_by="symbol").agg(
            pl.len().alias("rows"), total.alias("total"), price.mean().alias("mean"), price.min().alias("low"),
            price.max().alias("high"), price.first().alias("open"), price.last().alias("close"),
            product.alias("product"),
        ).select("ts", "symbol", "rows", "total", "mean", "low", "high", "open", "close", "product")  # fmt: skip

    def of_pandas(ticks: pd.DataFrame) -> pd.DataFrame:
        stride = every.replace("m", "min")
        prices = ticks.groupby([ticks["ts"].dt.floor(stride), "symbol"], dropna=False)["price"]
        bars = {
            "rows": prices.size(), "total": prices.sum(min_count=1), "mean": prices.mean(),
            "low": prices.min(), "high": prices.max(),
        }  # fmt: skip
        return pd.DataFrame(bars).reset_index()

    few = "ts, symbol, count(*), sum(price), avg(price), min(price), max(price)"
    market.asking.check(f"SELECT {few} FROM ticks SAMPLE BY {every}", pandas=of_pandas, exact=True)
    market.asking.check(
        f"SELECT {few}, first(price), last(price), sum(price * size) FROM ticks SAMPLE BY {every}",
        polars=of_polars,
        exact=True,
    )


# GROUP BY.

FAR = START + 1_000 * DAY
CONDITIONS: dict[str, tuple[str, str]] = {
    "everything": ("", ""),
    "one symbol": (f"symbol = '{BUSY}'",) * 2,
    "some symbols": ("symbol IN ('S001', 'S007', 'nowhere')",) * 2,
    "all but one symbol": (f"symbol <> '{BUSY}'",) * 2,
    "no symbol": ("symbol IS NULL",) * 2,
    "a middle": between(START + 9 * 3_600 * SECOND + 1, START + 40 * 3_600 * SECOND + 7),
    "an open end": (f"ts > {literal(START + DAY)}", f"ts > make_timestamp_ns({START + DAY})"),
    "a price": ("price > 100.5",) * 2,
    "a side": ("side = 'buy'",) * 2,
    "values": ("odd IS NOT NULL AND size <= 50",) * 2,
    "nothing": between(FAR, FAR + DAY),
    "no such symbol": ("symbol = 'nowhere'",) * 2,
    "no such price": ("price > 1e9",) * 2,
}
CONDITIONS["all at once"] = (
    f"{CONDITIONS['a middle'][0]} AND symbol <> 'S002' AND price < 105",
    f"{CONDITIONS['a middle'][1]} AND symbol <> 'S002' AND price < 105",
)


@pytest.mark.parametrize("keys", ["symbol", "side", "symbol, side", "symbol, venue", "venue, symbol", ""])
def test_group_by(market: Market, keys: str) -> None:
    ask_groups(market, keys)


@pytest.mark.parametrize("condition", [name for name in CONDITIONS if name != "everything"])
def test_group_by_where(market: Market, condition: str) -> None:
    for keys in ("symbol", "side", "") if condition in ("a middle", "all at once") else ("symbol", ""):
        ask_groups(market, keys, where=CONDITIONS[condition], rounding=keys == "")


@given(st.data())
@settings(max_examples=10)
def test_groups_over_ranges_that_cut_blocks(large: Market, data: st.DataObject) -> None:
    where = between(*drawn_range(data, large.times))
    symbol = data.draw(st.sampled_from(["", f"symbol = '{BUSY}'", "symbol IN ('S000', 'S003', 'S150')"]))
    if symbol:
        where = (f"{where[0]} AND {symbol}", f"{where[1]} AND {symbol}")
    ask_groups(large, data.draw(st.sampled_from(["", "symbol", "venue", "symbol, side"])), where=where)


@pytest.mark.parametrize(
    "asked", ["max(price)", "min(price)", "sum(size)", "count(*)", "avg(price)", "max(odd)", "min(odd)"]
)
def test_one_aggregate_alone(market: Market, asked: str) -> None:
    """What statistics of blocks may answer without reading them, over ranges that cut blocks."""
    times = market.times or [START]
    third, last = len(times) // 3, len(times) - 1
    for first, end in ((0, last), (0, third), (third, last), (third, third), (third, 2 * third)):
        tick, peer = between(times[first], times[end] + 1)
        for rest in ("", f" AND symbol = '{BUSY}'"):
            market.asking.check(
                f"SELECT {asked} FROM ticks WHERE {tick}{rest}",
                duckdb=f"SELECT {asked} FROM ticks WHERE {peer}{rest}",
                exact=True,
            )
    market.asking.check(f"SELECT {asked} FROM ticks", duckdb=f"SELECT {asked} FROM ticks", exact=True)


def test_an_empty_selection_is_one_row_without_a_key(market: Market) -> None:
    """Said as a result, beside the comparisons: one row of NULLs whose counts are 0; with a key no row."""
    asked = "count(*), count(price), sum(price), avg(price), min(price), max(price), first(price), vwap(price, size)"
    for condition in ("nothing", "no such symbol", "no such price"):
        where = CONDITIONS[condition][0]
        nothing: list[tuple[Any, ...]] = [(0, 0, *[None] * 6)]
        market.asking.check(f"SELECT {asked} FROM ticks WHERE {where}", expect=nothing)
        market.asking.check(f"SELECT symbol, {asked} FROM ticks WHERE {where} GROUP BY symbol", expect=[])
        market.asking.check(f"SELECT ts, {asked} FROM ticks WHERE {where} SAMPLE BY 1h", expect=[])


def test_having_and_aggregates_of_groups(market: Market) -> None:
    market.asking.check(
        "SELECT symbol, sum(size) FROM ticks GROUP BY symbol HAVING count(*) >= 20",
        duckdb="SELECT symbol, sum(size) FROM ticks GROUP BY symbol HAVING count(*) >= 20",
    )
    market.asking.check(
        """SELECT max(n), sum(total), count(*) FROM (
             SELECT ts, symbol, count(*) AS n, sum(price) AS total FROM ticks SAMPLE BY 1h)""",
        duckdb=f"""SELECT max(n), sum(total), count(*) FROM (
                     SELECT symbol, count(*) AS n, sum(price) AS total
                     FROM ticks GROUP BY {bucket(60 * MINUTE)}, symbol)""",
        exact=True,
    )
    market.asking.check(
        "SELECT count(DISTINCT symbol), count(DISTINCT side), count(DISTINCT price) FROM ticks",
        duckdb="SELECT count(DISTINCT symbol), count(DISTINCT side), count(DISTINCT price) FROM ticks",
    )


# LATEST ON.


@pytest.mark.parametrize("condition", CONDITIONS)
def test_latest_on(market: Market, condition: str) -> None:
    """Of equal times in one series the one that arrived last: the greatest `id`."""
    keys = ["symbol", "symbol, venue"] + (["side"] if market.ordered_across else [])
    tick, peer = (f"WHERE {each}" if each else "" for each in CONDITIONS[condition])
    for key in keys:
        market.asking.check(
            f"SELECT * FROM ticks {tick} LATEST ON ts PARTITION BY {key}",
            duckdb=f"""SELECT * FROM ticks {peer}
                       QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY ts DESC, id DESC) = 1""",
        )


def test_latest_on_and_what_is_asked_of_it(market: Market) -> None:
    market.asking.check(
        "SELECT symbol, price, odd, id FROM ticks LATEST ON ts PARTITION BY symbol",
        duckdb="""SELECT symbol, arg_max_null(price, id), arg_max_null(odd, id), max(id) FROM ticks GROUP BY symbol""",
        exact=True,
    )
    market.asking.check(
        "SELECT * FROM ticks LATEST ON ts PARTITION BY symbol",
        polars=lambda ticks: ticks.group_by("symbol").agg(pl.all().last()).select(ticks.columns),
    )
    market.asking.check(
        """SELECT count(*), sum(id), sum(price) FROM (SELECT * FROM ticks LATEST ON ts PARTITION BY symbol)
           WHERE size > 50""",
        duckdb="""SELECT count(*), sum(id), sum(price) FROM (
                    SELECT * FROM ticks QUALIFY row_number() OVER (PARTITION BY symbol ORDER BY id DESC) = 1)
                  WHERE size > 50""",
        exact=True,
    )
    market.asking.check(
        "SELECT symbol, id FROM ticks LATEST ON ts PARTITION BY symbol ORDER BY symbol NULLS LAST LIMIT 5 OFFSET 2",
        duckdb="SELECT symbol, max(id) FROM ticks GROUP BY symbol ORDER BY symbol NULLS LAST LIMIT 5 OFFSET 2",
        ordered=True,
    )


@given(st.data())
@settings(max_examples=10)
def test_latest_on_before_a_time(large: Market, data: st.DataObject) -> None:
    """As of a moment: at a row, and beside it by a nanosecond."""
    end = drawn_range(data, large.times)[1]
    market_open = f"make_timestamp_ns({end})"
    large.asking.check(
        f"SELECT id FROM ticks WHERE ts < {literal(end)} LATEST ON ts PARTITION BY symbol",
        duckdb=f"SELECT max(id) FROM ticks WHERE ts < {market_open} GROUP BY symbol",
    )


# Orders.


# Here -0.0 stands before 0.0, in DuckDB they are equal: adding 0.0 makes one of them.
ORDERS = [
    "ts, id",
    "ts DESC, id DESC",
    "symbol NULLS LAST, ts, id",
    "symbol DESC NULLS FIRST, ts DESC, id",
    "price DESC NULLS LAST, id",
    "odd + 0.0 NULLS FIRST, id",
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("limit", ["", "LIMIT 10", "LIMIT 1025 OFFSET 1000"])
def test_order_by(market: Market, order: str, limit: str) -> None:
    market.asking.check(
        f"SELECT id, symbol, price FROM ticks ORDER BY {order} {limit}",
        duckdb=f"SELECT id, symbol, price FROM ticks ORDER BY {order} {limit}",
        ordered=True,
    )


@pytest.mark.parametrize("limit", ["", "LIMIT 7 OFFSET 3", "LIMIT 2000"])
@pytest.mark.parametrize("order", ["ts", "ts DESC", "symbol NULLS LAST, ts", "symbol NULLS FIRST, ts DESC"])
def test_order_by_time_alone(market: Market, order: str, limit: str) -> None:
    """Rows that `order` does not tell apart may stand in any order, so only what it names is asked for."""
    for condition in ("everything", "one symbol", "all at once"):
        tick, peer = (f"WHERE {each}" if each else "" for each in CONDITIONS[condition])
        columns = "ts, symbol" if "symbol" in order else "ts"
        market.asking.check(
            f"SELECT {columns} FROM ticks {tick} ORDER BY {order} {limit}",
            duckdb=f"SELECT {columns} FROM ticks {peer} ORDER BY {order} {limit}",
            ordered=True,
        )


@pytest.mark.parametrize("condition", ["price > 0", "symbol <> 'B'"])
def test_equal_times_of_a_series_stay_as_they_came(condition: str) -> None:
    """docs/sql/insert.md: rows of one series with equal times stay in the order they came."""
    once = {"ts": pa.array(range(17), pa.timestamp("ns")), "symbol": ["A"] * 17, "price": [1.0] * 17}
    twice = pa.concat_tables([pa.table({**once, "id": range(first, first + 17)}) for first in (0, 17)])
    asked = "SELECT id FROM ticks {} ORDER BY ts"
    right = [(at + later,) for at in range(17) for later in (0, 17)]
    check(asked.format(""), expect=right, ordered=True, states=["half"], ticks=twice)
    check(asked.format(f"WHERE {condition}"), expect=right, ordered=True, states=["half"], ticks=twice)


def test_limits_at_the_ends(market: Market) -> None:
    count = market.asking.rows["ticks"].num_rows
    for limit in ("LIMIT 0", "LIMIT 1", f"LIMIT {count + 5}", f"LIMIT 3 OFFSET {max(count - 1, 0)}", f"OFFSET {count}"):
        for order in ("ts, id", "ts DESC, id DESC"):
            market.asking.check(
                f"SELECT id FROM ticks ORDER BY {order} {limit}",
                duckdb=f"SELECT id FROM ticks ORDER BY {order} {limit}",
                ordered=True,
            )


def test_whole_rows_in_order_of_time(untied: Market) -> None:
    """With times that are all different each row has its place."""
    for order, limit in (("ts", ""), ("ts DESC", ""), ("ts DESC", "LIMIT 100"), ("ts", "LIMIT 100 OFFSET 2000")):
        for condition in ("everything", "one symbol", "a middle", "all at once"):
            tick, peer = (f"WHERE {each}" if each else "" for each in CONDITIONS[condition])
            untied.asking.check(
                f"SELECT * FROM ticks {tick} ORDER BY {order} {limit}",
                duckdb=f"SELECT * FROM ticks {peer} ORDER BY {order} {limit}",
                ordered=True,
            )


# ASOF JOIN.


def pair(name: str) -> tuple[pa.Table, pa.Table, str | list[str]]:
    """Trades, quotes and their series key. Each side has symbols that the other lacks, and they appear in another
    order first, so that the ids differ. Trades are at the times of quotes and a nanosecond beside them; the quotes'
    equal times are within one series."""
    if name == "empty quotes":
        return market_of(11, 300, 5, null_symbols=False), market_of(12, 0, 5), "symbol"
    if name == "empty trades":
        return market_of(11, 0, 5), market_of(12, 300, 5, null_symbols=False), "symbol"
    if name == "one symbol":
        quotes = market_of(14, 3_000, 1, ties="series")
        return at_times_of(quotes, market_of(13, 500, 1)), quotes, "symbol"
    rows, symbols = (2_500, 250) if name == "crowd" else (1_500, 12)
    quotes = market_of(16, 3 * rows, symbols, ties="series", null_symbols=False)
    trades = at_times_of(quotes, market_of(15, rows, symbols, null_symbols=False))
    kept = [int(symbol[1:]) % 5 != 1 for symbol in trades.column("symbol").to_pylist()]
    lacking = [int(symbol[1:]) % 7 != 3 for symbol in quotes.column("symbol").to_pylist()]
    return trades.filter(pa.array(kept)), quotes.filter(pa.array(lacking)), "symbol" if name == "crowd" else VENUES


def at_times_of(quotes: pa.Table, trades: pa.Table) -> pa.Table:
    """The trades at times of quotes, and a nanosecond before and after."""
    rng = random.Random(17)
    times = rng.choices(quotes.column("ts").cast(pa.int64()).to_pylist(), k=trades.num_rows)
    ts = sorted(time + rng.choice([-1, 0, 0, 1]) for time in times)
    return trades.set_column(0, "ts", pa.array(ts, pa.timestamp("ns")))


VENUES = ["symbol", "venue"]


@dataclass(frozen=True)
class Pair:
    """Tables `trades` and `quotes` in every state and in DuckDB."""

    name: str
    asking: Asking


@pytest.fixture(scope="module", params=["crowd", "venues", "one symbol", "empty quotes", "empty trades"])
def asof(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Each of the pairs."""
    trades, quotes, series = pair(request.param)
    states = MIXES if trades.num_rows and quotes.num_rows else FEW
    with asking(states=states, series=series, timestamp="ts", trades=trades, quotes=quotes) as ask:
        yield Pair(request.param, ask)


def test_the_ids_of_a_pair_differ() -> None:
    trades, quotes, _ = pair("crowd")
    firsts = [side.column("symbol").unique().to_pylist() for side in (trades, quotes)]
    shared = [[symbol for symbol in side if symbol in firsts[0] and symbol in firsts[1]] for side in firsts]
    assert shared[0] != shared[1] and len(shared[0]) > 100
    assert set(firsts[0]) - set(firsts[1]) and set(firsts[1]) - set(firsts[0])


def newest(keys: str, left: str = "trades", *, kind: str = "LEFT", strictly: bool = False, within_ns: int = 0) -> str:
    """The join in DuckDB's SQL: of the quotes with equal keys and times only the one that arrived last is left, as
    DuckDB may take any of them. A match that is too old is none."""
    columns = keys.split(", ")
    on = " AND ".join([f"t.{column} = q.{column}" for column in columns if column])
    comparison = ">" if strictly else ">="
    near = f"CASE WHEN epoch_ns(t.ts) - epoch_ns(q.ts) <= {within_ns} THEN q.{{0}} END" if within_ns else "q.{0}"
    matched = ", ".join(f"{near.format(column)} AS q_{column}" for column in ("id", "ts", "price", "odd", "side"))
    equal = ", ".join([*filter(None, columns), "ts"])
    return f"""(SELECT t.*, {matched} FROM {left} t ASOF {kind} JOIN (
                  SELECT * FROM quotes QUALIFY row_number() OVER (PARTITION BY {equal} ORDER BY id DESC) = 1
                ) q ON {on}{" AND " if on else ""}t.ts {comparison} q.ts)"""


JOINED = "t.id, t.symbol, q.id, q.ts, q.price, q.odd, q.side"
PEER_JOINED = "id, symbol, q_id, q_ts, q_price, q_odd, q_side"


@pytest.mark.parametrize("keys", ["symbol", "symbol, venue"])
@pytest.mark.parametrize("order", ["", "t.ts, t.id", "t.symbol, t.ts DESC, t.id LIMIT 20 OFFSET 5"])
def test_asof_join_rows(asof: Pair, keys: str, order: str) -> None:
    ours, theirs = (f"ORDER BY {each}" if order else "" for each in (order, order.replace("t.", "")))
    asof.asking.check(
        f"SELECT {JOINED} FROM trades t ASOF JOIN quotes q ON ({keys}) {ours}",
        duckdb=f"SELECT {PEER_JOINED} FROM {newest(keys)} {theirs}",
        ordered=bool(order),
        exact=True,
    )


@pytest.mark.parametrize("keys", ["symbol", "symbol, side"])
@pytest.mark.parametrize(("within", "within_ns"), [("", 0), ("1n", 1), ("5s", 5 * SECOND), ("10m", 10 * MINUTE)])
def test_asof_join_aggregated(asof: Pair, keys: str, within: str, within_ns: int) -> None:
    """TOLERANCE is inclusive."""
    asked = "count(*), count({0}), sum({0}), sum({1}), max({1}), sum(price - {1}), avg(size * {1}), count({2})"
    ours, theirs = asked.format("qid", "qprice", "qodd"), asked.format("q_id", "q_price", "q_odd")
    for by in ("", "symbol"):
        group, key = (f"GROUP BY {by}", f"{by},") if by else ("", "")
        asof.asking.check(
            f"""SELECT {key} {ours} FROM (
                  SELECT t.symbol, t.side, t.price, t.size, q.id AS qid, q.price AS qprice, q.odd AS qodd
                  FROM trades t ASOF JOIN quotes q ON ({keys}) {f"TOLERANCE {within}" if within else ""}) {group}""",
            duckdb=f"SELECT {key} {theirs} FROM {newest(keys, within_ns=within_ns)} {group}",
            exact=True,
        )


def test_asof_join_inner_and_strictly_earlier(asof: Pair) -> None:
    asof.asking.check(
        f"SELECT {JOINED} FROM trades t ASOF INNER JOIN quotes q ON (symbol)",
        duckdb=f"SELECT {PEER_JOINED} FROM {newest('symbol', kind='')}",
    )
    asof.asking.check(
        f"SELECT {JOINED} FROM trades t ASOF JOIN quotes q MATCH_CONDITION (t.ts > q.ts) ON t.symbol = q.symbol",
        duckdb=f"SELECT {PEER_JOINED} FROM {newest('symbol', strictly=True)}",
    )
    asof.asking.check(
        f"SELECT {JOINED} FROM trades t ASOF JOIN quotes q",
        duckdb=f"SELECT {PEER_JOINED} FROM {newest('')}",
    )


@pytest.mark.parametrize("condition", ["one symbol", "some symbols", "a middle", "a price", "nothing", "all at once"])
def test_asof_join_of_some_rows(asof: Pair, condition: str) -> None:
    """A condition of the left side chooses rows; what they meet on the right stays the same."""
    tick, peer = CONDITIONS[condition]
    asof.asking.check(
        f"SELECT {JOINED} FROM (SELECT * FROM trades WHERE {tick}) t ASOF JOIN quotes q ON (symbol)",
        duckdb=f"SELECT {PEER_JOINED} FROM {newest('symbol', f'(SELECT * FROM trades WHERE {peer})')}",
    )
    if "<>" not in tick:
        ask_joined_where(asof.asking, tick, peer)


def ask_joined_where(ask: Asking, tick: str, peer: str) -> None:
    """A condition of the left side that stands behind the join."""
    for column in ("ts", "symbol", "price"):
        tick = tick.replace(f"{column} ", f"t.{column} ")
    ask.check(
        f"SELECT count(*), sum(q.id) FROM trades t ASOF JOIN quotes q ON (symbol) WHERE {tick}",
        duckdb=f"SELECT count(*), sum(q_id) FROM {newest('symbol')} WHERE {peer}",
    )


@pytest.mark.parametrize("name", ["twice", "crowd", "venues"])
def test_asof_join_behind_other_conditions(name: str) -> None:
    """Conditions that the scan of a side does not answer alone: on a symbol without being a list of symbols (they are
    asked of both sides), on other columns of the right side. Of quotes with equal times the one that arrived last is
    still the match."""
    if name == "twice":
        once = {"ts": pa.array(range(17), pa.timestamp("ns")), "symbol": ["A"] * 17}
        trades = pa.table({**once, "id": range(17)})
        quotes = pa.concat_tables([pa.table({**once, "id": range(first, first + 17)}) for first in (0, 17)])
        check(
            "SELECT t.id, q.id FROM trades t ASOF JOIN quotes q ON (symbol) WHERE t.symbol <> 'B'",
            expect=[(at, at + 17) for at in range(17)],
            states=["half"],
            trades=trades,
            quotes=quotes,
        )
        return
    trades, quotes, series = pair(name)
    with asking(states=MIXES, series=series, timestamp="ts", trades=trades, quotes=quotes) as ask:
        for condition in ("all but one symbol", "all at once"):
            ask_joined_where(ask, *CONDITIONS[condition])
        newest_dear = "QUALIFY row_number() OVER (PARTITION BY symbol, ts ORDER BY id DESC) = 1"
        ask.check(
            "SELECT t.id, q.id FROM trades t ASOF JOIN (SELECT * FROM quotes WHERE price > 100) q ON (symbol)",
            duckdb=f"""SELECT t.id, q.id FROM trades t ASOF LEFT JOIN (
                         SELECT * FROM quotes WHERE price > 100 {newest_dear}
                       ) q ON t.symbol = q.symbol AND t.ts >= q.ts""",
        )


@pytest.mark.parametrize("keys", ["symbol", "symbol, venue"])
def test_asof_join_against_polars(asof: Pair, keys: str) -> None:
    """Polars has NULL equal NULL; of the quotes those with a NULL key are left out."""

    def joined(trades: pl.DataFrame, quotes: pl.DataFrame) -> pl.DataFrame:
        by = keys.split(", ")
        return trades.join_asof(quotes.drop_nulls(by), on="ts", by=by).select("id", "id_right", "price_right")

    asof.asking.check(f"SELECT t.id, q.id, q.price FROM trades t ASOF JOIN quotes q ON ({keys})", polars=joined)


def close_together(rng: random.Random) -> pa.Table:
    """Rows of few keys at few times some of which are exactly a minute apart, NULLs among the keys."""
    ts = sorted(rng.choice([0, 1, 2, 60, 61, 62, 120, 121]) * SECOND + START for _ in range(40))
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("ns")),
            "symbol": pa.array(rng.choices(["A", "B", None], k=40), pa.string()),
            "side": pa.array(rng.choices(["buy", "sell", None], k=40), pa.string()),
            "price": [rng.randrange(64) / 64 for _ in range(40)],
            "id": range(40),
        }
    )


@given(st.randoms(use_true_random=False))
@settings(max_examples=5)
def test_asof_join_on_symbol_and_side(rng: random.Random) -> None:
    """A key beside the series key, NULL symbols on both sides, which match nothing; the oldest match that TOLERANCE
    allows."""
    check(
        "SELECT t.id, q.id, q.price FROM trades t ASOF JOIN quotes q ON (symbol, side) TOLERANCE 1m",
        duckdb=f"""SELECT t.id, q.id, q.price FROM trades t LEFT JOIN LATERAL (
                     SELECT * FROM quotes q WHERE q.symbol = t.symbol AND q.side = t.side AND q.ts <= t.ts
                     AND epoch_ns(t.ts) - epoch_ns(q.ts) <= {MINUTE} ORDER BY ts DESC, id DESC LIMIT 1) q ON true""",
        trades=close_together(rng),
        quotes=close_together(rng),
    )


# Windows.


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



# Many rows.


def test_rows_enough_for_several_threads() -> None:
    """From 262,144 rows on a query is planned for several threads, and one append of so many is written to parts at
    once; runs of so many come from two appends."""
    rng = np.random.default_rng(21)
    count, symbols = 270_000, 200
    ts = np.sort(rng.choice(2 * 10**14, count, replace=False)) + START
    symbol = (symbols * rng.random(count) ** 3).astype(np.int64)
    size = rng.integers(1, 100, count)
    ticks = pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("ns")),
            "symbol": pa.DictionaryArray.from_arrays(symbol, [f"S{at:03}" for at in range(symbols)]),
            "side": pa.DictionaryArray.from_arrays(size % 2, ["buy", "sell"]),
            "price": pa.array(rng.integers(90 * 64, 110 * 64, count) / 64, mask=rng.random(count) < 0.05),
            "size": size,
            "id": np.arange(count),
        }
    )
    few = ticks.take(rng.choice(count, 5_000, replace=False)).sort_by("ts")
    asked = "count(*), sum(price), avg(price), min(price), max(price), sum(price * size)"
    window = "PARTITION BY symbol ORDER BY ts ROWS BETWEEN 5 PRECEDING AND CURRENT ROW"
    windows = f"sum(price) OVER ({window}) AS x, lag(id) OVER (PARTITION BY symbol ORDER BY ts) AS y"
    ends = "first(price), last(price), vwap(price, size)"
    peer_ends = f"arg_min_null(price, id), arg_max_null(price, id), {WEIGHTED[1]}"
    cut = between(int(ts[1_000]), int(ts[-1_000]) + 1)
    states: list[str | State] = ["parts", "half", LATE_REOPENED]
    with asking(states=states, series="symbol", timestamp="ts", ticks=ticks, few=few) as ask:
        for tick, peer in [
            (f"{asked}, {ends} FROM ticks", f"{asked}, {peer_ends} FROM ticks"),
            (f"{asked} FROM ticks WHERE {cut[0]}", f"{asked} FROM ticks WHERE {cut[1]}"),
            *(
                (f"{key}, {asked}, {each} FROM ticks GROUP BY {key}" for each in (ends, peer_ends))
                for key in ("symbol", "side", "symbol, side")
            ),
            *(
                (
                    f"ts, {key} {asked}, {ends} FROM ticks SAMPLE BY 1h",
                    f"{bucket(60 * MINUTE)} AS bucket, {key} {asked}, {peer_ends} FROM ticks GROUP BY {key} bucket",
                )
                for key in ("symbol,", "side,", "")
            ),
            ("symbol, id FROM ticks LATEST ON ts PARTITION BY symbol", "symbol, max(id) FROM ticks GROUP BY symbol"),
            (
                "count(q.id), sum(q.id), sum(l.price - q.price) FROM few l ASOF JOIN ticks q ON (symbol)",
                """count(q.id), sum(q.id), sum(l.price - q.price) FROM few l
                   ASOF JOIN ticks q ON l.symbol = q.symbol AND l.ts >= q.ts""",
            ),
            (
                "count(q.id), sum(q.id), sum(l.price - q.price) FROM ticks l ASOF JOIN few q ON (symbol) TOLERANCE 10m",
                f"""count(q.id), sum(q.id), sum(l.price - q.price) FROM ticks l
                   ASOF JOIN few q ON l.symbol = q.symbol AND l.ts >= q.ts
                   WHERE epoch_ns(l.ts) - epoch_ns(q.ts) <= {10 * MINUTE}""",
            ),
            *(
                (f"{each} FROM (SELECT symbol, {windows} FROM ticks) {by}",) * 2
                for each, by in (("count(x), sum(x), sum(y)", ""), ("symbol, sum(x), max(y)", "GROUP BY symbol"))
            ),
        ]:
            ask.check(f"SELECT {tick}", duckdb=f"SELECT {peer}", exact=True)
        for order in ("ts", "ts DESC", "symbol, ts", "price DESC NULLS LAST, id"):
            limited = f"SELECT id, price FROM ticks ORDER BY {order} LIMIT 50 OFFSET 1000"
            ask.check(limited, duckdb=limited, ordered=True)
