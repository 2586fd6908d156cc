#!/usr/bin/env python3
"""The PostgreSQL port: how long an answer of a prepared statement takes, and values a second of COPY and of rows.

usage: postgres.py [--program FILE] [--rows N]

The client speaks the protocol itself over a socket and looks at no more of it than it must, so that what is measured is
the server and the loopback; both share the machine. The table has five columns, two of them symbols, and 50 symbols.
Latency: 2,000 times Bind, Execute and Sync of a prepared query of one symbol that is cached, after 100 to warm up, and
the same of 32 connections at once, beside /exec over a kept-alive connection. Throughput: the median of five runs.
"""

import argparse
import socket
import statistics
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from answers import QUERY, exec_times, spread
from lines import Server, payload, tickstone

RUNS = 5
ANSWERS = 2_000
CLIENTS = 32
COLUMNS = 5


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack(">i", len(body) + 4) + body


class Connection:
    """A connection whose startup is done."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body = struct.pack(">i", 196608) + b"user\0bench\0\0"
        self.socket.sendall(struct.pack(">i", len(body) + 4) + body)
        self.until_ready()

    def until_ready(self) -> int:
        """Reads to the end of an answer; how many bytes it had."""
        total, tail = 0, b""
        while True:
            piece = self.socket.recv(1 << 20)
            if not piece:
                sys.exit("the server closed the connection")
            total, tail = total + len(piece), (tail + piece)[-6:]
            if tail[:5] == b"Z\0\0\0\5":
                return total

    def query(self, sql: str) -> int:
        self.socket.sendall(message(b"Q", sql.encode() + b"\0"))
        return self.until_ready()

    def prepare(self, sql: str) -> bytes:
        """What asks once more."""
        self.socket.sendall(message(b"P", b"s\0" + sql.encode() + b"\0\0\0") + message(b"S", b""))
        self.until_ready()
        bind = b"\0s\0" + struct.pack(">hhhh", 0, 0, 1, 1)
        return message(b"B", bind) + message(b"E", b"\0" + struct.pack(">i", 0)) + message(b"S", b"")

    def times(self, again: bytes, count: int) -> list[float]:
        times = []
        for at in range(count + 100):
            begun = time.perf_counter()
            self.socket.sendall(again)
            self.until_ready()
            if at >= 100:
                times.append(time.perf_counter() - begun)
        return times


def many(server: Server) -> float:
    """Answers a second of many connections at once."""
    connections = [Connection(server.ports["pg_port"]) for _ in range(CLIENTS)]
    prepared = [connection.prepare(QUERY) for connection in connections]
    threads = [
        threading.Thread(target=connection.times, args=(again, 200))
        for connection, again in zip(connections, prepared, strict=True)
    ]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return CLIENTS * 300 / (time.perf_counter() - begun)


def rate(run: Callable[[], int], values: int) -> str:
    took, sizes = [], []
    for _ in range(RUNS):
        begun = time.perf_counter()
        sizes.append(run())
        took.append(time.perf_counter() - begun)
    median = statistics.median(took)
    return f"{values / median / 1e6:.1f} M values/s, {sizes[-1] / median / 1e6:.0f} MB/s ({median:.3f} s)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/tickstone"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="postgres-") as folder:
        server = tickstone(asked.program, Path(folder))
        try:
            server.http("t", payload("t", asked.rows))
            connection = Connection(server.ports["pg_port"])
            print(f"prepared, one symbol     {spread(connection.times(connection.prepare(QUERY), ANSWERS))}")
            print(f"/exec, one symbol        {spread(exec_times(server))}")
            print(f"{CLIENTS} connections          {many(server):,.0f} answers/s")
            values = asked.rows * COLUMNS
            print(f"COPY TO STDOUT text      {rate(lambda: connection.query('COPY t TO STDOUT'), values)}")
            binary = "COPY t TO STDOUT (FORMAT binary)"
            print(f"COPY TO STDOUT binary    {rate(lambda: connection.query(binary), values)}")
            print(f"SELECT *, text           {rate(lambda: connection.query('SELECT * FROM t'), values)}")
        finally:
            server.end()


if __name__ == "__main__":
    main()
