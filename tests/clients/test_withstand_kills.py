"""The server is killed while clients of every protocol write: what was acknowledged is there, nothing is there in part, and
what a client sends again into a table with DEDUP keys is there once."""

import datetime
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pytest
import questdb
import requests
from pyarrow import flight
from serving import PATIENCE_S, WITHSTAND_S, Server, new_random, until

WRITERS = 3
# Rows of a batch, which is one request, statement, transaction or message.
BATCH = 100
ROUNDS = 2
# The batches of a writer before those of the next.
NUMBERS = 1_000_000
COLUMNS = "(timestamp TIMESTAMP, w SYMBOL, n BIGINT) TIMESTAMP(timestamp) PARTITION BY DAY DEDUP UPSERT KEYS (timestamp, w)"

Write = Callable[[int], None]
Protocol = Callable[[Server], AbstractContextManager[Write]]


def times(number: int) -> list[int]:
    """The nanoseconds of a batch's rows; those of all batches are several days."""
    return [(number * BATCH + row) * 1_000_000 for row in range(BATCH)]


def writer_of(number: int) -> str:
    return f"w{number // NUMBERS}"


def iso(nanos: int) -> str:
    return datetime.datetime.fromtimestamp(nanos / 1e9, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def columns(number: int) -> pa.Table:
    of = pa.array([writer_of(number)] * BATCH).dictionary_encode()
    return pa.table({"timestamp": pa.array(times(number), pa.timestamp("ns")), "w": of, "n": np.full(BATCH, number)})


def lines(number: int, table: str) -> str:
    return "".join(f"{table},w={writer_of(number)} n={number}i {at}\n" for at in times(number))


def values(number: int) -> str:
    return ", ".join(f"('{iso(at)}', '{writer_of(number)}', {number})" for at in times(number))


@contextmanager
def ilp_http(served: Server) -> Iterator[Write]:
    """A request over two tables."""
    with requests.Session() as session:

        def write(number: int) -> None:
            url = f"http://127.0.0.1:{served.ports['http_port']}/write"
            body = lines(number, "t") + lines(number, "u")
            session.post(url, body, timeout=PATIENCE_S).raise_for_status()

        yield write


@contextmanager
def imp(served: Server) -> Iterator[Write]:
    """An upload of CSV."""
    with requests.Session() as session:

        def write(number: int) -> None:
            url = f"http://127.0.0.1:{served.ports['http_port']}/imp?name=t&fmt=json"
            rows = "".join(f"{iso(at)},{writer_of(number)},{number}\n" for at in times(number))
            answer = session.post(url, "timestamp,w,n\n" + rows, timeout=PATIENCE_S)
            answer.raise_for_status()
            assert answer.json()["rowsImported"] == BATCH, answer.text

        yield write


@contextmanager
def qwp(served: Server) -> Iterator[Write]:
    """A message of QWP."""
    keys = "reconnect_max_duration_millis=1;sender_pool_max=1;"
    with questdb.connect(f"ws::addr=127.0.0.1:{served.ports['http_port']};{keys}") as db:

        def write(number: int) -> None:
            db.dataframe(columns(number), table_name="t", at="timestamp")

        yield write


def connect(served: Server) -> psycopg.Connection[Any]:
    login = f"host=127.0.0.1 port={served.ports['pg_port']} user=admin password=quest dbname=qdb"
    return psycopg.connect(login, autocommit=True)


@contextmanager
def pg_insert(served: Server) -> Iterator[Write]:
    """An INSERT that commits itself."""
    with connect(served) as db:

        def write(number: int) -> None:
            assert db.execute(f"INSERT INTO t VALUES {values(number)}".encode()).rowcount == BATCH

        yield write


@contextmanager
def pg_transaction(served: Server) -> Iterator[Write]:
    """A transaction of several statements over two tables."""
    with connect(served) as db:

        def write(number: int) -> None:
            with db.transaction():
                db.execute(f"INSERT INTO u VALUES {values(number)}".encode())
                with db.cursor().copy("COPY t FROM STDIN") as copy:
                    for at in times(number)[: BATCH // 2]:
                        copy.write_row((iso(at), writer_of(number), number))
                rest = values(number).split(", (")[BATCH // 2 :]
                db.execute(f"INSERT INTO t VALUES {', '.join('(' + row for row in rest)}".encode())

        yield write


@contextmanager
def pg_copy(served: Server) -> Iterator[Write]:
    """A COPY."""
    with connect(served) as db:

        def write(number: int) -> None:
            with db.cursor() as cursor:
                with cursor.copy("COPY t FROM STDIN") as copy:
                    for at in times(number):
                        copy.write_row((iso(at), writer_of(number), number))
                assert cursor.rowcount == BATCH

        yield write


@contextmanager
def flight_put(served: Server) -> Iterator[Write]:
    """A DoPut of two messages."""
    with flight.connect(f"grpc://127.0.0.1:{served.ports['flight_port']}") as client:

        def write(number: int) -> None:
            rows = columns(number)
            writer, _ = client.do_put(flight.FlightDescriptor.for_path("t"), rows.schema)
            with writer:
                writer.write_table(rows, max_chunksize=BATCH // 2)

        yield write


PROTOCOLS = [ilp_http, imp, qwp, pg_insert, pg_transaction, pg_copy, flight_put]


class Writers:
    """Clients that write batch after batch, and what they were told."""

    def __init__(self, protocol: Protocol) -> None:
        self.protocol = protocol
        self.acknowledged: set[int] = set()
        # The batch that each is at: the first that was not acknowledged.
        self.at = [writer * NUMBERS for writer in range(WRITERS)]
        self.faults: list[str] = []
        self.killing = threading.Event()

    def _write(self, served: Server, writer: int, batches: int) -> None:
        try:
            with self.protocol(served) as write:
                for _ in range(batches):
                    write(self.at[writer])
                    self.acknowledged.add(self.at[writer])
                    self.at[writer] += 1
        except Exception as error:  # Whatever a client says of a server that is gone.
            if not self.killing.is_set():
                self.faults.append(repr(error))

    def start(self, served: Server, batches: int = NUMBERS) -> list[threading.Thread]:
        """Begins with what was not acknowledged before."""
        self.killing.clear()
        threads = [threading.Thread(target=self._write, args=(served, each, batches)) for each in range(WRITERS)]
        for thread in threads:
            thread.start()
        return threads

    def join(self, threads: list[threading.Thread]) -> None:
        for thread in threads:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a client waits for a server that is gone"
        assert not self.faults, self.faults

    def check(self, served: Server, tables: list[str]) -> None:
        """Compares what is stored with what was acknowledged."""
        found = [dict(served.rows(f"SELECT n, count(*) FROM {table} GROUP BY n")) for table in tables]
        for rows in found:
            assert not self.acknowledged - rows.keys(), "batches that were acknowledged are lost"
            assert set(rows.values()) <= {BATCH}, f"batches are there in part or twice: {set(rows.values())}"
            assert rows.keys() - self.acknowledged <= set(self.at), "batches are there that nobody sent"
            assert rows.keys() == found[0].keys(), "half of a transaction is there"


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_a_kill_under_load(serve: Any, protocol: Protocol) -> None:
    moments = new_random()
    tables = ["t", "u"] if protocol in (ilp_http, pg_transaction) else ["t"]
    served = serve()
    served.run(*(f"CREATE TABLE {table} {COLUMNS}" for table in tables))
    writers, rounds, end = Writers(protocol), 0, time.monotonic() + WITHSTAND_S / len(PROTOCOLS)
    while rounds < ROUNDS or time.monotonic() < end:
        before = len(writers.acknowledged)
        threads = writers.start(served)
        until(lambda: len(writers.acknowledged) > before or writers.faults, "a batch is acknowledged")
        time.sleep(moments.uniform(0, 0.6))
        writers.killing.set()
        served.kill()
        writers.join(threads)
        served = serve()
        writers.check(served, tables)
        rounds += 1
    # All send again what they do not know of, be it there or not.
    writers.join(writers.start(served, batches=1))
    writers.check(served, tables)
    assert served.rows("SELECT count(*) FROM t") == [[len(writers.acknowledged) * BATCH]]
    assert served.stop() == 0


def test_lines_over_tcp_that_are_sent_again(serve: Any) -> None:
    """Nothing is acknowledged over TCP: a client that is cut off sends all of it again."""
    moments = new_random()
    sent = "".join(lines(number, "t") for number in range(2_000)).encode()
    served = serve()
    served.run(f"CREATE TABLE t {COLUMNS}")
    with socket.create_connection(("127.0.0.1", served.ports["ilp_port"])) as stream:
        killer = threading.Timer(moments.uniform(0, 0.3), served.kill)
        killer.start()
        with pytest.raises(OSError):
            while True:
                stream.sendall(sent)
    killer.join()
    served = serve()
    with socket.create_connection(("127.0.0.1", served.ports["ilp_port"])) as stream:
        stream.sendall(sent)
        time.sleep(0.2)
        assert served.stop() == 0
    served = serve()
    asked = "SELECT count(*), count(DISTINCT timestamp), sum(n) FROM t"
    assert served.rows(asked) == [[2_000 * BATCH, 2_000 * BATCH, BATCH * 1_999 * 2_000 // 2]]
    assert served.stop() == 0
