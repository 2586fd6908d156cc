"""The kinds of load that run beside each other while the server is killed, each with a ledger of what was acknowledged.

A load is a client with a thread of its own. `step` does one thing and notes it in the ledger: before it is sent, and once it
is acknowledged. After a kill, `check` compares what is stored with the ledger. What was under way may be there whole or not
at all; whichever it is, the ledger has it from then on.
"""

import datetime
import json
import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import requests
from cakedb import Driver
from serving import PATIENCE_S, Server, until

# Rows of a batch, which is one request, statement or transaction.
BATCH = 60
COLUMNS = "(timestamp TIMESTAMP, w SYMBOL, n BIGINT) TIMESTAMP(timestamp) PARTITION BY DAY"


def connect(served: Server) -> psycopg.Connection[Any]:
    login = f"host=127.0.0.1 port={served.ports['pg_port']} user=admin password=quest dbname=qdb"
    return psycopg.connect(login, autocommit=True)


def iso(nanos: int) -> str:
    return datetime.datetime.fromtimestamp(nanos / 1e9, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Load:
    """A client, and what it was told."""

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self.random = random.Random(f"{seed} {name}")

    def prepare(self, served: Server) -> None:
        """Makes the tables, once."""

    def begin(self, served: Server) -> None:
        """Connects to a server that has just started."""

    def step(self) -> None:
        """Does one thing."""
        raise NotImplementedError

    def check(self, served: Server) -> None:
        """Compares what is stored with the ledger."""


class Batches(Load):
    """Batches of rows into two tables at once, none of which has keys: what is stored twice is seen."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self.tables = [f"{name}_a", f"{name}_b"]
        self.next = 0
        self.acknowledged: set[int] = set()
        self.under_way: set[int] = set()

    def prepare(self, served: Server) -> None:
        served.run(*(f"CREATE TABLE {table} {COLUMNS}" for table in self.tables))

    def times(self) -> list[int]:
        """The nanoseconds of a batch's rows, within a week and in no order."""
        return [self.random.randrange(7 * 86_400_000) * 1_000_000 for _ in range(BATCH)]

    def write(self, number: int) -> None:
        raise NotImplementedError

    def step(self) -> None:
        number, self.next = self.next, self.next + 1
        self.under_way.add(number)
        self.write(number)
        self.acknowledged.add(number)
        self.under_way.discard(number)

    def check(self, served: Server) -> None:
        found = [dict(served.rows(f"SELECT n, count(*) FROM {table} GROUP BY n")) for table in self.tables]
        for rows in found:
            assert not self.acknowledged - rows.keys(), f"{self.name}: batches that were acknowledged are lost"
            assert set(rows.values()) <= {BATCH}, f"{self.name}: batches are there in part or twice: {set(rows.values())}"
            assert rows.keys() <= self.acknowledged | self.under_way, f"{self.name}: batches are there that nobody sent"
            assert rows.keys() == found[0].keys(), f"{self.name}: half of a transaction is there"
        self.acknowledged, self.under_way = set(found[0]), set()


class LinesOverHttp(Batches):
    """Line protocol over HTTP: a request is one transaction over both tables."""

    def begin(self, served: Server) -> None:
        self.url = f"http://127.0.0.1:{served.ports['http_port']}/write"
        self.session = requests.Session()

    def write(self, number: int) -> None:
        at = self.times()
        body = "".join(f"{table},w=w{number % 5} n={number}i {each}\n" for table in self.tables for each in at)
        self.session.post(self.url, body, timeout=PATIENCE_S).raise_for_status()


class Uploads(Batches):
    """Uploads to /imp, into one table."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self.tables = [name]

    def begin(self, served: Server) -> None:
        self.url = f"http://127.0.0.1:{served.ports['http_port']}/imp?fmt=json&name={self.name}"
        self.session = requests.Session()

    def write(self, number: int) -> None:
        rows = "".join(f"{iso(at)},w{number % 5},{number}\n" for at in self.times())
        answer = self.session.post(self.url, "timestamp,w,n\n" + rows, timeout=PATIENCE_S)
        answer.raise_for_status()
        assert answer.json()["rowsImported"] == BATCH, answer.text


class Transactions(Batches):
    """Transactions of INSERT and COPY over PostgreSQL's protocol; a third of them is rolled back."""

    def begin(self, served: Server) -> None:
        self.db = connect(served)

    def write(self, number: int) -> None:
        one, other = self.tables
        rows = [(iso(at), f"w{number % 5}", number) for at in self.times()]
        values = ", ".join(f"('{at}', '{w}', {n})" for at, w, n in rows)
        if self.random.random() < 0.3:
            with self.db.transaction(force_rollback=True):
                self.db.execute(f"INSERT INTO {one} VALUES {values}".encode())
        with self.db.transaction():
            self.db.execute(f"INSERT INTO {one} VALUES {values}".encode())
            with self.db.cursor().copy(f"COPY {other} FROM STDIN".encode()) as copy:
                for row in rows:
                    copy.write_row(row)


class LinesOverTcp(Load):
    """Line protocol over TCP, where nothing is acknowledged: what was seen stays, and the rows of a connection are the first
    that it sent, each once."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self.connection = 0
        # Of each connection the rows that must be there.
        self.seen: dict[str, int] = {}

    def prepare(self, served: Server) -> None:
        served.run(f"CREATE TABLE {self.name} {COLUMNS}")

    def begin(self, served: Server) -> None:
        self.served, self.sent = served, 0
        self.connection += 1
        self.socket = socket.create_connection(("127.0.0.1", served.ports["ilp_port"]), timeout=PATIENCE_S)

    def step(self) -> None:
        lines = []
        for _ in range(self.random.randrange(1, 300)):
            at = self.random.randrange(7 * 86_400) * 1_000_000_000
            lines.append(f"{self.name},w=c{self.connection} n={self.sent}i {at}\n")
            self.sent += 1
        self.socket.sendall("".join(lines).encode())
        if self.random.random() < 0.2:
            ((count,),) = self.served.rows(f"SELECT count(*) FROM {self.name} WHERE w = 'c{self.connection}'")
            self.seen[f"c{self.connection}"] = count
        time.sleep(0.02)

    def check(self, served: Server) -> None:
        rows = served.rows(f"SELECT w, count(*), count(DISTINCT n), max(n) + 1 FROM {self.name} GROUP BY w")
        found = {w: count for w, count, _, _ in rows}
        for w, count, different, last in rows:
            assert count == different == last, f"{self.name}: {w} has {count} rows, {different} of them different, up to {last}"
        for w, count in self.seen.items():
            assert found.get(w, 0) >= count, f"{self.name}: {w} had {count} rows, and has {found.get(w, 0)}"
        self.seen = found


class Replaced(Load):
    """A table that is replaced whole, by CREATE OR REPLACE and by uploads; its rows are always those of one generation."""

    ROWS = 2_000

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self.least = self.most = 0

    def prepare(self, served: Server) -> None:
        served.run(self.made(0))

    def made(self, generation: int) -> str:
        return (
            f"CREATE OR REPLACE TABLE {self.name} AS SELECT to_timestamp_seconds(value) AS timestamp, {generation} AS n "
            f"FROM range(0, {self.ROWS})"
        )

    def begin(self, served: Server) -> None:
        self.served = served

    def step(self) -> None:
        self.most += 1
        if self.random.random() < 0.5:
            self.served.run(self.made(self.most))
        else:
            rows = "".join(f"{iso(second * 10**9)},{self.most}\n" for second in range(self.ROWS))
            url = f"http://127.0.0.1:{self.served.ports['http_port']}/imp?fmt=json&overwrite=true&name={self.name}"
            answer = requests.post(url, "timestamp,n\n" + rows, timeout=PATIENCE_S)
            answer.raise_for_status()
        self.least = self.most
        self.check(self.served)

    def check(self, served: Server) -> None:
        ((count, first, last),) = served.rows(f"SELECT count(*), min(n), max(n) FROM {self.name}")
        assert count == self.ROWS and first == last, f"{self.name}: {count} rows of {first} to {last}"
        assert self.least <= first <= self.most, f"{self.name}: {first} is there after {self.least} was acknowledged"
        self.least = self.most = first


class Made(Load):
    """CREATE TABLE AS beside a client that writes lines into the same name: every row that was acknowledged is there, and
    the table's own rows are there all or none."""

    ROWS = 3_000

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        self.number = 0
        # By table the lines that were acknowledged, and whether its own rows were; None where that is not known.
        self.lines: dict[str, int] = {}
        self.own: dict[str, bool | None] = {}

    def begin(self, served: Server) -> None:
        self.served = served

    def write(self, table: str) -> None:
        url = f"http://127.0.0.1:{self.served.ports['http_port']}/write"
        for _ in range(self.random.randrange(5)):
            time.sleep(self.random.uniform(0, 0.05))
            requests.post(url, f"{table} n=-1i {time.time_ns()}\n", timeout=PATIENCE_S).raise_for_status()
            self.lines[table] += 1

    def make(self, table: str, failing: bool) -> None:
        bad = ", CAST(CASE WHEN value = 2900 THEN 'x' ELSE '1' END AS BIGINT) AS bad" if failing else ""
        sql = (
            f"CREATE TABLE {table} AS (SELECT to_timestamp_seconds(value) AS timestamp, value AS n{bad} "
            f"FROM range(0, {self.ROWS})) TIMESTAMP(timestamp)"
        )
        made = "error" not in self.served.ask("/exec", query=sql)
        assert not (made and failing), f"{sql}: was carried out"
        self.own[table] = made

    def step(self) -> None:
        self.number += 1
        table = f"{self.name}_{self.number}"
        self.lines[table], self.own[table] = 0, None
        failing = self.random.random() < 0.3
        with ThreadPoolExecutor(1) as beside:
            writing = beside.submit(self.write, table)
            self.make(table, failing)
            writing.result()
        if len(self.lines) > 12:
            gone = self.random.choice(sorted(self.lines))
            del self.lines[gone], self.own[gone]
            self.served.run(f"DROP TABLE IF EXISTS {gone}")

    def check(self, served: Server) -> None:
        there = {name for (name,) in served.rows("SELECT table_name FROM information_schema.tables")}
        for table, lines in list(self.lines.items()):
            own = self.own[table]
            if table not in there:
                assert not lines and not own, f"{table} is gone, with {lines} lines"
                del self.lines[table], self.own[table]
                continue
            ((rows, found),) = served.rows(f"SELECT count(*) FILTER (WHERE n >= 0), count(*) FILTER (WHERE n < 0) FROM {table}")
            right = {True: [self.ROWS], False: [0], None: [0, self.ROWS]}[own]
            assert rows in right, f"{table}: {rows} of the rows of CREATE TABLE AS, which may have {right}"
            assert lines <= found <= lines + 1, f"{table}: {found} lines, {lines} were acknowledged"
            self.lines[table], self.own[table] = found, rows > 0


class Documents(Load):
    """Documents of a stream, which become rows of a table, each once."""

    def __init__(self, name: str, seed: int) -> None:
        super().__init__(name, seed)
        # What must be there, in this order, and what may follow.
        self.known: list[int] = []
        self.sent: list[int] = []
        self.number = 0

    def prepare(self, served: Server) -> None:
        served.run(
            f"CREATE STREAM {self.name} WITH (segment_bytes = '64KB', index_documents = 50)",
            f"CREATE TABLE {self.name}_rows AS STREAM '{self.name}' FORMAT json "
            "(ts TIMESTAMP, w SYMBOL, n BIGINT) TIMESTAMP(ts) PARTITION BY DAY",
        )

    def begin(self, served: Server) -> None:
        self.driver = Driver(served.ports["stream_port"])

    def step(self) -> None:
        for _ in range(self.random.randrange(1, 200)):
            at = iso(self.random.randrange(7 * 86_400) * 10**9)
            self.number += 1
            self.sent.append(self.number)
            self.driver.append(self.name, json.dumps({"ts": at, "w": f"w{self.number % 5}", "n": self.number}).encode())
        # Answered once all that was sent is on stable storage.
        ((_, last),) = self.driver.ask(6, self.name, 2**64 - 1)
        assert json.loads(last)["n"] == self.sent[-1], f"{self.name}: the last document is {last!r}"
        self.known += self.sent
        self.sent = []

    def check(self, served: Server) -> None:
        with Driver(served.ports["stream_port"]) as driver:
            found = [json.loads(document)["n"] for _, document in driver.ask(4, self.name, 0)]
        most = self.known + self.sent
        assert len(found) >= len(self.known), f"{self.name}: {len(self.known)} documents were known, {len(found)} are there"
        assert found == most[: len(found)], f"{self.name}: other documents are there than were sent"
        self.known, self.sent = found, []
        table = f"{self.name}_rows"
        until(lambda: served.rows(f"SELECT count(*) FROM {table}")[0][0] >= len(found), f"{table} has all rows")
        rows = served.rows(f"SELECT count(*), count(DISTINCT n), coalesce(sum(n), 0) FROM {table}")
        assert rows == [[len(found), len(found), sum(found)]], f"{table}: {rows} of {len(found)} documents"
        assert served.rows(f"SELECT count(*) FROM {table}_rejected") == [[0]]
