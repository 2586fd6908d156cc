"""WINDOW, HORIZON and SPLICE JOIN against naive versions, DuckDB and pandas."""

import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from fast.markets import FEW, MIXES, SECOND
from fast.test_asof import VENUES, pair
from tickstone.testing import Asking, asking

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Pair:
    """Tables `trades` and `quotes` in every state, and the rows of each as Python values."""

    name: str
    asking: Asking
    trades: list[dict[str, Any]]
    quotes: list[dict[str, Any]]


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """In order of time, equal times as they arrived; `ts` in ns since the epoch."""
    whole = table.set_column(table.column_names.index("ts"), "ts", table.column("ts").cast(pa.int64()))
    return sorted(whole.to_pylist(), key=lambda row: row["ts"])


def equal() -> tuple[pa.Table, pa.Table, str]:
    """All rows equal but for their numbers."""

    def side(count: int) -> pa.Table:
        return pa.table(
            {
                "ts": pa.array([1_700_000_000 * SECOND] * count, pa.timestamp("ns")),
                "id": range(count),
                "symbol": ["S"] * count,
                "venue": ["V"] * count,
                "price": [1.5] * count,
                "size": [2.0] * count,
            }
        )

    return side(11), side(13), "symbol"


@pytest.fixture(
    scope="module", params=["venues", "one symbol", "one row", "equal", "empty quotes", "empty trades"]
)
def joined(request: pytest.FixtureRequest) -> Iterator[Pair]:
    """Each of the pairs, with NULL keys and values, and equal times."""
    name = request.param
    if name == "equal":
        trades, quotes, series = equal()
    elif name == "one row":
        trades, quotes, _ = pair("one symbol")
        at = trades.num_rows // 2
        trades, series = trades.slice(at, 1), "symbol"
    else:
        trades, quotes, series = pair(name)
    if trades.num_rows > 400:
        kept = sorted(random.Random(3).sample(range(trades.num_rows), 400))
        trades = trades.take(pa.array(kept))
    states = MIXES if name in ("venues", "equal") else FEW
    with asking(states=states, series=series, timestamp="ts", trades=trades, quotes=quotes) as ask:
        yield Pair(name, ask, rows_of(trades), rows_of(quotes))


class ByKey:
    """The rows of one side, by key."""

    def __init__(self, rows: list[dict[str, Any]], keys: list[str]) -> None:
        self.keys = keys
        self.rows: dict[Row, list[dict[str, Any]]] = {}
        for row in rows:
            self.rows.setdefault(self.key(row), []).append(row)
        self.times = {key: [row["ts"] for row in held] for key, held in self.rows.items()}

    def key(self, row: dict[str, Any]) -> Row:
        return tuple(row[key] for key in self.keys)

    def of(self, row: dict[str, Any]) -> tuple[list[dict[str, Any]], list[int]]:
        """The rows that match one of the other side, and their times."""
        key = self.key(row)
        if None in key:
            return [], []
        return self.rows.get(key, []), self.times.get(key, [])


def windows(pair: Pair, keys: list[str], low: int, high: int, *, prevailing: bool) -> Iterator[tuple[dict[str, Any], list[dict[str, Any]]]]:
    quotes = ByKey(pair.quotes, keys)
    for trade in pair.trades:
        rows, times = quotes.of(trade)
        start, end = bisect_left(times, trade["ts"] + low), bisect_right(times, trade["ts"] + high)
        # A row at the window's start is the last at or before it already.
        if prevailing and start > 0 and times[start : start + 1] != [trade["ts"] + low]:
            start -= 1
        yield trade, rows[start:end]


def aggregates(rows: list[dict[str, Any]]) -> Row:
    prices = [row["price"] for row in rows if row["price"] is not None and row["price"] == row["price"]]
    pairs = [(row["price"], row["size"]) for row in rows if row["price"] is not None and row["price"] == row["price"] and row["size"] is not None]
    weight = sum(size for _, size in pairs)
    return (
        len(rows),
        len(prices),
        sum(prices) if prices else None,
        sum(prices) / len(prices) if prices else None,
        min(prices, default=None),
        max(prices, default=None),
        sum(price * size for price, size in pairs) / weight if weight else None,
        rows[0]["id"] if rows else None,
        rows[-1]["id"] if rows else None,
        [row["id"] for row in rows] or None,
    )


ASKED = """count(*), count(q.price) FILTER (WHERE NOT isnan(q.price)), sum(q.price) FILTER (WHERE NOT isnan(q.price)),
  avg(q.price) FILTER (WHERE NOT isnan(q.price)), min(q.price) FILTER (WHERE NOT isnan(q.price)),
  max(q.price) FILTER (WHERE NOT isnan(q.price)), vwap(q.price, q.size) FILTER (WHERE NOT isnan(q.price)),
  first(q.id), last(q.id), array_agg(q.id)"""

BOUNDS = [
    ("1s PRECEDING AND 1s FOLLOWING", -SECOND, SECOND),
    ("10m PRECEDING AND CURRENT ROW", -600 * SECOND, 0),
    ("1n FOLLOWING AND 1h FOLLOWING", 1, 3_600 * SECOND),
    ("1h PRECEDING AND 1m PRECEDING", -3_600 * SECOND, -60 * SECOND),
    ("CURRENT ROW AND CURRENT ROW", 0, 0),
]

# Behind a condition that no scan answers alone the sides come in order of time.
SIDES = ["trades", "(SELECT * FROM trades WHERE id > -1)"]


def keyed(pair: Pair) -> list[list[str]]:
    return [["symbol"], VENUES] if pair.name == "venues" else [["symbol"]]


@pytest.mark.parametrize("left", SIDES)
@pytest.mark.parametrize("prevailing", [True, False])
@pytest.mark.parametrize(("bounds", "low", "high"), BOUNDS)
def test_window_join(joined: Pair, bounds: str, low: int, high: int, prevailing: bool, left: str) -> None:
    for keys in keyed(joined):
        # Of equal times of different series it is not said which comes first.
        listed = keys == VENUES or joined.name != "venues"
        asked = ASKED if listed else ASKED.rsplit("first", 1)[0].rstrip(", \n")
        expected = []
        for trade, rows in windows(joined, keys, low, high, prevailing=prevailing):
            values = aggregates(rows)
            expected.append((trade["id"], *(values if listed else values[:7])))
        joined.asking.check(
            f"""SELECT t.id, {asked} FROM {left} t WINDOW JOIN quotes q ON ({", ".join(keys)})
                RANGE BETWEEN {bounds} {"INCLUDE" if prevailing else "EXCLUDE"} PREVAILING""",
            expect=expected,
        )


@pytest.mark.parametrize("left", SIDES)
def test_window_join_over_all_rows_against_duckdb(joined: Pair, left: str) -> None:
    """Without a key, only what does not depend on the order of equal times."""
    joined.asking.check(
        f"""SELECT t.id, count(*), sum(q.id), count(DISTINCT q.symbol) FROM {left} t WINDOW JOIN quotes q
            RANGE BETWEEN 10s PRECEDING AND 5s FOLLOWING EXCLUDE PREVAILING""",
        duckdb="""SELECT t.id, count(q.id), sum(q.id)::BIGINT, count(DISTINCT q.symbol) FROM trades t
                  LEFT JOIN quotes q ON q.ts BETWEEN t.ts - INTERVAL 10 SECOND AND t.ts + INTERVAL 5 SECOND
                  GROUP BY t.id""",
    )


OFFSETS = [
    ("RANGE FROM -1s TO 1s STEP 500T", [at * SECOND // 2 for at in range(-2, 3)]),
    ("LIST (1h, 0, -1n, -10m)", [3_600 * SECOND, 0, -1, -600 * SECOND]),
]


@pytest.mark.parametrize("left", SIDES)
@pytest.mark.parametrize(("clause", "offsets"), OFFSETS)
def test_horizon_join(joined: Pair, clause: str, offsets: list[int], left: str) -> None:
    keys = keyed(joined)[-1]
    quotes = ByKey(joined.quotes, keys)
    expected: list[Row] = []
    for trade in joined.trades:
        rows, times = quotes.of(trade)
        for offset in offsets:
            at = bisect_right(times, trade["ts"] + offset)
            found = rows[at - 1] if at else {"id": None}
            expected.append((trade["id"], offset, found["id"]))
    joined.asking.check(
        f"SELECT t.id, h.offset, q.id FROM {left} t HORIZON JOIN quotes q ON ({', '.join(keys)}) {clause} AS h",
        expect=expected,
    )
    counted = [
        (offset, len(joined.trades), sum(row[1] == offset and row[2] is not None for row in expected))
        for offset in offsets
        if joined.trades
    ]
    joined.asking.check(
        f"""SELECT h.offset, count(*), count(q.id) FROM {left} t HORIZON JOIN quotes q
            ON ({", ".join(keys)}) {clause} AS h GROUP BY h.offset""",
        expect=counted,
    )


@pytest.mark.parametrize("left", SIDES)
@pytest.mark.parametrize("merged", [True, False])
def test_splice_join(joined: Pair, left: str, merged: bool) -> None:
    keys = keyed(joined)[-1]
    trades, quotes = ByKey(joined.trades, keys), ByKey(joined.quotes, keys)
    expected: list[Row] = []
    for key in {*trades.rows, *quotes.rows}:
        ours, theirs = trades.rows.get(key, []), quotes.rows.get(key, [])
        if None in key:
            expected += [(row["id"], None, row["symbol"]) for row in ours]
            expected += [(None, row["id"], row["symbol"]) for row in theirs]
            continue
        i = j = 0
        while i < len(ours) or j < len(theirs):
            leads = i < len(ours) and (j == len(theirs) or ours[i]["ts"] <= theirs[j]["ts"])
            follows = j < len(theirs) and (i == len(ours) or theirs[j]["ts"] <= ours[i]["ts"])
            i, j = i + leads, j + follows
            expected.append((ours[i - 1]["id"] if i else None, theirs[j - 1]["id"] if j else None, key[0]))
    on = f"({', '.join(keys)})" if merged else " AND ".join(f"t.{key} = q.{key}" for key in keys)
    symbol = "symbol" if merged else "coalesce(t.symbol, q.symbol)"
    joined.asking.check(f"SELECT t.id, q.id, {symbol} FROM {left} t SPLICE JOIN quotes q ON {on}", expect=expected)
    splice = f"SELECT greatest(t.ts, q.ts) AS at FROM {left} t SPLICE JOIN quotes q ON {on}"
    joined.asking.check(
        f"SELECT count(*) FROM (SELECT at, lag(at) OVER () AS before FROM ({splice})) WHERE before > at",
        expect=[(0,)],
    )
