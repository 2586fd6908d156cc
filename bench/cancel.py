#!/usr/bin/env python3
"""Cancelling: milliseconds from CANCEL QUERY to the end of the statement, and to the next statement's answer.

usage: cancel.py [--threads N…]

Each statement runs for half a second in a thread of its own and is cancelled; then another session asks for five rows.
The greatest of five runs is shown. Needs the package `tickstone`.
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


def once(db: tickstone.Database, sql: str) -> tuple[float, float]:
    """Milliseconds to the end and to the next answer."""
    ended = []

    def run() -> None:
        try:
            db.sql(sql).fetchall()
        except tickstone.Error:
            ended.append(time.perf_counter())

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.5)
    running = db.sql("SELECT id FROM queries() WHERE statement NOT LIKE '%queries()%'").fetchall()
    told = time.perf_counter()
    for (number,) in running:
        db.sql(f"CANCEL QUERY {number}")
    db.sql("SELECT a FROM n LIMIT 5").fetchall()
    answered = time.perf_counter()
    thread.join()
    if not ended:
        raise SystemExit(f"it ended before it was cancelled: {sql}")
    return (ended[0] - told) * 1e3, (answered - told) * 1e3


def main() -> None:
    """Prints a table of statements."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    print("| statement | threads | ended, ms | next answer, ms |\n| --- | --- | --- | --- |")
    for threads in arguments.parse_args().threads:
        db = tickstone.open(":memory:", threads=threads)
        db.sql("CREATE TABLE n (a BIGINT, one BIGINT)")
        db.sql("INSERT INTO n SELECT value, 1 FROM generate_series(1, 300000)")
        for name, sql in STATEMENTS.items():
            runs = [once(db, sql) for _ in range(RUNS)]
            ended, answered = (max(run[at] for run in runs) for at in (0, 1))
            print(f"| {name} | {threads} | {ended:.1f} | {answered:.1f} |", flush=True)
        db.close()


if __name__ == "__main__":
    main()
