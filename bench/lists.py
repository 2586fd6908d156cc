"""How long IN of long lists of literals takes, beside DuckDB: a table of two million rows, lists of a million items.

usage: .venv/bin/python bench/lists.py [--items N] [--rounds N]

In one process, through the Python package, which must be built in release (`make python`). Printed are the first time and the
median of the others; both systems must find the same rows.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable

import duckdb

import tickstone

ROWS = 2_000_000
KEYS = 3_000_000
TABLE = "CREATE TABLE t (ts TIMESTAMP, s {symbol}, id BIGINT, price DOUBLE, size DECIMAL(12, 2), note VARCHAR)"
FILL = """INSERT INTO t SELECT {time}, 'S' || (i % 5000), i * 7 % 3000000, i / 4.0, (i % 100000) / 4.0, 'N' || i
    FROM (SELECT {number} AS i FROM generate_series(1, {rows}){alias})"""
LISTS: dict[str, tuple[str, Callable[[int], str]]] = {
    "whole numbers": ("id", str),
    "doubles": ("price", lambda key: str(key / 4)),
    "DECIMALs": ("size", lambda key: str(key % 120_000 / 4)),
    "texts": ("note", lambda key: f"'N{key}'"),
    "symbols": ("s", lambda key: f"'S{key % 9000}'"),
}


def measured(run: Callable[[], int], rounds: int) -> tuple[int, str]:
    """What it gives, and its times."""
    seconds = []
    for _ in range(rounds):
        begun = time.perf_counter()
        found = run()
        seconds.append(time.perf_counter() - begun)
    again = f", again {statistics.median(seconds[1:]):.2f} s" if rounds > 1 else ""
    return found, f"{seconds[0]:.2f} s{again}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=4)
    asked = parser.parse_args()
    ours, theirs = tickstone.open(":memory:"), duckdb.connect()
    ours.sql(TABLE.format(symbol="SYMBOL") + " TIMESTAMP(ts) SERIES BY (s)")
    ours.sql(FILL.format(time="timestamp_s(1700000000 + i)", number="value", rows=ROWS, alias=""))
    theirs.sql(TABLE.format(symbol="VARCHAR"))
    theirs.sql(FILL.format(time="make_timestamp((1700000000 + i) * 1000000)", number="x", rows=ROWS, alias=" q(x)"))
    rng = random.Random(1)
    keys = [rng.randrange(KEYS) for _ in range(asked.items)]
    for name, (column, item) in LISTS.items():
        sql = f"SELECT count(*) FROM t WHERE {column} IN ({', '.join(map(item, keys))})"
        found, took = measured(lambda: ours.sql(sql).fetchall()[0][0], asked.rounds)
        there, took_there = measured(lambda: theirs.execute(sql).fetchall()[0][0], 1)
        assert found == there, f"{name}: {found} rows, {there} in DuckDB"
        print(f"{name}: {took}; DuckDB {took_there}; {found} rows", flush=True)


if __name__ == "__main__":
    main()
