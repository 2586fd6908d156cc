"""Rows enough for several threads, and all that reads them, against DuckDB."""

import numpy as np
import pyarrow as pa

from fast.markets import LATE_REOPENED, MINUTE, START, WEIGHTED, between, bucket
from tickstone.testing import State, asking


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
