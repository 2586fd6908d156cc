"""Joins around times with conditions, computed columns and keys beside the series key: series by series, and merged.

usage: .venv/bin/python bench/joins.py [--runs N] [--database DIR]

Reads the tables that `bench/breadth.py` has made (run that first); prints a table of milliseconds from Python until the
rows are there, medians of N runs series by series, beside one run after `SET pipeline = false`. Ends with an error where
the answers differ by more than the last digits of a sum.
"""

import argparse
import math
import statistics
import time
from pathlib import Path

import tickstone

SECOND = "RANGE BETWEEN 1s PRECEDING AND 1s FOLLOWING"
WINDOW = "SELECT sum(n), sum(b) FROM (SELECT t.symbol, count(*) AS n, avg({}) AS b FROM trades t WINDOW JOIN {} " + SECOND + ")"
QUESTIONS = {
    "`WINDOW JOIN quotes`, ±1 s, `count(*)` and `avg(bid)`": WINDOW.format("q.bid", "quotes q ON (symbol)"),
    "of the quotes of one condition": WINDOW.format(
        "q.bid", "(SELECT * FROM quotes WHERE condition = 'REGULAR') q ON (symbol)"
    ),
    "by symbol and venue": WINDOW.format("q.bid", "quotes q ON t.symbol = q.symbol AND t.venue = q.venue"),
    "of mid prices, `(bid + ask) / 2`": WINDOW.format(
        "q.mid", "(SELECT timestamp, symbol, (bid + ask) / 2 AS mid FROM quotes) q ON (symbol)"
    ),
    "`HORIZON JOIN` of buys, three offsets": "SELECT h.offset, avg(q.bid) FROM (SELECT * FROM trades WHERE side = 'buy') t "
    "HORIZON JOIN quotes q ON (symbol) LIST (0, 1s, 10s) AS h GROUP BY h.offset ORDER BY 1",
    "`SPLICE JOIN` of trades and quotes of one venue, counted": "SELECT count(*) FROM (SELECT * FROM trades WHERE venue = 'N') t "
    "SPLICE JOIN (SELECT * FROM quotes WHERE venue = 'N') q ON (symbol)",
}


def timed(db: tickstone.Database, sql: str, runs: int) -> tuple[float, list[tuple]]:
    """Milliseconds, the median of some runs, and the rows."""
    took = []
    for _ in range(runs):
        begun = time.perf_counter()
        rows = db.sql(sql).fetchall()
        took.append(time.perf_counter() - begun)
    return statistics.median(took) * 1e3, rows


def alike(one: list[tuple], other: list[tuple]) -> bool:
    """Whether two answers are the same but for rounding."""
    pairs = zip((value for row in one for value in row), (value for row in other for value in row), strict=True)
    return len(one) == len(other) and all(math.isclose(a, b, rel_tol=1e-9) for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    made = Path(__file__).resolve().parents[1] / "build" / "bench" / "breadth-15000000-tickstone"
    parser.add_argument("--database", type=Path, default=made, help="that of bench/breadth.py")
    given = parser.parse_args()
    if not given.database.is_dir():
        parser.error(f"there is no {given.database}: run bench/breadth.py first")
    db = tickstone.open(str(given.database), read_only=True)
    print("| what | by series, ms | general way, ms | times |\n| --- | --- | --- | --- |")
    for what, sql in QUESTIONS.items():
        quick, rows = timed(db, sql, given.runs)
        db.sql("SET pipeline = false")
        general, expected = timed(db, sql, 1)
        db.sql("SET pipeline = true")
        if not alike(rows, expected):
            raise SystemExit(f"{what}: {rows[:3]} by series, {expected[:3]} the general way")
        print(f"| {what} | {quick:.0f} | {general:,.0f} | {general / quick:.1f} |")


if __name__ == "__main__":
    main()
