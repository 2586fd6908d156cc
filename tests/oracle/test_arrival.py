"""Rows of equal time are in order of arrival, also for windows over joins and sub-queries: against plain Python.

`TICKSTONE_SEED` says which rows; what fails prints it.
"""

import os
import random
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest
import tickstone

SEED = int(os.environ.get("TICKSTONE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
SOURCES = {
    "table": "q",
    "asof": "(SELECT a.ts, a.symbol, a.n FROM q a ASOF JOIN q b ON (symbol))",
    "asof of all": "(SELECT a.ts, a.symbol, a.n FROM q a ASOF JOIN q b)",
    "window join": "(SELECT a.ts, a.symbol, a.n, count(*) AS c FROM q a WINDOW JOIN q w ON (symbol) "
    "RANGE BETWEEN 1s PRECEDING AND CURRENT ROW)",
    "join": "(SELECT a.ts, a.symbol, a.n FROM q a JOIN (SELECT DISTINCT symbol AS s FROM q) b ON a.symbol = b.s)",
    "window": "(SELECT ts, symbol, n, count(*) OVER (PARTITION BY symbol ORDER BY ts) AS c FROM q)",
}
WINDOWS = {
    "n - lag(n) OVER (PARTITION BY symbol ORDER BY ts)": lambda rows: [
        None,
        *(b - a for a, b in zip(rows, rows[1:], strict=False)),
    ],
    "row_number() OVER (PARTITION BY symbol ORDER BY ts)": lambda rows: list(range(1, len(rows) + 1)),
    "sum(n) OVER (PARTITION BY symbol ORDER BY ts ROWS UNBOUNDED PRECEDING)": lambda rows: [
        sum(rows[: at + 1]) for at in range(len(rows))
    ],
    "first_value(n) OVER (PARTITION BY symbol, ts::DATE ORDER BY ts ROWS 1 PRECEDING)": lambda rows: [
        rows[max(at - 1, 0)] for at in range(len(rows))
    ],
}


@pytest.mark.parametrize("sealed", ["in memory", "sealed", "both"])
@pytest.mark.parametrize("source", SOURCES)
def test_windows_go_by_arrival(tmp_path: Path, source: str, sealed: str) -> None:
    rng = random.Random(SEED)
    # Of a day; each time comes several times, and the numbers grow with arrival.
    count, spread = rng.randrange(50, 20_000), rng.choice([5, 50, 1_000])
    times = sorted(rng.randrange(spread) * 1_000_000_000 for _ in range(count))
    symbols = [rng.choice("ABC") for _ in range(count)]
    table = pa.table(
        {
            "ts": pa.array([1_700_006_400_000_000_000 + at for at in times], pa.timestamp("ns")),
            "symbol": pa.array(symbols),
            "n": pa.array(range(count), pa.int64()),
        }
    )
    with tickstone.open(tmp_path / "d") as database:
        database.sql("CREATE TABLE q (ts TIMESTAMP, symbol SYMBOL, n BIGINT) TIMESTAMP(ts)")
        half = count // 2
        database.append("q", table.slice(0, half))
        if sealed == "both":
            database.sql("CHECKPOINT")
        database.append("q", table.slice(half))
        if sealed == "sealed":
            database.sql("CHECKPOINT")
        series = defaultdict(list)
        for symbol, number in zip(symbols, range(count), strict=True):
            series[symbol].append(number)
        for window, expected in WINDOWS.items():
            found = database.sql(f"SELECT symbol, n, {window} AS w FROM {SOURCES[source]}").arrow().to_pylist()
            by_number = {row["n"]: row["w"] for row in found}
            assert len(by_number) == count, f"TICKSTONE_SEED={SEED}: {source}: rows are missing"
            for rows in series.values():
                mine = [by_number[number] for number in rows]
                assert mine == expected(rows), f"TICKSTONE_SEED={SEED}: {window} over {source}"
