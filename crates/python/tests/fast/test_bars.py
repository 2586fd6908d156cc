"""Volume, value and tick bars, buckets from the first row, fills and days of zones, against plain Python and pandas."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from fast.markets import BUSY, Market, opened
from tickstone.testing import asking

Row = dict[str, Any]


@pytest.fixture(scope="module", params=["crowd", "strict", "venues", "one symbol", "one row", "empty"])
def market(request: pytest.FixtureRequest) -> Iterator[Market]:
    """Markets in which what comes first among equal times is known within a series."""
    with opened(request.param) as found:
        yield found


def present(values: list[Any]) -> list[float]:
    return [value for value in values if value is not None]


def bars(rows: list[Row], keys: list[str], size: Callable[[Row], float | None], limit: float) -> list[tuple[Any, ...]]:
    """Bars by adding up each key's rows one after the other. NULL and NaN add nothing."""
    done: list[list[Row]] = []
    open_bars: dict[tuple[Any, ...], tuple[list[Row], float]] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        bar, filled = open_bars.pop(key, ([], 0.0))
        if not bar:
            done.append(bar)
        bar.append(row)
        added = size(row)
        filled += 0.0 if added is None or math.isnan(added) else added
        if filled < limit:
            open_bars[key] = (bar, filled)
    return [summary(bar, keys) for bar in done]


ASKED = """count(*), first(id), last(id), first(price), last(odd), sum(price), max(size), min(price), sum(size),
  count(side), vwap(price, size)"""


def summary(bar: list[Row], keys: list[str]) -> tuple[Any, ...]:
    """What ASKED asks of a bar."""
    prices, sizes = present([row["price"] for row in bar]), present([row["size"] for row in bar])
    both = [(row["price"], row["size"]) for row in bar if row["price"] is not None and row["size"] is not None]
    weight = sum(size for _, size in both)
    return (
        bar[0]["ts"],
        *(bar[0][key] for key in keys),
        len(bar),
        bar[0]["id"],
        bar[-1]["id"],
        bar[0]["price"],
        bar[-1]["odd"],
        sum(prices) if prices else None,
        max(sizes, default=None),
        min(prices, default=None),
        sum(sizes) if sizes else None,
        len(present([row["side"] for row in bar])),
        sum(price * size for price, size in both) / weight if weight else None,
    )


def rows_of(market: Market) -> list[Row]:
    """The rows in order of time, ties as they arrived; times as ns."""
    table = market.asking.rows["ticks"]
    rows: list[Row] = table.set_column(0, "ts", table.column("ts").cast(pa.int64())).to_pylist()
    return rows


def check(
    market: Market, keys: list[str], of: str, size: Callable[[Row], float | None], limit: float, only: str = ""
) -> None:
    rows = [row for row in rows_of(market) if not only or row["symbol"] == only]
    expected = bars(rows, keys, size, limit)
    where = f"WHERE symbol = '{only}'" if only else ""
    columns = ", ".join(["ts::bigint", *keys])
    market.asking.check(f"SELECT {columns}, {ASKED} FROM ticks {where} SAMPLE BY {of}", expect=expected)


@pytest.mark.parametrize("limit", [1, 7, 250, 3_000.5])
@pytest.mark.parametrize("keys", [["symbol"], ["symbol", "side"], ["symbol", "venue"]])
def test_volume_bars(market: Market, keys: list[str], limit: float) -> None:
    check(market, keys, f"VOLUME(size) {limit}", lambda row: row["size"], limit)


@pytest.mark.parametrize("keys", [["symbol"], ["venue", "symbol"]])
def test_tick_bars(market: Market, keys: list[str]) -> None:
    for limit in (1, 2, 100):
        check(market, keys, f"TICKS {limit}", lambda _: 1, limit)


def test_value_bars(market: Market) -> None:
    def value(row: Row) -> float | None:
        return None if row["price"] is None or row["size"] is None else row["price"] * row["size"]

    check(market, ["symbol"], "VALUE(price * size) 1e4", value, 1e4)
    check(market, ["symbol"], "VALUE(abs(odd)) 25", lambda row: abs(row["odd"]) if row["odd"] is not None else None, 25)


def test_bars_of_one_symbol_and_of_all(market: Market) -> None:
    check(market, [], "VOLUME(size) 500", lambda row: row["size"], 500, only=BUSY)
    check(market, ["side"], "TICKS 3", lambda _: 1, 3, only=BUSY)
    if not market.ties:
        check(market, [], "VOLUME(size) 500", lambda row: row["size"], 500)
        check(market, ["side"], "TICKS 10", lambda _: 1, 10)


def test_all_rows_equal() -> None:
    """At one instant only the order of arrival says which row is in which bar."""
    rows = pa.table(
        {
            "ts": pa.array([1_000] * 3_000, pa.timestamp("ns")),
            "symbol": ["A"] * 3_000,
            "size": [1.0] * 3_000,
            "id": range(3_000),
        }
    )
    with asking(series="symbol", timestamp="ts", ticks=rows) as ask:
        ask.check(
            "SELECT ts::bigint, symbol, count(*), min(id), max(id) FROM ticks SAMPLE BY VOLUME(size) 7",
            expect=[(1_000, "A", min(7, 3_000 - at), at, min(at + 6, 2_999)) for at in range(0, 3_000, 7)],
        )


# Buckets from the first row.


@pytest.mark.parametrize(("stride", "ns"), [("61s", 61 * 10**9), ("7h", 7 * 3_600 * 10**9), ("1d", 86_400 * 10**9)])
@pytest.mark.parametrize("keys", ["", "symbol", "symbol, side", "side"])
def test_first_observation(market: Market, stride: str, ns: int, keys: str) -> None:
    """The first row of all that WHERE leaves says where the buckets of every key begin."""
    columns = "".join(f"{key}, " for key in keys.split(", ") if key)
    group = ", ".join(filter(None, ["bucket", keys]))
    for condition in ("", f"WHERE symbol <> '{BUSY}'", "WHERE price > 100 AND size < 60"):
        source = f"(SELECT *, min(ts) OVER () AS first FROM ticks {condition})"
        bucket = f"epoch_ns(first) + (epoch_ns(ts) - epoch_ns(first)) // {ns} * {ns} AS bucket"
        market.asking.check(
            f"SELECT ts::bigint, {columns} count(*), sum(price), max(id) FROM ticks {condition}"
            f" SAMPLE BY {stride} ALIGN TO FIRST OBSERVATION",
            duckdb=f"SELECT {bucket}, {columns} count(*), sum(price), max(id) FROM {source} GROUP BY {group}",
            exact=True,
        )


def test_first_observation_filled(market: Market) -> None:
    def filled(ticks: pd.DataFrame) -> pd.DataFrame:
        ticks = ticks[ticks["symbol"] == BUSY]
        if ticks.empty:
            return pd.DataFrame({"ts": [], "n": []})
        counts = ticks.resample("53min", on="ts", origin="start").size()
        return pd.DataFrame({"ts": counts.index.astype("int64"), "n": counts.to_numpy()})

    market.asking.check(
        f"SELECT ts::bigint, count(*) FROM ticks WHERE symbol = '{BUSY}'"
        " SAMPLE BY 53m FILL(0) ALIGN TO FIRST OBSERVATION",
        pandas=filled,
    )


# Days of 23 and 25 hours, and every fill.

ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu"]


def hours(zone: str) -> pa.Table:
    """A row an hour and a half around each change of a zone's clocks, with days left out."""
    times = pd.date_range("2018-01-01", "2018-12-31", freq="97min", tz="UTC")
    days = times.tz_convert(zone).day_of_year
    times = times[(days % 5 != 2) & (days % 7 != 3)]
    count = len(times)
    return pa.table(
        {
            "ts": pa.array(times.tz_localize(None).as_unit("ns").astype("int64"), pa.int64()).cast(pa.timestamp("ns")),
            "symbol": ["A" if at % 3 else "B" for at in range(count)],
            "price": [float(at % 640) / 64 if at % 11 != 7 else None for at in range(count)],
        }
    )


@pytest.fixture(scope="module", params=ZONES)
def zoned(request: pytest.FixtureRequest) -> Iterator[tuple[str, Any]]:
    with asking(states=("memory", "parts", "half"), series="symbol", timestamp="ts", t=hours(request.param)) as ask:
        yield request.param, ask


STRIDES = {"1d": "1D", "1M": "MS", "1w": "W-MON", "1y": "YS"}


def local_buckets(ticks: pd.DataFrame, zone: str, stride: str) -> pd.Series:
    """The start of each row's bucket: the local midnight at or before it, of the day, Monday, month or year. A
    midnight that a change of the clocks skips is the first instant after it."""
    days = ticks["ts"].dt.tz_localize("UTC").dt.tz_convert(zone).dt.tz_localize(None).dt.normalize()
    if stride == "1w":
        days = days - pd.to_timedelta(days.dt.day_of_week, unit="D")
    elif stride in ("1M", "1y"):
        days = days.dt.to_period(stride[1].replace("y", "Y")).dt.start_time
    return as_ns(days, zone)


def as_ns(days: pd.Series, zone: str) -> pd.Series:
    ambiguous = [True] * len(days)
    local = days.dt.tz_localize(zone, nonexistent="shift_forward", ambiguous=ambiguous)
    ns: pd.Series = local.dt.tz_convert("UTC").dt.tz_localize(None).astype("datetime64[ns]").astype("int64")
    return ns


@pytest.mark.parametrize("stride", STRIDES)
def test_zones(zoned: tuple[str, Any], stride: str) -> None:
    zone, ask = zoned

    def grouped(t: pd.DataFrame) -> pd.DataFrame:
        prices = t.assign(bucket=local_buckets(t, zone, stride)).groupby(["bucket", "symbol"])["price"]
        found = {
            "size": prices.size(), "sum": prices.sum(min_count=1), "min": prices.min(), "max": prices.max(),
        }  # fmt: skip
        return pd.DataFrame(found).reset_index()

    ask.check(
        f"SELECT ts::bigint, symbol, count(*), sum(price), min(price), max(price) FROM t"
        f" SAMPLE BY {stride} ALIGN TO CALENDAR TIME ZONE '{zone}'",
        pandas=grouped,
    )


@pytest.mark.parametrize("stride", ["1d", "1w", "1M"])
@pytest.mark.parametrize("fill", ["NULL", "PREV", "LINEAR", "7.5", "PREV(low)"])
def test_fills_in_zones(zoned: tuple[str, Any], stride: str, fill: str) -> None:
    """Every bucket between the first and the last, as many hours as each has."""
    zone, ask = zoned

    def filled(t: pd.DataFrame) -> pd.DataFrame:
        t = t.assign(bucket=local_buckets(t, zone, stride))
        first, last = (
            pd.Timestamp(t["bucket"].agg(edge), tz="UTC").tz_convert(zone).tz_localize(None).normalize()
            for edge in ("min", "max")
        )
        grid = as_ns(pd.Series(pd.date_range(first, last, freq=STRIDES[stride])), zone).to_numpy()
        frames = []
        for symbol, rows in t.groupby("symbol"):
            by = rows.groupby("bucket")["price"]
            bars = pd.DataFrame({"here": by.size() > 0, "high": by.max(), "low": by.min()}).reindex(grid)
            # A bucket that is there keeps what it has, NULL too: no bucket here has no price at all.
            assert bars.loc[bars["here"].notna(), "high"].notna().all()
            high, low = bars["high"], bars["low"]
            if fill == "PREV":
                high, low = high.ffill(), low.ffill()
            elif fill == "PREV(low)":
                high, low = high.fillna(low.ffill()), low.ffill()
            elif fill == "LINEAR":
                high, low = (of.interpolate(method="index", limit_area="inside") for of in (high, low))
            elif fill != "NULL":
                high, low = high.fillna(float(fill)), low.fillna(float(fill))
            frames.append(pd.DataFrame({"ts": grid, "symbol": symbol, "high": high.array, "low": low.array}))
        return pd.concat(frames)

    ask.check(
        f"SELECT ts::bigint, symbol, max(price) AS high, min(price) AS low FROM t"
        f" SAMPLE BY {stride} FILL({fill}) ALIGN TO CALENDAR TIME ZONE '{zone}'",
        pandas=filled,
    )


def test_prev_of_another(market: Market) -> None:
    """An empty bucket opens, and is high and low, where the one before it closed."""

    def filled(ticks: pd.DataFrame) -> pd.DataFrame:
        ticks = ticks[(ticks["symbol"] == BUSY) & ticks["price"].notna()]
        if ticks.empty:
            return pd.DataFrame({"ts": [], "open": [], "high": [], "close": [], "n": []})
        prices = ticks.set_index("ts").resample("20min")["price"]
        bars = pd.DataFrame({"open": prices.first(), "high": prices.max(), "close": prices.last(), "n": prices.size()})
        close = bars["close"].ffill()
        bars = bars.assign(open=bars["open"].fillna(close), high=bars["high"].fillna(close), close=close)
        return bars.assign(ts=bars.index.astype("int64"))[["ts", "open", "high", "close", "n"]]

    market.asking.check(
        f"""SELECT ts::bigint, first(price) AS open, max(price) AS high, last(price) AS close, count(*) AS n
            FROM ticks WHERE symbol = '{BUSY}' AND price IS NOT NULL
            SAMPLE BY 20m FILL(PREV(close), PREV(Close), PREV, 0)""",
        pandas=filled,
    )
