#!/usr/bin/env python3
"""Line protocol: rows a second until they are stored and visible, of Tickstone and of QuestDB with the same bytes.

usage: lines.py [--rows N] [--questdb JAR] [--program FILE]

The payload (five columns, two of them symbols) is made beforehand. TCP: the bytes are sent over one connection and over
eight, and the time ends when a query counts all rows. HTTP: requests of 10,000 rows, each after the answer to the one
before, so that every row is acknowledged after its sync. Client and server share the machine. QuestDB is its jar from
Maven Central (java 11 or later) at its defaults; its TCP acknowledges nothing and syncs nothing. Each figure is the median
of five runs, each into a new table.
"""

import argparse
import http.client
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path

RUNS = 5
REQUEST_ROWS = 10_000


def payload(table: str, rows: int) -> list[bytes]:
    """Lines in pieces of so many as a request has."""
    made, base = [], 1_723_109_400_000_000_000
    for first in range(0, rows, REQUEST_ROWS):
        lines = (
            f"{table},symbol=SYM-{n * 7919 % 50},side={'buy' if n % 3 else 'sell'} "
            f"price={60000 + n % 1000}.{n % 100},amount=0.{n % 1000 + 1} {base + n * 1000}\n"
            for n in range(first, min(first + REQUEST_ROWS, rows))
        )
        made.append("".join(lines).encode())
    return made


class Server:
    """A server with a line port and QuestDB's /exec."""

    def __init__(self, name: str, process: subprocess.Popen[str], http_port: int, ilp_port: int) -> None:
        self.name, self.process, self.http_port, self.ilp_port = name, process, http_port, ilp_port
        self.ports: dict[str, int] = {}

    def count(self, table: str) -> int:
        query = urllib.parse.urlencode({"query": f"SELECT count(*) FROM {table}"})
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/exec?{query}") as answer:
                return int(json.load(answer)["dataset"][0][0])
        except OSError:
            return 0

    def wait_for(self, table: str, rows: int) -> None:
        end = time.monotonic() + 300
        while self.count(table) < rows:
            if time.monotonic() > end:
                sys.exit(f"{self.name}: {self.count(table)} of {rows} rows came")
            time.sleep(0.005)

    def tcp(self, table: str, pieces: list[bytes], connections: int) -> None:
        def send(mine: list[bytes]) -> None:
            with socket.create_connection(("127.0.0.1", self.ilp_port)) as stream:
                for piece in mine:
                    stream.sendall(piece)

        threads = [threading.Thread(target=send, args=(pieces[at::connections],)) for at in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.wait_for(table, sum(piece.count(b"\n") for piece in pieces))

    def http(self, table: str, pieces: list[bytes]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.http_port)
        for piece in pieces:
            connection.request("POST", "/write", piece)
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != 204:
                sys.exit(f"{self.name}: {answer.status} {said!r}")
        connection.close()

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


def tickstone(program: Path, folder: Path) -> Server:
    command = [str(program), "serve", "--data", str(folder)]
    command += ["--http-port=0", "--ilp-port=0", "--influx-port=off", "--pg-port=0", "--flight-port=0", "--stream-port=off"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    ports: dict[str, int] = {}
    assert process.stdout is not None
    for line in process.stdout:
        if found := re.match(r"  (\w+) +127\.0\.0\.1:(\d+)", line):
            ports[found[1]] = int(found[2])
        if len(ports) == 4:
            server = Server("Tickstone", process, ports["http_port"], ports["ilp_port"])
            server.ports = ports
            return server
    sys.exit("tickstone does not serve")


def questdb(jar: Path, folder: Path) -> Server:
    (folder / "conf").mkdir(parents=True)
    settings = "telemetry.enabled=false\nhttp.bind.to=127.0.0.1:9900\nline.tcp.net.bind.to=127.0.0.1:9909\n"
    settings += "pg.enabled=false\nhttp.min.enabled=false\n"
    (folder / "conf" / "server.conf").write_text(settings)
    command = ["java", "-ea", "-Dnoebug", "-p", str(jar), "-m", "io.questdb/io.questdb.ServerMain", "-d", str(folder)]
    log = open(folder / "log.txt", "w")
    server = Server("QuestDB", subprocess.Popen(command, stdout=log, stderr=log, text=True), 9900, 9909)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        try:
            urllib.request.urlopen("http://127.0.0.1:9900/exec?query=SELECT%201").read()
            return server
        except OSError:
            time.sleep(0.1)
    sys.exit(f"QuestDB does not start: {(folder / 'log.txt').read_text()[-2000:]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--questdb", type=Path, help="QuestDB's jar; without, Tickstone alone is measured")
    parser.add_argument("--program", type=Path, default=Path("target/release/tickstone"))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lines-", dir=os.environ.get("TMPDIR")))
    servers = [tickstone(given.program, folder / "tickstone")]
    if given.questdb:
        servers.append(questdb(given.questdb, folder / "questdb"))
    ways: dict[str, Callable[[Server, str, list[bytes]], None]] = {
        "TCP, one connection": lambda server, table, pieces: server.tcp(table, pieces, 1),
        "TCP, eight connections": lambda server, table, pieces: server.tcp(table, pieces, 8),
        "HTTP, requests of 10,000 rows": lambda server, table, pieces: server.http(table, pieces),
    }
    print(f"{given.rows:,} rows; rows/s, median of {RUNS} runs (least to greatest)")
    try:
        for place, (way, run) in enumerate(ways.items()):
            figures: dict[str, list[float]] = {server.name: [] for server in servers}
            for number in range(RUNS):
                for server in servers:
                    table = f"t{place}_{number}"
                    pieces = payload(table, given.rows)
                    begun = time.perf_counter()
                    run(server, table, pieces)
                    figures[server.name].append(given.rows / (time.perf_counter() - begun))
            for name, of in figures.items():
                print(f"{way:<32} {name:<10} {statistics.median(of):>12,.0f}  ({min(of):,.0f} to {max(of):,.0f})", flush=True)
    finally:
        for server in servers:
            server.end()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
