#!/usr/bin/env python3
"""Window functions over all kinds of frames: how time grows with the rows of a partition.

usage: windows.py [--rows N] [--function NAME…] [--brief]

One partition of N rows (default 10,000) and of four times as many, half of the values NULL; every function with every
frame, on Tickstone and DuckDB in the same run, warm, seconds of the process on all cores, the better of two runs, so
that other work on the machine counts little. A factor above 8 is marked: n log n is 4.6, a square is 16. What takes
less than 20 ms is too short for a factor; a system that refuses a pair or is not asked has no figure. `--brief` prints
a line a function, with the frame that is worst: by the factor where that is marked, else by the time. Functions whose
result is as long as the frame (`array_agg`) are left out: theirs is a square by what it gives. Needs the package
`tickstone` and duckdb.
"""

import argparse
import math
import threading
import time

import duckdb
import tickstone

SECONDS_MAX = 3.0
# These take DuckDB minutes over a frame of all rows, also when it is interrupted.
NOT_ASKED = ["quantile, distinct", "median, distinct"]
MORE = 4
MARKED = 8.0
FLOOR = 0.005

FRAMES = {
    "growing rows": "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "growing range": "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "growing groups": "GROUPS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
    "shrinking rows": "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    "moving rows": "ROWS BETWEEN 1000 PRECEDING AND CURRENT ROW",
    "moving range": "RANGE BETWEEN 1000 PRECEDING AND CURRENT ROW",
    "moving groups": "GROUPS BETWEEN 1000 PRECEDING AND CURRENT ROW",
    "half the rows": "ROWS BETWEEN {half} PRECEDING AND CURRENT ROW",
    "half on both sides": "ROWS BETWEEN {half} PRECEDING AND {half} FOLLOWING",
    "all": "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
}

FUNCTIONS = {
    "count": "count(v)",
    "sum": "sum(v)",
    "avg": "avg(v)",
    "min": "min(v)",
    "max": "max(v)",
    "stddev": "stddev(v)",
    "var_pop": "var_pop(v)",
    "corr": "corr(v, w)",
    "covar_samp": "covar_samp(v, w)",
    "bit_xor": "bit_xor(i)",
    "bool_and": "bool_and(i > 5)",
    "median": "median(v)",
    "quantile": "quantile_cont(v, 0.9)",
    "quantile, distinct": "quantile_cont(DISTINCT v, 0.9)",
    "median, distinct": "median(DISTINCT v)",
    "median of decimals": "median(d)",
    "mode": "mode(v)",
    "count distinct": "count(DISTINCT i)",
    "count distinct of doubles": "count(DISTINCT v)",
    "count distinct of texts": "count(DISTINCT t)",
    "sum distinct": "sum(DISTINCT i)",
    "sum distinct of doubles": "sum(DISTINCT v)",
    "sum distinct of decimals": "sum(DISTINCT d)",
    "avg distinct of doubles": "avg(DISTINCT v)",
    "var distinct": "var(DISTINCT v)",
    "bit_xor distinct": "bit_xor(DISTINCT i)",
    "bit_and": "bit_and(i)",
    "approx_quantile": "approx_quantile(v, 0.9)",
    "approx_distinct": "approx_distinct(i)",
    "arg_max": "arg_max(v, w)",
    "skewness": "skewness(v)",
    "ksum": "ksum(v)",
    "vwap": "vwap(v, w)",
    "regr_slope": "regr_slope(v, w)",
    "min of texts": "min(t)",
    "first_value": "first_value(v)",
    "last_value": "last_value(v)",
    "nth_value": "nth_value(v, 5)",
    "first_value ignore nulls": "first_value(v IGNORE NULLS)",
    "last_value ignore nulls": "last_value(v IGNORE NULLS)",
    "nth_value ignore nulls": "nth_value(v, 5 IGNORE NULLS)",
    "first_value ignore nulls, none": "first_value(n IGNORE NULLS)",
    "last_value ignore nulls, none": "last_value(n IGNORE NULLS)",
    "row_number": "row_number()",
    "rank": "rank()",
    "dense_rank": "dense_rank()",
    "percent_rank": "percent_rank()",
    "cume_dist": "cume_dist()",
    "ntile": "ntile(10)",
    "lag": "lag(v, 3)",
    "lead ignore nulls": "lead(v, 3 IGNORE NULLS)",
    "lag ignore nulls": "lag(v, 3 IGNORE NULLS)",
}


def rows(count: int):
    """Rows of one partition; `n` has no value, half of `v` is NULL."""
    return duckdb.sql(
        f"SELECT i AS id, (i * 7919) % 1009 AS i, CASE WHEN i % 2 = 0 THEN (i * 31 % 977)::DOUBLE END AS v, "
        f"(i * 17 % 541)::DOUBLE AS w, NULL::DOUBLE AS n, (i * 13 % 7919)::DECIMAL(12, 2) AS d, "
        f"'text ' || (i * 29 % 7919) AS t FROM range({count}) AS r(i)"
    ).to_arrow_table()


def better(run) -> float | None:
    """Seconds of all threads in the better of two runs; `None` where it is refused, without end where it is too long."""
    best = None
    for _ in range(2):
        begun = time.process_time()
        try:
            run()
        except duckdb.InterruptException:
            return math.inf
        except (tickstone.Error, duckdb.Error):
            return None
        took = time.process_time() - begun
        best = took if best is None else min(best, took)
        if took > SECONDS_MAX / 8:
            break
    return best


def text(call: str, frame: str, count: int) -> str:
    """The query: the sum of the results, so that no system hands rows out."""
    over = f"{call} OVER (ORDER BY id {frame.format(half=count // 2)})"
    return f"SELECT count(x) FROM (SELECT {over} AS x FROM rows_{count})"


def cell(times: list[float | None]) -> str:
    """Milliseconds of the longer one, and the factor."""
    if times[0] is None:
        return "none"
    if math.inf in times or times[1] is None:
        return f"more than {SECONDS_MAX:.0f} s"
    long, factor = times[1], growth(times)
    mark = "**" if factor > MARKED else ""
    return f"{long * 1e3:.0f} ms" + (f", {mark}x{factor:.1f}{mark}" if factor else "")


def pair(run, counts: tuple[int, int]) -> list[float | None]:
    """The times of both; of the longer one only where it is not likely to take very long."""
    short = better(lambda: run(counts[0]))
    long = None if short is None or short > SECONDS_MAX else better(lambda: run(counts[1]))
    return [short, long]


def bounded(peer: duckdb.DuckDBPyConnection, query: str) -> None:
    """Runs a query that is interrupted when it takes too long."""
    timer = threading.Timer(SECONDS_MAX, peer.interrupt)
    timer.start()
    try:
        peer.execute(query).fetchall()
    finally:
        timer.cancel()


def growth(times: list[float | None]) -> float:
    """How many times as long the longer one takes; 0 where that says nothing."""
    if None in times or math.inf in times or times[1] < MORE * FLOOR:
        return 0.0
    return times[1] / max(times[0], FLOOR)


def main() -> None:
    """Prints a table of functions by frames."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rows", type=int, default=10_000)
    arguments.add_argument("--function", nargs="*")
    arguments.add_argument("--brief", action="store_true")
    given = arguments.parse_args()
    counts = (given.rows, MORE * given.rows)
    ours, peer = tickstone.open(":memory:"), duckdb.connect()
    for count in counts:
        frame = rows(count)
        ours.append(f"rows_{count}", frame, create=True)
        peer.register("given", frame)
        peer.execute(f"CREATE TABLE rows_{count} AS SELECT * FROM given")
    print("| function | frame | Tickstone | DuckDB |\n| --- | --- | --- | --- |")
    for name, call in FUNCTIONS.items():
        if given.function and name not in given.function:
            continue
        lines = []
        for kind, frame in FRAMES.items():
            mine = pair(lambda n: ours.sql(text(call, frame, n)).fetchall(), counts)
            asked = name not in NOT_ASKED
            theirs = pair(lambda n: bounded(peer, text(call, frame, n)), counts) if asked else [None, None]
            slow = mine[0] is not None and mine[1] is None
            worse = (slow or growth(mine) > MARKED, mine[1] or 0.0)
            lines.append((worse, f"| {name} | {kind} | {cell(mine)} | {cell(theirs)} |"))
        for _, line in [max(lines)] if given.brief else lines:
            print(line, flush=True)


if __name__ == "__main__":
    main()
