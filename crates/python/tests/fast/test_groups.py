"""SAMPLE BY and GROUP BY against DuckDB, Polars and pandas."""

from typing import Any

import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast.markets import BUSY, CONDITIONS, DAY, MINUTE, SECOND, START, WEIGHTED, Market, between, bucket, drawn_range

# Aggregates: what Tickstone is asked and what DuckDB is asked for the same.

SAME = [
    "count(*)", "count(price)", "sum(price)", "avg(price)", "min(price)", "max(price)",
    "sum(size)", "min(size)", "max(size)", "sum(price * size)", "sum(price * price)",
    "count(odd)", "sum(odd)", "avg(odd)", "min(odd)", "max(odd)", "min(ts)", "max(ts)", "min(side)", "max(venue)",
]  # fmt: skip
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
    "asked",
    [
        "max(price)", "min(price)", "sum(size)", "count(*)", "avg(price)", "max(odd)", "min(odd)",
        "avg(price - size)", "sum(price + size)", "avg(size - price), sum(price), count(odd)", "sum(price * size)",
        "sum(price - price)",
    ],  # fmt: skip
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
