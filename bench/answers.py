#!/usr/bin/env python3
"""The server's answers: how long one takes, and how soon a row that was sent is seen.

usage: answers.py [--program FILE]

Asked over one kept-alive connection, of a table of 1,000,000 rows and 50 symbols: a cached query of one symbol, and the
same in the process through the package `tickstone` (what is left is what the protocol adds; the client is Python's
http.client). Sent to seen: a writer sends 100,000 rows a second over TCP into a table with sync = 'interval', in pieces
of one millisecond; every 2 ms the rows that a query counts are compared with those that were sent by then.
"""

import argparse
import http.client
import json
import socket
import statistics
import sys
import tempfile
import threading
import time
import urllib.parse
from pathlib import Path

from lines import Server, payload, tickstone

QUERY = "SELECT count(*), max(price), sum(amount) FROM t WHERE symbol = 'SYM-7' AND timestamp >= '2024-08-08T09:30:00.5'"
ANSWERS = 2_000
SECONDS = 10
ROWS_PER_MS = 100


def ask(connection: http.client.HTTPConnection, sql: str) -> list[list[object]]:
    connection.request("GET", "/exec?" + urllib.parse.urlencode({"query": sql}))
    return json.loads(connection.getresponse().read())["dataset"]


def spread(times: list[float]) -> str:
    """Median and 99th part of a hundred, in milliseconds."""
    times = sorted(times)
    return f"p50 {statistics.median(times) * 1e3:.3f} ms, p99 {times[len(times) * 99 // 100] * 1e3:.3f} ms"


def exec_times(server: Server) -> list[float]:
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port)
    for _ in range(100):
        ask(connection, QUERY)
    times = []
    for _ in range(ANSWERS):
        begun = time.perf_counter()
        ask(connection, QUERY)
        times.append(time.perf_counter() - begun)
    return times


def embedded_times(folder: Path) -> list[float]:
    import tickstone as embedded

    times = []
    with embedded.open(folder, read_only=True) as db:
        for at in range(ANSWERS + 100):
            begun = time.perf_counter()
            db.sql(QUERY).fetchall()
            if at >= 100:
                times.append(time.perf_counter() - begun)
    return times


def seen_times(server: Server) -> list[float]:
    """How long the oldest row that is sent and not seen has been on its way."""
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port)
    made = "CREATE TABLE seen (ts TIMESTAMP, symbol SYMBOL, n BIGINT) TIMESTAMP(ts) WITH (sync = 'interval')"
    connection.request("GET", "/exec?" + urllib.parse.urlencode({"query": made}))
    connection.getresponse().read()
    sent: list[float] = []
    begun = time.perf_counter()

    def write() -> None:
        with socket.create_connection(("127.0.0.1", server.ilp_port)) as stream:
            for at in range(SECONDS * 1000):
                lines = "".join(f"seen,symbol=S{n % 50} n={at}i {at * ROWS_PER_MS + n + 1}\n" for n in range(ROWS_PER_MS))
                wait = begun + at / 1000 - time.perf_counter()
                if wait > 0:
                    time.sleep(wait)
                stream.sendall(lines.encode())
                sent.append(time.perf_counter())

    writer = threading.Thread(target=write)
    writer.start()
    times = []
    while writer.is_alive():
        asked, pieces = time.perf_counter(), len(sent)
        rows = ask(connection, "SELECT count(*) FROM seen")
        seen = int(str(rows[0][0])) // ROWS_PER_MS
        # The oldest piece that had been sent when it was asked, and is not seen.
        times.append(max(0.0, asked - sent[seen]) if seen < pieces else 0.0)
        time.sleep(0.002)
    writer.join()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/tickstone"))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="answers-"))
    begun = time.perf_counter()
    server = tickstone(given.program, folder)
    print(f"start to first answer: {(time.perf_counter() - begun) * 1e3:.0f} ms")
    try:
        server.http("t", payload("t", 1_000_000))
        print(f"/exec, one symbol: {spread(exec_times(server))}")
        print(f"sent to seen at 100,000 rows/s: {spread(seen_times(server))}")
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        resident = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
        print(f"resident: {int(resident) / 1024:.0f} MB")
    finally:
        server.end()
    print(f"the same query in the process: {spread(embedded_times(folder))}")


if __name__ == "__main__":
    sys.exit(main())
