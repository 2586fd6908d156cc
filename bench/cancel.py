#!/usr/bin/env python3
"""Cancelling: milliseconds from CANCEL QUERY to the end of the statement, and to the next statement's answer.

usage: cancel.py [--threads N…] [--rows N] [--statement NAME…]

Each statement runs in a thread of its own and is cancelled; then another session asks for five rows. Those that go on
for ever are cancelled after half a second, the greatest of five runs is shown. Those that end are cancelled at ten
places between their beginning and their end, over a table of N rows (default 2,000,000): the table of a join, a
partition, groups and sorted runs are at work in one of them. Needs the package `tickstone`.
"""

import argparse
import threading
import time

import tickstone

RUNS = 5
STATEMENTS = {
    "join without matches": "SELECT count(*) FROM n x JOIN n y ON x.a + y.a < 0",
    "join on one key, without matches": "SELECT count(*) FROM n x JOIN n y ON x.one = y.one AND x.a + y.a < 0",
    "cross join, summed": "SELECT sum(x.a * y.a % 7) FROM n x CROSS JOIN n y",
    "cross join, sorted": "SELECT x.a FROM n x CROSS JOIN n y ORDER BY x.a * y.a % 7 LIMIT 5",
    "cross join, grouped": "SELECT x.a % 1000, count(*) FROM n x CROSS JOIN n y GROUP BY 1",
    "window": "SELECT count(s) FROM (SELECT sum(y.a) OVER (ORDER BY x.a) AS s FROM n x CROSS JOIN n y)",
    "unnest": "SELECT sum(v) FROM (SELECT unnest(range(0, 100)) AS v FROM n x CROSS JOIN n y)",
    "series": "SELECT sum(value) FROM generate_series(1, 1000000000000)",
    "recursion": "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r WHERE a < 1000000000) "
    "SELECT max(a) FROM r",
    "long texts": "SELECT sum(length(repeat('x', 100000 + x.a))) FROM n x CROSS JOIN n y",
}

PLACES = 10
ENDING = {
    "table of a hash join": "SELECT count(*) FROM m x JOIN m y ON x.a = y.b AND x.a + y.b > 1",
    "table of a hash join, texts": "SELECT count(*) FROM m x JOIN m y ON x.t = y.t",
    "sort": "SELECT a FROM m ORDER BY b, a OFFSET {last}",
    "sort of texts": "SELECT a FROM m ORDER BY t OFFSET {last}",
    "many groups": "SELECT b, sum(a), max(a) FROM m GROUP BY b ORDER BY b OFFSET {last}",
    "many groups of texts": "SELECT t, count(*) FROM m GROUP BY t ORDER BY t OFFSET {last}",
    "medians of many groups": "SELECT max(s) FROM (SELECT b % 100000 AS g, median(a) AS s FROM m GROUP BY g)",
    "median": "SELECT median(b) FROM m",
    "distinct": "SELECT count(DISTINCT t) FROM m",
    "one partition, moving": "SELECT max(s) FROM "
    "(SELECT sum(a) OVER (ORDER BY b ROWS BETWEEN 5 PRECEDING AND 5 FOLLOWING) AS s FROM m)",
    "one partition, shrinking": "SELECT max(s) FROM "
    "(SELECT sum(a) OVER (ORDER BY b ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS s FROM m)",
    "one partition, median": "SELECT max(s) FROM "
    "(SELECT median(a) OVER (ORDER BY b ROWS BETWEEN 500 PRECEDING AND UNBOUNDED FOLLOWING) AS s FROM m)",
    "one partition, all": "SELECT max(s) FROM (SELECT count(DISTINCT t) OVER () AS s FROM m)",
    "one partition, ranks": "SELECT max(s) FROM (SELECT percent_rank() OVER (ORDER BY b) AS s FROM m)",
    "lag": "SELECT max(s) FROM (SELECT lag(a, 3) OVER (ORDER BY b) AS s FROM m)",
    "window by series": "SELECT max(s) FROM (SELECT stddev(a) OVER (PARTITION BY sym ORDER BY ts) AS s FROM m)",
    "as-of join": "SELECT count(y.a) FROM m x ASOF JOIN m y ON (sym)",
    "as-of join of sub-queries": "SELECT count(y.a) FROM (SELECT ts, sym, a FROM m WHERE a > 5) x "
    "ASOF JOIN (SELECT ts, sym, a FROM m WHERE a > 3) y ON (sym)",
    "window join": "SELECT max(s) FROM (SELECT x.a, sum(y.a) AS s FROM m x WINDOW JOIN m y ON (sym) "
    "RANGE BETWEEN 9s PRECEDING AND 9s FOLLOWING)",
    "horizon join": "SELECT h.offset, avg(y.a) FROM m x HORIZON JOIN m y ON (sym) LIST (0, 1s, 5s) AS h GROUP BY h.offset",
    "splice join": "SELECT count(*) FROM m x SPLICE JOIN m y ON (sym)",
    "nbbo": "SELECT max(bid) FROM nbbo((SELECT ts, sym, sym AS venue, a::DOUBLE AS bid, b::DOUBLE AS ask FROM m), "
    "venue => venue, bid => bid, ask => ask)",
    "fill": "SELECT max(s) FROM (SELECT ts, sum(a) AS s FROM m SAMPLE BY 200T FILL(LINEAR))",
    "pivot": "SELECT max(\"A\") FROM (SELECT a, sym, b FROM m) PIVOT (sum(b) FOR sym IN ('A', 'B') GROUP BY a)",
    "latest": "SELECT count(*) FROM (SELECT ts, a % 1000 AS k, b FROM m WHERE b > 5) LATEST ON ts PARTITION BY k",
    "levenshtein": "SELECT max(levenshtein(repeat('ab', 100) || a, repeat('ba', 100))) FROM m WHERE a < 9000",
    "regular expression": "SELECT count(regexp_match(repeat('ab', 500) || a, '(a|b|ab)*c')) FROM m WHERE a < 9000",
}


def once(db: tickstone.Database, sql: str, after: float) -> tuple[float, float] | None:
    """Milliseconds to the end and to the next answer, cancelled after so many seconds; `None` where it had ended."""
    ended = []

    def run() -> None:
        try:
            db.sql(sql).fetchall()
        except tickstone.Error:
            ended.append(time.perf_counter())

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(after)
    running = db.sql("SELECT id FROM queries() WHERE statement NOT LIKE '%queries()%'").fetchall()
    told = time.perf_counter()
    for (number,) in running:
        try:
            db.sql(f"CANCEL QUERY {number}")
        except tickstone.Error:
            break  # It has just ended.
    db.sql("SELECT a FROM n LIMIT 5").fetchall()
    answered = time.perf_counter()
    thread.join()
    if not ended:
        return None
    return (ended[0] - told) * 1e3, (answered - told) * 1e3


def seconds(db: tickstone.Database, sql: str) -> float:
    """How long it takes where nobody cancels it."""
    begun = time.perf_counter()
    db.sql(sql).fetchall()
    return time.perf_counter() - begun


def main() -> None:
    """Prints a table of statements."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    arguments.add_argument("--rows", type=int, default=2_000_000)
    arguments.add_argument("--statement", nargs="*")
    given = arguments.parse_args()
    print("| statement | threads | takes, s | ended, ms | next answer, ms |\n| --- | --- | --- | --- | --- |")
    for threads in given.threads:
        db = tickstone.open(":memory:", threads=threads)
        db.sql("CREATE TABLE n (a BIGINT, one BIGINT)")
        db.sql("INSERT INTO n SELECT value, 1 FROM generate_series(1, 300000)")
        db.sql("CREATE TABLE m (ts TIMESTAMP, sym SYMBOL, a BIGINT, b BIGINT, t TEXT) TIMESTAMP(ts) SERIES BY (sym)")
        db.sql(
            "INSERT INTO m SELECT to_timestamp(value), CASE WHEN value % 2 = 0 THEN 'A' ELSE 'B' END, value, "
            f"value * 7919 % {given.rows}, 'text of ' || (value * 7919 % {given.rows}) "
            f"FROM generate_series(1, {given.rows}) AS g(value)"
        )
        for name, sql in {**STATEMENTS, **ENDING}.items():
            if given.statement and name not in given.statement:
                continue
            sql, whole = sql.replace("{last}", str(given.rows - 5)), None
            if name in ENDING:
                whole = seconds(db, sql)
            times = [0.5] * RUNS if whole is None else [whole * (at + 0.5) / PLACES for at in range(PLACES)]
            runs = [run for run in (once(db, sql, after) for after in times) if run]
            if not runs:
                raise SystemExit(f"it ended before it was cancelled: {sql}")
            ended, answered = (max(run[at] for run in runs) for at in (0, 1))
            takes = "" if whole is None else f"{whole:.2f}"
            print(f"| {name} | {threads} | {takes} | {ended:.1f} | {answered:.1f} |", flush=True)
        db.close()


if __name__ == "__main__":
    main()
