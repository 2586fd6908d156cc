"""Statements of a terabyte by text, which are cancelled, refused, or read by nobody; what they may take."""

import json
import socket
import time
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import psycopg
import pytest
from pyarrow import flight
from serving import PATIENCE_S, Server, until
from test_withstand_kills import connect

# A terabyte as rows, and on its way to one.
AS_ROWS = "SELECT repeat('x', 1000) || value AS text FROM range(0, 1000000000)"
AS_ONE = "SELECT sum(length(repeat('x', 1000) || a.value || b.value)) FROM range(0, 1000000) a, range(0, 1000000) b"
Cancel = Callable[[], object]


@contextmanager
def over_pg(served: Server, sql: str) -> Iterator[Cancel]:
    """A request to cancel, on a connection of its own."""

    def run() -> None:
        with pytest.raises(psycopg.errors.QueryCanceled), db.cursor() as cursor:
            for number, _ in enumerate(cursor.stream(sql.encode())):
                # Slower than rows come: some are at hand always.
                if number % 100 == 0:
                    time.sleep(0.005)

    with ThreadPoolExecutor() as pool, connect(served) as db:
        running = pool.submit(run)
        yield db.cancel_safe
        running.result(PATIENCE_S)
        # The connection goes on.
        assert db.execute("SELECT 40 + 2").fetchone() == (42,)


@contextmanager
def over_socket(served: Server, request_: bytes) -> Iterator[Cancel]:
    """The client goes."""
    with socket.create_connection(("127.0.0.1", served.ports["http_port"])) as client:
        client.sendall(request_)
        yield client.close


def over_rest(served: Server, sql: str) -> AbstractContextManager[Cancel]:
    path = f"/query?query={urllib.parse.quote(sql)}"
    return over_socket(served, f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())


def over_mcp(served: Server, sql: str) -> AbstractContextManager[Cancel]:
    call = {"name": "query", "arguments": {"sql": sql}}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
    head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return over_socket(served, (head + body).encode())


@contextmanager
def over_flight(served: Server, sql: str) -> Iterator[Cancel]:
    """The driver's way to cancel."""

    def run() -> None:
        with pytest.raises(adbc_driver_manager.Error):
            cursor.execute(sql)
            while cursor.fetchmany(10_000):
                pass

    address = f"grpc://127.0.0.1:{served.ports['flight_port']}"
    with flightsql.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        with ThreadPoolExecutor() as pool:
            running = pool.submit(run)
            yield cursor.adbc_cancel
            running.result(PATIENCE_S)


class GoesOn(AssertionError):
    """A statement that was cancelled and runs."""


CANCELLED = [
    pytest.param(AS_ROWS, over_pg, id="pg-rows"),
    pytest.param(AS_ROWS, over_rest, id="rest-rows"),
    pytest.param(AS_ROWS, over_flight, id="flight-rows"),
    pytest.param(AS_ONE, over_pg, id="pg-one"),
    pytest.param(AS_ONE, over_rest, id="rest-one"),
    pytest.param(AS_ONE, over_flight, id="flight-one"),
    # It asks for no more rows than it gives.
    pytest.param(AS_ONE, over_mcp, id="mcp-one"),
]


@pytest.mark.parametrize(("sql", "over"), CANCELLED)
def test_a_terabyte_is_cancelled(serve: Any, sql: str, over: Callable[..., AbstractContextManager[Cancel]]) -> None:
    served = serve("--query-memory=256MB")
    assert served.rows("SELECT length(repeat('x', 1000) || value) FROM range(0, 1)") == [[1001]]
    before = served.memory_mb()
    with over(served, sql) as cancel:
        try:
            until(lambda: served.running("repeat("), "the statement runs")
            end = time.monotonic() + 1
            while time.monotonic() < end:
                begun = time.monotonic()
                assert served.rows("SELECT 40 + 2") == [[42]]
                assert time.monotonic() < begun + 2, "others wait for it"
                assert served.memory_mb() - before < 256, "it takes more than query_memory"
            assert served.running("repeat("), "it ended by itself"
            cancel()
            # Who is sent nothing may have closed its side alone: 5 s pass until that counts as gone.
            end = time.monotonic() + (10 if over in (over_mcp, over_rest) else 5)
            while served.running("repeat("):
                if time.monotonic() > end:
                    raise GoesOn
                time.sleep(0.02)
        except BaseException:
            # Its client would wait for ever.
            served.kill()
            raise
    until(lambda: served.memory_mb() - before < 150, "memory comes back")
    assert served.stop() == 0


ONE_TEXT = [
    pytest.param("SELECT length(string_agg(repeat('x', 1000) || value, '')) FROM range(0, 1000000000)", id="rows"),
    pytest.param("SELECT string_agg(repeat('x', 1000000), '') FROM range(0, 1000000)", id="constant"),
    pytest.param("SELECT count(DISTINCT repeat('x', 1000000)) FROM range(0, 10000)", id="distinct"),
    pytest.param("SELECT max(CASE WHEN value > 1 THEN repeat('x', 1000000) ELSE 'a' END) FROM range(0, 10000)", id="case"),
]


@pytest.mark.parametrize("sql", ONE_TEXT)
def test_a_terabyte_in_one_text_is_refused(serve: Any, sql: str) -> None:
    served = serve("--query-memory=100MB")
    before = served.memory_mb()
    with connect(served) as db:
        for _ in range(8):
            # Out of memory, or longer than a text can be.
            with pytest.raises((psycopg.errors.OutOfMemory, psycopg.errors.ProgramLimitExceeded)):
                db.execute(sql.encode())
            assert db.execute("SELECT 40 + 2").fetchone() == (42,)
            # The allocator keeps what statements held for the next, and not more each time.
            assert served.memory_mb() - before < 700
    assert served.stop() == 0


def test_a_connection_with_many_statements_that_nobody_reads(serve: Any) -> None:
    served = serve("--query-memory=100MB")
    assert served.rows("SELECT length(repeat('x', 1000) || value) FROM range(0, 1)") == [[1001]]
    before = served.memory_mb()
    with flight.connect(f"grpc://127.0.0.1:{served.ports['flight_port']}") as client:
        readers = [client.do_get(flight.Ticket(AS_ROWS.encode())) for _ in range(20)]
        end, most = time.monotonic() + 1, 0.0
        while time.monotonic() < end:
            assert served.rows("SELECT 40 + 2") == [[42]]
            most = max(most, served.memory_mb() - before)
        for reader in readers:
            reader.cancel()
    until(lambda: not served.running("repeat("), "statements end with their clients")
    assert served.stop() == 0
    assert most < 100 + 200, "rows that wait for a client are not counted"
