#!/usr/bin/env python3
"""Window functions over all kinds of frames: how time grows when the rows of a partition double.

usage: windows.py [--rows N] [--function NAME…]

One partition of N rows (default 20,000) and of twice as many, half of the values NULL; every function with every
frame, on Tickstone and DuckDB in the same run, warm, the better of two runs. A factor above 3 is marked: n log n is
2.2, a square is 4. Pairs that a system refuses have no figure. Functions whose result is as long as the frame
(`array_agg`) are left out: theirs is a square by what it gives. Needs the package `tickstone` and duckdb.
"""

import argparse
import time

import duckdb
import tickstone

SECONDS_MAX = 20.0
MARKED = 3.0
FLOOR = 0.004

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
    "count distinct": "count(DISTINCT i)",
    "sum distinct": "sum(DISTINCT i)",
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
        f"(i * 17 % 541)::DOUBLE AS w, NULL::DOUBLE AS n FROM range({count}) AS r(i)"
    ).to_arrow_table()


def better(run) -> float | None:
    """Seconds of the better of two runs; `None` where it is refused."""
    best = None
    for _ in range(2):
        begun = time.perf_counter()
        try:
            run()
        except (tickstone.Error, duckdb.Error):
            return None
        took = time.perf_counter() - begun
        best = took if best is None else min(best, took)
        if took > SECONDS_MAX / 4:
            break
    return best


def text(call: str, frame: str, count: int) -> str:
    """The query: the sum of the results, so that no system hands rows out."""
    over = f"{call} OVER (ORDER BY id {frame.format(half=count // 2)})"
    return f"SELECT count(x) FROM (SELECT {over} AS x FROM rows_{count})"


def cell(times: list[float | None]) -> str:
    """Milliseconds of the longer one, and the factor."""
    if None in times:
        return "refused"
    short, long = times
    factor = long / max(short, FLOOR)
    mark = " **" if factor > MARKED and long > 2 * FLOOR else " "
    return f"{long * 1e3:.1f} ms,{mark}x{factor:.1f}{mark.strip()}"


def main() -> None:
    """Prints a table of functions by frames."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rows", type=int, default=20_000)
    arguments.add_argument("--function", nargs="*")
    given = arguments.parse_args()
    counts = (given.rows, 2 * given.rows)
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
        for kind, frame in FRAMES.items():
            mine = [better(lambda n=n: ours.sql(text(call, frame, n)).fetchall()) for n in counts]
            theirs = [better(lambda n=n: peer.execute(text(call, frame, n)).fetchall()) for n in counts]
            print(f"| {name} | {kind} | {cell(mine)} | {cell(theirs)} |", flush=True)


if __name__ == "__main__":
    main()
