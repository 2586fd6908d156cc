#!/usr/bin/env python3
"""What users cost: connections, rows in and short queries of a server with users beside one without.

usage: .venv/bin/python bench/users.py [--rounds N] [--program FILE]

Two servers with the same 1,000,000 rows of 100 symbols, one without users. Connections of PostgreSQL's clients are made in
the clear and over TLS, by a password (SCRAM-SHA-256) and by a certificate. Short queries (one row of one symbol) are asked
over one connection by nobody, by an admin, by a reader of everything, and by a user who is granted half of the rows. Lines
go in over HTTP with and without Basic. All kinds take turns; printed are the medians. The client is Python, on the same
machine.
"""

import argparse
import base64
import http.client
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg

PORTS = ["http", "influx", "pg", "flight", "ilp", "stream"]
CONNECTIONS = 40
QUERIES = 300
ROWS = 1_000_000
LINES = 200_000
PASSWORD = "a password of some length"
SHORT = "SELECT px FROM t WHERE sym = 'S{0}' AND ts >= '2023-11-14T22:13:20Z' ORDER BY ts LIMIT 1"
FILL = (
    "INSERT INTO t SELECT TIMESTAMP '2023-11-14T22:13:20Z' + value * INTERVAL '1 millisecond', 'S' || value % 100, "
    f"value % 1000 / 8.0 FROM range(0, {ROWS})"
)


@contextmanager
def served(program: Path, folder: Path, *more: str) -> Iterator[dict[str, int]]:
    """A server: its ports."""
    command = [program, "serve", "--data", folder / "data", *[f"--{port}-port=0" for port in PORTS], *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        ports: dict[str, int] = {}
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.match(r"  (\w+)_port +127\.0\.0\.1:(\d+)", line):
                ports[found[1]] = int(found[2])
            if len(ports) == len(PORTS):
                break
        yield ports
    finally:
        process.terminate()
        process.wait()


def connections(**words: Any) -> float:
    """Milliseconds that a connection takes."""
    begun = time.perf_counter()
    for _ in range(CONNECTIONS):
        psycopg.connect(**words).close()
    return (time.perf_counter() - begun) / CONNECTIONS * 1e3


def queries(connection: Any) -> float:
    """Microseconds that a short query takes."""
    begun = time.perf_counter()
    for number in range(QUERIES):
        assert len(connection.execute(SHORT.format(number % 50 * 2)).fetchall()) == 1
    return (time.perf_counter() - begun) / QUERIES * 1e6


def lines(port: int, table: str, header: dict[str, str]) -> float:
    """Millions of lines a second over HTTP."""
    body = b"".join(
        b"%s,sym=S%d px=%d.25 %d\n" % (table.encode(), row % 100, row % 1000, 1_700_000_000_000_000_000 + row * 1000)
        for row in range(LINES)
    )
    connection = http.client.HTTPConnection("localhost", port)
    begun = time.perf_counter()
    connection.request("POST", "/write", body, header)
    answer = connection.getresponse()
    took = time.perf_counter() - begun
    assert answer.status == 204, answer.read()
    connection.close()
    return LINES / took / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--program", type=Path, default=Path("target/release/tickstone"))
    words = parser.parse_args()
    if not words.program.exists():
        sys.exit(f"{words.program} is missing: make release")
    measured: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        open_, closed = Path(name) / "open", Path(name) / "closed"
        closed.mkdir()
        files = closed / "certificates"
        for more in [[], ["--user", "root"]]:
            subprocess.run([words.program, "cert", "--out", files, *more], check=True, stdout=subprocess.DEVNULL)
        command = [words.program, "user", "add", "root", "--admin", "--data", closed / "data"]
        subprocess.run(command, input=f"{PASSWORD}\n", text=True, check=True, stdout=subprocess.DEVNULL)
        tls = [f"--tls-certificate={files / 'server.pem'}", f"--tls-key={files / 'server-key.pem'}"]
        without = stack.enter_context(served(words.program, open_))
        with_users = stack.enter_context(served(words.program, closed, *tls, f"--tls-client-ca={files / 'ca.pem'}"))
        nobody = {"host": "localhost", "port": without["pg"], "user": "me", "autocommit": True}
        root = {"host": "localhost", "port": with_users["pg"], "user": "root", "password": PASSWORD, "autocommit": True}
        over_tls = {"sslmode": "verify-full", "sslrootcert": str(files / "ca.pem")}
        by_certificate = {"sslcert": str(files / "root.pem"), "sslkey": str(files / "root-key.pem")}
        asking = {"nobody": stack.enter_context(psycopg.connect(**nobody)), "an admin": stack.enter_context(psycopg.connect(**root))}
        for connection in asking.values():
            connection.execute("CREATE TABLE t (ts TIMESTAMP, sym SYMBOL, px DOUBLE) TIMESTAMP(ts)")
            connection.execute(FILL)
            connection.execute("CHECKPOINT")
        for user, grant in [("reader_of_all", "GRANT SELECT ON t TO {0}"), ("half", "GRANT SELECT ON t WHERE px >= 0 AND px < 62.5 TO {0}")]:
            asking["an admin"].execute(f"CREATE USER {user} PASSWORD '{PASSWORD}'")
            asking["an admin"].execute(grant.format(user))
            asking[user] = stack.enter_context(psycopg.connect(**root | {"user": user}))
        basic = {"Authorization": "Basic " + base64.b64encode(f"root:{PASSWORD}".encode()).decode()}
        kinds: list[tuple[tuple[str, str], Callable[[], float]]] = [
            (("connection, ms", "without users"), lambda: connections(**nobody)),
            (("connection, ms", "password"), lambda: connections(**root | {"sslmode": "disable"})),
            (("connection, ms", "password, TLS"), lambda: connections(**root | over_tls)),
            (("connection, ms", "certificate, TLS"), lambda: connections(**root | over_tls | by_certificate)),
            *[(("short query, µs", who), lambda who=who: queries(asking[who])) for who in asking],  # type: ignore[misc]
            (("lines in, millions a second", "without users"), lambda: lines(without["http"], "l", {})),
            (("lines in, millions a second", "password"), lambda: lines(with_users["http"], "l", basic)),
        ]
        for _ in range(words.rounds):
            for kind, measure in kinds:
                measured[kind].append(measure())
    for (what, kind), times in measured.items():
        print(f"{what:30} {kind:20} {statistics.median(times):10.2f}  ({min(times):.2f} to {max(times):.2f})")


if __name__ == "__main__":
    main()
