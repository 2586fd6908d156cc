"""Many clients at once: idle, busy, and reading beside one that writes at full speed."""

import resource
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
import requests
from serving import PATIENCE_S, WITHSTAND_S, Server, until

IDLE = 2_000
BUSY = 200
# Requests of a busy client, and rows of each.
REQUESTS = 5 + int(WITHSTAND_S)
ROWS = 20
READERS = 100


def dial(served: Server, port: str, seconds: float = PATIENCE_S) -> socket.socket:
    return socket.create_connection(("127.0.0.1", served.ports[port]), timeout=seconds)


def connect(served: Server) -> psycopg.Connection[Any]:
    login = f"host=127.0.0.1 port={served.ports['pg_port']} user=admin password=quest dbname=qdb"
    return psycopg.connect(login, autocommit=True)


def counter(served: Server, name: str) -> int:
    answer = requests.get(f"http://127.0.0.1:{served.ports['http_port']}/metrics", timeout=PATIENCE_S).text
    return int(answer.split(f"\ntickstone_{name} ")[1].split()[0])


class Idle:
    """A connection that asks or sends something now and nothing for long."""

    def __init__(self, served: Server, number: int) -> None:
        self.kind = ["pg", "http", "ilp"][number % 3]
        self.number = number
        if self.kind == "pg":
            self.db = connect(served)
        else:
            self.socket = dial(served, "http_port" if self.kind == "http" else "ilp_port")

    def ask(self) -> None:
        if self.kind == "pg":
            assert self.db.execute("SELECT 40 + 2").fetchone() == (42,)
        elif self.kind == "http":
            self.socket.sendall(b"GET /exec?query=SELECT+40%2B2 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while b'"count":1' not in answer:
                assert (piece := self.socket.recv(4096)), answer
                answer += piece
            assert b"[[42]]" in answer
        else:
            self.socket.sendall(b"idle n=%di\n" % self.number)

    def close(self) -> None:
        (self.db if self.kind == "pg" else self.socket).close()


class Busy:
    """A client that writes rows and reads them again, over one protocol."""

    def __init__(self, served: Server, number: int) -> None:
        self.served, self.number = served, number
        self.write = [self.lines, self.stream, self.insert][number % 3]

    def body(self, request: int) -> bytes:
        first = (self.number * REQUESTS + request) * ROWS
        return b"".join(b"busy,w=w%d n=%di %d\n" % (self.number, n, n + 1) for n in range(first, first + ROWS))

    def lines(self, request: int) -> None:
        assert self.served.ask("/write", self.body(request)) is None

    def stream(self, request: int) -> None:
        with dial(self.served, "ilp_port") as stream:
            stream.sendall(self.body(request))

    def insert(self, request: int) -> None:
        rows = (line.split(b" ") for line in self.body(request).splitlines())
        values = ", ".join(f"('w{self.number}', {n.decode()[2:-1]}, epoch_ns({at.decode()}))" for _, n, at in rows)
        with connect(self.served) as db:
            assert db.execute(f"INSERT INTO busy (w, n, timestamp) VALUES {values}".encode()).rowcount == ROWS

    def run(self) -> None:
        first = self.number * REQUESTS * ROWS
        for request in range(REQUESTS):
            self.write(request)
            written = (request + 1) * ROWS
            wanted = [[written, sum(range(first, first + written)), f"w{self.number}"]]
            sql = f"SELECT count(*), sum(n), max(w) FROM busy WHERE w = 'w{self.number}'"
            until(lambda: self.served.rows(sql) == wanted, f"{sql} is {wanted}")


def test_two_thousand_idle_and_two_hundred_busy(serve: Any, capsys: Any) -> None:
    wanted = 2 * (IDLE + BUSY) + 1_000
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"NOT TESTED: {IDLE} idle connections want {wanted} files, and the hard limit is {hard} (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    served = serve("--idle-timeout=10m", f"--connections-max={IDLE + 2 * BUSY + 100}")
    served.run(
        "CREATE TABLE busy (w SYMBOL, n BIGINT, timestamp TIMESTAMP) TIMESTAMP(timestamp)",
        "CREATE TABLE idle (n BIGINT, timestamp TIMESTAMP) TIMESTAMP(timestamp)",
    )
    with ExitStack() as stack, ThreadPoolExecutor(BUSY) as pool:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        alone = served.memory_mb()
        idle = list(pool.map(lambda number: Idle(served, number), range(IDLE)))
        for each in idle:
            stack.callback(each.close)
        list(pool.map(Idle.ask, idle))
        held = served.memory_mb()
        assert counter(served, "connections_open") >= IDLE
        begun = time.monotonic()
        list(pool.map(lambda number: Busy(served, number).run(), range(BUSY)))
        took, most = time.monotonic() - begun, served.memory_mb()
        total = BUSY * REQUESTS * ROWS
        asked = "SELECT count(*), count(DISTINCT n), sum(n), count(DISTINCT w) FROM busy"
        assert served.rows(asked) == [[total, total, total * (total - 1) // 2, BUSY]]
        list(pool.map(Idle.ask, idle))
        lines = [each.number for each in idle if each.kind == "ilp"]
        wanted_rows = [[2 * len(lines), 2 * sum(lines)]]
        until(lambda: served.rows("SELECT count(*), sum(n) FROM idle") == wanted_rows, "lines of all")
        assert counter(served, "connections_refused_total") == 0
    with capsys.disabled():
        print(
            f"\nresident: {alone:.0f} MB alone, {held:.0f} MB with {IDLE} idle connections, {most:.0f} MB with {BUSY} busy"
            f" ones too; {BUSY * REQUESTS} writes and as many reads took {took:.1f} s"
        )
    until(lambda: counter(served, "connections_open") <= 2, "closed connections are let go")
    assert held - alone < 1_000, "idle connections take half a megabyte each"
    assert served.stop() == 0


def chunk(first: int, rows: int) -> bytes:
    """Rows whose columns say the same."""
    row = b'fast,s=S%d n=%di,m=%di,text="%d" %d\n'
    return b"".join(row % (n % 7, n, 2 * n, n, n + 1) for n in range(first, first + rows))


def test_a_hundred_readers_beside_a_writer(serve: Any, capsys: Any) -> None:
    served = serve()
    served.run("CREATE TABLE fast (s SYMBOL, n BIGINT, m BIGINT, text VARCHAR, timestamp TIMESTAMP) TIMESTAMP(timestamp)")
    rows, piece, done = 0, 20_000, threading.Event()
    reads = [0] * READERS

    def read(reader: int) -> None:
        last = 0
        with connect(served) as db:
            while not done.is_set():
                found = db.execute("SELECT n, m, s, text, timestamp_ns FROM latest LIMIT 20").fetchall()
                for n, m, s, text, at in found:
                    assert (m, s, text, at) == (2 * n, f"S{n % 7}", str(n), n + 1), "a row is in pieces"
                counted = db.execute("SELECT count(*), max(n) FROM fast").fetchone()
                assert counted is not None
                count, greatest = counted
                assert count == (0 if greatest is None else greatest + 1), "a row is missing among those before it"
                assert count >= last and (not found or found[0][0] < count), "rows that were there are gone"
                last = count
                reads[reader] += 1

    latest = "SELECT n, m, s, text, CAST(timestamp AS BIGINT) AS timestamp_ns FROM fast ORDER BY timestamp DESC"
    served.run(f"CREATE VIEW latest AS {latest}")
    with ThreadPoolExecutor(READERS) as pool, dial(served, "ilp_port") as stream:
        readers = [pool.submit(read, reader) for reader in range(READERS)]
        begun = time.monotonic()
        try:
            while time.monotonic() < begun + max(3, WITHSTAND_S):
                stream.sendall(chunk(rows, piece))
                rows += piece
            until(lambda: served.rows("SELECT count(*) FROM fast") == [[rows]], "all rows are stored")
            took = time.monotonic() - begun
        finally:
            done.set()
        for reader in readers:
            reader.result()
    with capsys.disabled():
        print(f"\n{rows} rows in {took:.1f} s beside {READERS} readers, which asked {min(reads)} to {max(reads)} times each")
    assert min(reads) > 0, "a reader was never answered"
    assert served.stop() == 0
    assert serve().rows("SELECT count(*), count(DISTINCT n), sum(n), sum(m) FROM fast") == [
        [rows, rows, rows * (rows - 1) // 2, rows * (rows - 1)]
    ]
