#!/usr/bin/env python3
"""The server's answers: how long one takes, how soon a row that was sent is seen, and what an idle server costs.

usage: answers.py [--program FILE]

Asked over one kept-alive connection, of a table of 1,000,000 rows and 50 symbols: a cached query of one symbol, and the
same in the process through the package `tickstone` (what is left is what the protocol adds). The client speaks HTTP over
a socket and looks at no more of an answer than it must.

Sent to seen: a process of its own sends 100,000 rows a second over TCP into a table with sync = 'interval', in pieces of
one millisecond made beforehand; another connection counts the rows again and again. A piece is seen at the end of the
first answer that counts all of it, so that the time to ask and to answer is in the figure; so is what the two clients take
of the same two cores.

Idle: a server over the demo's data, five seconds after its start, before anybody asks: its memory, and its time of a
processor in ten seconds.
"""

import argparse
import json
import multiprocessing
import multiprocessing.connection
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

from lines import Server, payload, tickstone

QUERY = "SELECT count(*), max(price), sum(amount) FROM t WHERE symbol = 'SYM-7' AND timestamp >= '2024-08-08T09:30:00.5'"
ANSWERS = 2_000
SECONDS = 10
ROWS_PER_MS = 100
IDLE_S = 10


class Exec:
    """A kept-alive connection to /exec."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    @staticmethod
    def request(sql: str) -> bytes:
        return f"GET /exec?{urllib.parse.urlencode({'query': sql})} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()

    def ask(self, request: bytes) -> bytes:
        """The answer of a query, its head and its chunks."""
        self.socket.sendall(request)
        answer = b""
        while not answer.endswith(b"0\r\n\r\n"):
            answer += self.socket.recv(1 << 16)
        if not answer.startswith(b"HTTP/1.1 200"):
            sys.exit(answer.decode())
        return answer


def spread(times: list[float]) -> str:
    """Median and 99th part of a hundred, in milliseconds."""
    times = sorted(times)
    return f"p50 {statistics.median(times) * 1e3:.3f} ms, p99 {times[len(times) * 99 // 100] * 1e3:.3f} ms"


def exec_times(server: Server) -> list[float]:
    connection, request = Exec(server.http_port), Exec.request(QUERY)
    for _ in range(100):
        connection.ask(request)
    times = []
    for _ in range(ANSWERS):
        begun = time.perf_counter()
        connection.ask(request)
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


def send(port: int, pieces: list[bytes], times: multiprocessing.connection.Connection) -> None:
    """Sends a piece each millisecond; hands over when each was sent."""
    sent = []
    with socket.create_connection(("127.0.0.1", port)) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun = time.perf_counter()
        for at, piece in enumerate(pieces):
            wait = begun + at / 1000 - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            sent.append(time.perf_counter())
            stream.sendall(piece)
    times.send(sent)


def seen_times(server: Server) -> list[float]:
    """How long each piece was on its way."""
    connection, count = Exec(server.http_port), Exec.request("SELECT count(*) FROM seen")
    made = "CREATE TABLE seen (ts TIMESTAMP, symbol SYMBOL, n BIGINT) TIMESTAMP(ts) WITH (sync = 'interval')"
    words = urllib.parse.urlencode({"query": made})
    urllib.request.urlopen(f"http://127.0.0.1:{server.http_port}/exec?{words}").read()
    pieces = [
        "".join(f"seen,symbol=S{n % 50} n={at}i {at * ROWS_PER_MS + n + 1}\n" for n in range(ROWS_PER_MS)).encode()
        for at in range(SECONDS * 1000)
    ]
    mine, theirs = multiprocessing.Pipe()
    sender = multiprocessing.Process(target=send, args=(server.ilp_port, pieces, theirs))
    sender.start()
    seen: list[float] = []
    while len(seen) < len(pieces):
        answer = connection.ask(count)
        rows = int(answer[answer.index(b'"dataset":[[') + 12 : answer.index(b"]]")])
        seen += [time.perf_counter()] * (rows // ROWS_PER_MS - len(seen))
    sent = mine.recv()
    sender.join()
    return [there - here for here, there in zip(sent, seen, strict=True)]


def idle(program: Path, folder: Path) -> str:
    """What a server over the demo's data takes while nobody asks."""
    subprocess.run([program, "demo", "--keep", "--data", folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    server = tickstone(program, folder / "tickstone-data")
    try:
        time.sleep(5)
        ticks = processor_ticks(server.process.pid)
        time.sleep(IDLE_S)
        used = (processor_ticks(server.process.pid) - ticks) / os.sysconf("SC_CLK_TCK") / IDLE_S
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{server.process.pid}/status").read_text().splitlines())
        resident, own = (int(fields[name].split()[0]) / 1024 for name in ("VmRSS", "RssAnon"))
        return f"{resident:.0f} MB resident, {own:.0f} of them its own and the rest pages of the program; {used:.1%} of a processor"
    finally:
        server.end()


def processor_ticks(pid: int) -> int:
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return int(user) + int(system)


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
    finally:
        server.end()
    print(f"the same query in the process: {spread(embedded_times(folder))}")
    print(f"idle: {idle(given.program, folder / 'demo')}")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
