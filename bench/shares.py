#!/usr/bin/env python3
"""Shares of users: how long a short statement takes beside somebody who scans everything on all connections.

usage: shares.py [--rows N] [--connections N] [--program FILE]

A table of N rows (default 2,000,000) of 100 symbols. User light asks for one row of one symbol, again and again; then
again beside a process whose connections (default 16) aggregate the whole table without a pause: as user heavy, as user
light itself, and as heavy with a weight of 10. Printed are the median and the 99th percentile of 200 times. Clients and server share
the machine.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

PASSWORD = "p"
TIMES = 200
SETTLE_S = 3.0
SHORT = "SELECT px FROM t WHERE sym = 'S{0}' AND ts >= '2023-11-14T22:13:20Z' ORDER BY ts LIMIT 1"
SCAN = "SELECT sym, sum(px), stddev(px * 2 + 1), count(*) FROM t GROUP BY sym"
LOAD = """
import psycopg, threading
def run():
    connection = psycopg.connect({address!r}, autocommit=True)
    while True:
        connection.execute({scan!r}).fetchall()
threads = [threading.Thread(target=run, daemon=True) for _ in range({connections})]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


def serve(program: Path, folder: Path) -> tuple[subprocess.Popen[str], int]:
    command = [str(program), "serve", "--data", str(folder), "--pg-port=0"]
    command += [f"--{name}-port=off" for name in ("http", "ilp", "influx", "flight", "stream")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.match(r"  pg_port +127\.0\.0\.1:(\d+)", line):
            return process, int(found[1])
    sys.exit("tickstone does not serve")


def address(port: int, user: str) -> str:
    return f"host=127.0.0.1 port={port} user={user} password={PASSWORD}"


@contextmanager
def scans(port: int, user: str, connections: int) -> Iterator[None]:
    code = LOAD.format(address=address(port, user), scan=SCAN, connections=connections)
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        time.sleep(SETTLE_S)
        yield
    finally:
        process.kill()
        process.wait()
        time.sleep(SETTLE_S)


def times(connection: psycopg.Connection[Any], name: str) -> None:
    taken = []
    for number in range(TIMES):
        begun = time.perf_counter()
        connection.execute(SHORT.format(number % 100)).fetchall()
        taken.append((time.perf_counter() - begun) * 1e3)
    taken.sort()
    print(f"{name:32} median {taken[TIMES // 2]:7.1f} ms, p99 {taken[TIMES * 99 // 100]:7.1f} ms", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--program", type=Path, default=Path("target/release/tickstone"))
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        command = [asked.program, "user", "add", "root", "--admin", "--data", folder]
        subprocess.run(command, input=f"{PASSWORD}\n", text=True, check=True, capture_output=True)
        process, port = serve(asked.program, Path(folder))
        try:
            with psycopg.connect(address(port, "root"), autocommit=True) as root:
                root.execute("CREATE TABLE t (ts TIMESTAMP, sym SYMBOL, px DOUBLE) TIMESTAMP(ts)")
                root.execute(
                    "INSERT INTO t SELECT timestamp_s(1700000000 + value), 'S' || (value % 100), value / 7.0"
                    f" FROM range(0, {asked.rows})"
                )
                for user in ("heavy", "light"):
                    root.execute(f"CREATE USER {user} PASSWORD '{PASSWORD}' IN ROLE reader")
                with psycopg.connect(address(port, "light"), autocommit=True) as light:
                    times(light, "first")
                    times(light, "alone")
                    for user in ("heavy", "light"):
                        with scans(port, user, asked.connections):
                            times(light, f"beside {asked.connections} connections of {user}")
                    root.execute("ALTER USER heavy SET weight = 10")
                    with scans(port, "heavy", asked.connections):
                        times(light, "beside heavy with weight 10")
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main()
