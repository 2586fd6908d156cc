"""Clients that do not behave: half-open ones, ones that dribble a byte at a time, ones that ask and never read."""

import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import questdb
import requests
from pyarrow import flight
from serving import PATIENCE_S, Server, until

# What the settings of these servers say, and how much longer it may take on a slow machine.
IDLE_S = SEND_S = 1
LATE_S = 8
LIMITS = [f"--idle-timeout={IDLE_S}s", f"--send-timeout={SEND_S}s"]
# Connections of each kind.
COPIES = 10
DRIBBLE_S = 0.1

POST = b"POST /write HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
UPGRADE = (
    b"GET /write/v4 HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
PAIRS = b"user\0admin\0database\0qdb\0application_name\0" + b"x" * 1_000 + b"\0\0"
STARTUP = struct.pack("!ii", 8 + len(PAIRS), 3 << 16) + PAIRS
TLS = struct.pack("!ii", 8, 80877103)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
LONG = b"x" * 1_000

# What never becomes a request: the port, what is sent at once, and what is dribbled after it.
UNFINISHED = [
    ("http_port", b"", b""),
    ("http_port", b"GET /exec", b""),
    ("http_port", b"GET /exec?query=", LONG),
    ("http_port", POST % 100 + b"t n", b""),
    ("http_port", UPGRADE, b""),
    ("http_port", b"", UPGRADE[:100]),
    ("influx_port", b"", b""),
    ("influx_port", b"POST /api/v2/write?bucket=", LONG),
    ("influx_port", POST % 100 + b"t n", b""),
    ("pg_port", b"", b""),
    ("pg_port", STARTUP[:10], b""),
    ("pg_port", b"", STARTUP),
    ("pg_port", TLS, b""),
    ("flight_port", b"", b""),
    ("flight_port", PREFACE[:5], b""),
    ("flight_port", b"", PREFACE),
    ("flight_port", PREFACE + SETTINGS, b""),
]
QUERY = b"SELECT 40 + 2 AS answer, 'dribbled'\0"
LINE = b"slow text=\"a long line, dribbled\",n=7i %d\n"
# What does, slower than `idle_timeout` but never silent for so long: what is sent, and what the answer has.
FINISHED = [
    (("http_port", POST % len(LINE % 1), LINE % 1), b"204 No Content"),
    (("pg_port", STARTUP, b"Q" + struct.pack("!i", 4 + len(QUERY)) + QUERY), b"dribbled"),
    (("ilp_port", b"", LINE % 2), b""),
]


class Dribbler:
    """A connection over which a byte comes now and then."""

    def __init__(self, served: Server, port: str, begin: bytes, rest: bytes) -> None:
        self.name = f"{port} after {begin[-30:]!r} and {rest[:10]!r}…"
        self.socket = socket.create_connection(("127.0.0.1", served.ports[port]), timeout=PATIENCE_S)
        self.socket.sendall(begin)
        self.rest = rest
        self.answer = b""
        self.begun, self.is_over = time.monotonic(), False

    def go_on(self) -> None:
        """Sends a byte and reads what came."""
        try:
            if self.rest:
                self.socket.sendall(self.rest[:1])
                self.rest = self.rest[1:]
            while select.select([self.socket], [], [], 0)[0]:
                piece = self.socket.recv(65_536)
                self.answer += piece
                if not piece:
                    self.is_over = True
                    return
        except OSError:
            self.is_over = True


def connect(served: Server, **more: Any) -> psycopg.Connection[Any]:
    login = f"host=127.0.0.1 port={served.ports['pg_port']} user=admin password=quest dbname=qdb"
    return psycopg.connect(login, autocommit=True, **more)


class Others:
    """A client of each port that behaves, beside those that do not."""

    def __init__(self, served: Server) -> None:
        self.served = served
        self.longest, self.asked = 0.0, 0
        self.faults: list[BaseException] = []
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._ask)

    def _ask(self) -> None:
        try:
            while not self.done.is_set():
                begun = time.monotonic()
                assert self.served.rows("SELECT 40 + 2") == [[42]]
                assert self.served.ask("/write", b"others n=1i\n") is None
                with connect(self.served) as db:
                    assert db.execute("SELECT 40 + 2").fetchone() == (42,)
                with flight.connect(f"grpc://127.0.0.1:{self.served.ports['flight_port']}") as client:
                    assert client.do_get(flight.Ticket(b"SELECT 42 AS n")).read_all().to_pylist() == [{"n": 42}]
                self.longest = max(self.longest, time.monotonic() - begun)
                self.asked += 1
        except BaseException as fault:
            self.faults.append(fault)

    def __enter__(self) -> "Others":
        self.thread.start()
        until(lambda: self.asked > 5 or self.faults, "the others are answered")
        return self

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join(PATIENCE_S)
        assert not self.faults, self.faults
        assert self.asked > 0 and self.longest < 5, f"{self.asked} rounds, the longest took {self.longest:.1f} s"
        assert self.served.rows("SELECT count(*) FROM others") == [[self.asked]]


def test_half_open_clients_and_ones_that_dribble(serve: Any) -> None:
    served = serve(*LIMITS)
    served.run(
        "CREATE TABLE slow (text VARCHAR, n BIGINT, timestamp TIMESTAMP) TIMESTAMP(timestamp)",
        "CREATE TABLE paused (n BIGINT, timestamp TIMESTAMP) TIMESTAMP(timestamp)",
    )
    with Others(served):
        cut_off = [Dribbler(served, *kind) for kind in UNFINISHED for _ in range(COPIES)]
        kept = [(Dribbler(served, *kind), answer) for kind, answer in FINISHED for _ in range(COPIES)]
        # Half a line, and silence: a feed may pause.
        paused = [Dribbler(served, "ilp_port", b"paused n=1", b"") for _ in range(COPIES)]
        dribblers = cut_off + [each for each, _ in kept] + paused
        end = time.monotonic() + IDLE_S + LATE_S
        while time.monotonic() < end and any(not each.is_over for each in cut_off) | any(each.rest for each, _ in kept):
            for each in dribblers:
                if not each.is_over:
                    each.go_on()
            time.sleep(DRIBBLE_S)
        for each in paused:
            each.socket.sendall(b"i\n")
        asked = "SELECT (SELECT count(*) FROM slow), (SELECT sum(n) FROM paused)"
        until(lambda: served.rows(asked) == [[2 * COPIES, COPIES]], "lines that were dribbled are stored")
        open_still = {each.name for each in cut_off if not each.is_over}
        assert not open_still, f"not cut off: {open_still}"
        for each, answer in kept:
            each.go_on()
            assert not each.is_over and answer in each.answer, f"{each.name}: {each.answer!r}"
    for each in dribblers:
        each.socket.close()
    assert served.stop() == 0


def is_looked_after(served: Server, port: str, client: socket.socket) -> bool:
    """Whether the system asks a silent client of this connection whether it is there (TCP keep-alive)."""
    ours, theirs = (f":{number:04X}" for number in (served.ports[port], client.getsockname()[1]))
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, _, timer, *_ = line.split()
        if local.endswith(ours) and remote.endswith(theirs):
            return timer.startswith("02:")
    raise LookupError("no such connection")


@pytest.mark.parametrize(("port", "begin"), [("pg_port", STARTUP), ("ilp_port", b"t n=1i\n")])
def test_silent_clients_are_asked_whether_they_are_there(server: Any, port: str, begin: bytes) -> None:
    """Ports whose clients may be silent for as long as they like."""
    with socket.create_connection(("127.0.0.1", server.ports[port])) as client:
        client.sendall(begin)
        until(lambda: server.rows("SELECT 42") == [[42]], "the server is there")
        time.sleep(0.2)
        assert is_looked_after(server, port, client)


# Rows of a terabyte together.
ENDLESS = "SELECT repeat('x', 1000) || value AS text FROM range(0, 1000000000)"
ASKING = "import sys; from pyarrow import flight; client = flight.connect(sys.argv[1]); "
ASKING += "client.do_get(flight.Ticket(sys.argv[2].encode())).read_chunk(); print(flush=True); sys.stdin.read()"


@contextmanager
def pg(served: Server, statement: str = ENDLESS) -> Iterator[None]:
    with connect(served) as db:
        db.pgconn.send_query(statement.encode())
        yield
        db.close()


def pg_copy(served: Server) -> AbstractContextManager[None]:
    return pg(served, f"COPY ({ENDLESS}) TO STDOUT")


def over_http(served: Server, path: str) -> AbstractContextManager[requests.Response]:
    url = f"http://127.0.0.1:{served.ports['http_port']}{path}"
    return requests.get(url, {"query": ENDLESS}, stream=True, timeout=PATIENCE_S)


@contextmanager
def qwp(served: Server) -> Iterator[None]:
    with questdb.connect(f"ws::addr=127.0.0.1:{served.ports['http_port']};") as db:
        result = db.query(ENDLESS)
        batches = result.iter_arrow()
        next(batches)
        try:
            yield
        finally:
            with suppress(questdb.QuestDBError):
                result.close()


@contextmanager
def flight_get(served: Server) -> Iterator[None]:
    """One that is alive, and answers the server's pings."""
    with flight.connect(f"grpc://127.0.0.1:{served.ports['flight_port']}") as client:
        reader = client.do_get(flight.Ticket(ENDLESS.encode()))
        reader.read_chunk()
        yield
        reader.cancel()


@contextmanager
def flight_stopped(served: Server) -> Iterator[None]:
    """One whose process does not run any more."""
    address = f"grpc://127.0.0.1:{served.ports['flight_port']}"
    command = [sys.executable, "-c", ASKING, address, ENDLESS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None and child.stdout.readline() == b"\n"
            child.send_signal(signal.SIGSTOP)
            yield
        finally:
            child.kill()


class NotCutOff(AssertionError):
    """The server goes on with what nobody reads."""


UNREAD = [
    pytest.param(pg, id="pg"),
    pytest.param(pg_copy, id="pg_copy"),
    pytest.param(lambda served: over_http(served, "/exec"), id="exec"),
    pytest.param(lambda served: over_http(served, "/query"), id="query"),
    pytest.param(lambda served: over_http(served, "/exp"), id="exp"),
    pytest.param(qwp, id="qwp"),
    pytest.param(flight_get, id="flight"),
    pytest.param(flight_stopped, id="flight_stopped"),
]


@pytest.mark.parametrize("ask", UNREAD)
def test_a_client_that_asks_and_never_reads(serve: Any, ask: Callable[[Server], AbstractContextManager[Any]]) -> None:
    served = serve(*LIMITS)
    with Others(served):
        before = most = served.memory_mb()
        begun = time.monotonic()
        with ask(served):
            # On a busy machine it may be over by now.
            until(lambda: served.running("range(") or time.monotonic() > begun + SEND_S, "the statement runs")
            begun = time.monotonic()
            while served.running("range("):
                most = max(most, served.memory_mb())
                if time.monotonic() > begun + SEND_S + 3:
                    raise NotCutOff("the statement goes on")
                time.sleep(0.05)
        assert most - before < 150, f"{most - before:.0f} MB for rows that nobody reads"
    assert served.stop() == 0


def test_a_statement_that_nobody_reads_ends_with_its_client(serve: Any) -> None:
    """Also on the ports that have no time limit; what waits for it meanwhile is bounded."""
    served = serve()
    with Others(served):
        before = served.memory_mb()
        with over_http(served, "/query"), flight_get(served):
            time.sleep(2)
            assert len(served.running("range(")) == 2
            assert served.memory_mb() - before < 250
        until(lambda: not served.running("range("), "statements end with their clients")
    assert served.stop() == 0


ANSWER = b"SELECT repeat('x', 50000)\0"
PIPELINES = [
    pytest.param("pg_port", STARTUP, b"Q" + struct.pack("!i", 4 + len(ANSWER)) + ANSWER, id="pg"),
    pytest.param("http_port", b"", b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n", id="http"),
]


@pytest.mark.parametrize(("port", "begin", "request_"), PIPELINES)
def test_a_client_that_goes_on_asking_and_never_reads(serve: Any, port: str, begin: bytes, request_: bytes) -> None:
    served = serve(*LIMITS)
    with Others(served), socket.socket() as client:
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            client.setsockopt(socket.SOL_SOCKET, buffer, 16_384)
        client.connect(("127.0.0.1", served.ports[port]))
        client.settimeout(SEND_S + 3)
        try:
            while True:
                client.sendall(begin + request_ * 100)
                begin = b""
        except TimeoutError:
            raise NotCutOff("the connection is kept") from None
        except ConnectionError:
            pass
    assert served.stop() == 0
