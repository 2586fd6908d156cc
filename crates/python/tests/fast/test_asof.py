"""ASOF JOIN against DuckDB, Polars and pandas."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fast.markets import (
    CONDITIONS,
    FEW,
    MINUTE,
    MIXES,
    SECOND,
    START,
)
from tickstone.testing import Asking, asking, check
from tickstone.testing.markets import market as market_of


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


@pytest.mark.parametrize(
    ("spelling", "direction", "exact"),
    [
        ("ASOF JOIN quotes q ON (symbol) DIRECTION FORWARD", "forward", True),
        ("ASOF JOIN quotes q MATCH_CONDITION (t.ts < q.ts) ON (symbol)", "forward", False),
        ("ASOF JOIN quotes q ON (symbol) DIRECTION NEAREST", "nearest", True),
        ("LT JOIN quotes q ON (symbol)", "backward", False),
    ],
)
@pytest.mark.parametrize(("within", "within_ns"), [("", None), ("1n", 1), ("5s", 5 * SECOND)])
def test_asof_join_directions_against_pandas(
    asof: Pair,
    spelling: str,
    direction: Literal["forward", "nearest", "backward"],
    exact: bool,
    within: str,
    within_ns: int | None,
) -> None:
    """Rows with a NULL key are left out of the quotes, as pandas has NULL equal NULL."""

    def joined(trades: pd.DataFrame, quotes: pd.DataFrame) -> pd.DataFrame:
        quotes = quotes.dropna(subset=["symbol"])[["ts", "symbol", "id", "price"]]
        found = pd.merge_asof(
            trades[["ts", "symbol", "id"]].sort_values("ts", kind="stable"),
            quotes.sort_values("ts", kind="stable"),
            on="ts",
            by="symbol",
            direction=direction,
            allow_exact_matches=exact,
            tolerance=None if within_ns is None else pd.Timedelta(within_ns, "ns"),
        )
        return found[["id_x", "id_y", "price"]]

    tolerance = f"TOLERANCE {within}" if within else ""
    asof.asking.check(f"SELECT t.id, q.id, q.price FROM trades t {spelling} {tolerance}", pandas=joined)
    asof.asking.check(
        f"SELECT t.id, q.id, q.price FROM trades t {spelling} {tolerance} LIMIT 1000000", pandas=joined
    )


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
