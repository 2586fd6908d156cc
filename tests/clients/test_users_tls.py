"""Users, passwords and tokens over TLS, with the clients of other systems: the server takes TLS alone.

For each client: it connects as a user, reads or writes what it is granted, and is refused the rest; a wrong password or
token is refused, and so is the same client in the clear.
"""

import asyncio
import base64
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager
import adbc_driver_postgresql.dbapi as adbc_postgresql
import asyncpg
import psycopg
import pyarrow
import pyarrow.flight
import pytest
import questdb
import sqlalchemy
import tickstone
import tickstone.dbapi
from adbc_driver_flightsql import DatabaseOptions
from influxdb_client import InfluxDBClient, Point
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException
from questdb import QuestDBError, QuestDBErrorCode, Sender, TimestampNanos
from serving import Server, until
from sqlalchemy.ext.asyncio import create_async_engine
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

# With what a URL, a configuration string of QuestDB and a Basic header have to escape.
PASSWORDS = {"root": "r\u00f6\u00f6t", "ann": "it's 5% @/?#", "feed": "f:eed;"}
GRANTED = "SELECT sym, px FROM t"
HIDDEN = "SELECT sym, px FROM secret"
INSERT = "INSERT INTO t VALUES ('2024-02-01', 'A', 3.5)"
# No settings of whoever runs the tests.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "SSL_", "TICKSTONE_"))}


@dataclass(frozen=True)
class Desk:
    """A server that takes TLS alone, the file of its authority, a token of each user, and a key (ES256) of feed."""

    server: Server
    ca: Path
    tokens: dict[str, str]
    key: dict[str, str]

    def port(self, name: str) -> int:
        return self.server.ports[f"{name}_port"]

    def at(self, scheme: str, port: str) -> str:
        return f"{scheme}://localhost:{self.port(port)}"

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.ca))

    def prices(self, sym: str, table: str = "t", column: str = "sym") -> list[float]:
        """The stored prices of a symbol, as the admin reads them."""
        with psycopg.connect(**postgres(self, "root")) as root:
            return [px for (px,) in root.execute(f'SELECT px FROM "{table}" WHERE {column} = %s ORDER BY ts', (sym,))]


@pytest.fixture
def desk(program: Path, tmp_path: Path, serve: Callable[..., Server]) -> Desk:
    """Ann reads, and hears of, some rows of t, and feed adds rows to it; both may do nothing with the table secret."""
    certificates = tmp_path / "certificates"
    subprocess.run([program, "cert", "--out", certificates], check=True, capture_output=True)
    command = [program, "user", "add", "root", "--admin", "--data", tmp_path / "data"]
    subprocess.run(command, input=PASSWORDS["root"] + "\n", check=True, capture_output=True, text=True)
    files = {"certificate": "server.pem", "key": "server-key.pem"}
    settings = [f"--tls-{setting}={certificates / name}" for setting, name in files.items()]
    served = serve(*settings, "--require-tls=true")
    made = Desk(served, certificates / "ca.pem", {}, {})
    with psycopg.connect(**postgres(made, "root")) as root:
        for table in ("t", "secret"):
            root.execute(f"CREATE TABLE {table} (ts TIMESTAMP, sym SYMBOL, px DOUBLE) TIMESTAMP(ts)")
            root.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 'A', 1.5), ('2024-01-02', 'B', 2.5)")
        for user in ("ann", "feed"):
            root.execute(psycopg.sql.SQL(f"CREATE USER {user} PASSWORD {{}}").format(PASSWORDS[user]))
        root.execute("GRANT SELECT, SUBSCRIBE ON t WHERE sym = 'A' TO ann")
        root.execute("GRANT INSERT ON t TO feed")
        for user in PASSWORDS:
            made.tokens[user] = root.execute(f"CREATE TOKEN of_{user} FOR {user}").fetchone()[0]  # type: ignore[index]
        pair = root.execute("CREATE TOKEN pair FOR feed TYPE ES256")
        names = [column.name for column in pair.description or []]
        made.key.update(zip(names, pair.fetchone() or (), strict=True))
    return made


def postgres(desk: Desk, user: str, **more: Any) -> dict[str, Any]:
    return {
        "host": "localhost", "port": desk.port("pg"), "dbname": "qdb", "user": user, "password": PASSWORDS[user],
        "sslmode": "verify-full", "sslrootcert": str(desk.ca), "autocommit": True, **more,
    }  # fmt: skip


def basic(user: str, password: str | None = None) -> str:
    both = f"{user}:{PASSWORDS[user] if password is None else password}"
    return "Basic " + base64.b64encode(both.encode()).decode()


# PostgreSQL's clients.


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is missing: sh scripts/setup.sh clients")
def test_psql(desk: Desk) -> None:
    def psql(sql: str, password: str = PASSWORDS["ann"], **more: str) -> tuple[int, str, str]:
        words = {
            "host": "localhost", "port": str(desk.port("pg")), "user": "ann", "dbname": "qdb",
            "sslmode": "verify-full", "sslrootcert": str(desk.ca), **more,
        }  # fmt: skip
        conninfo = " ".join(f"{name}={value}" for name, value in words.items())
        environment = ENVIRONMENT | {"PGPASSWORD": password, "LC_ALL": "C.UTF-8"}
        command = ["psql", "-XAt", "-v", "VERBOSITY=verbose", "-c", sql, conninfo]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
        return done.returncode, done.stdout, done.stderr

    assert psql(GRANTED) == (0, "A|1.5\n", "")
    assert "TLS" in psql("\\conninfo")[1] or "SSL" in psql("\\conninfo")[1]
    code, told, error = psql(HIDDEN)
    assert (code, told) == (1, "") and "42P01" in error and "'secret' does not exist" in error
    code, told, error = psql(INSERT)
    assert (code, told) == (1, "") and "42501" in error and "may not INSERT" in error
    code, told, error = psql(GRANTED, "wrong")
    assert (code, told) == (2, "") and "wrong user or password for 'ann'" in error
    code, told, error = psql(GRANTED, sslmode="disable")
    assert (code, told) == (2, "") and "connect with sslmode=require" in error


def test_psycopg(desk: Desk) -> None:
    with psycopg.connect(**postgres(desk, "ann")) as ann:
        assert ann.info.pgconn.ssl_in_use and ann.info.pgconn.used_password
        assert ann.execute("SELECT current_user").fetchone() == ("ann",)
        assert ann.execute(f"{GRANTED} WHERE px < %s", (10,)).fetchall() == [("A", 1.5)]
        with pytest.raises(psycopg.errors.UndefinedTable, match="'secret' does not exist"):
            ann.execute(HIDDEN)
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="may not INSERT"):
            ann.execute(INSERT)
        # Another connection, which proves no password, carries the key that cancels.
        ann.cancel_safe()
    with psycopg.connect(**postgres(desk, "feed")) as feed, feed.cursor() as cursor:
        with cursor.copy("COPY t FROM STDIN") as copy:
            copy.write_row(("2024-02-01", "P", 4.5))
        with pytest.raises(psycopg.errors.UndefinedTable, match="'secret' does not exist"):
            with cursor.copy("COPY secret FROM STDIN") as copy:
                copy.write_row(("2024-02-01", "P", 4.5))
    assert desk.prices("P") == [4.5] and desk.prices("P", "secret") == []
    for wrong in [{"password": "wrong"}, {"user": "nobody"}, {"password": PASSWORDS["feed"]}]:
        with pytest.raises(psycopg.OperationalError, match="wrong user or password for"):
            psycopg.connect(**postgres(desk, "ann") | wrong)
    with pytest.raises(psycopg.OperationalError, match="connect with sslmode=require"):
        psycopg.connect(**postgres(desk, "ann", sslmode="disable"))
    # TLS from the first byte on, which libpq knows since PostgreSQL 17.
    if psycopg.pq.version() >= 170_000:
        with psycopg.connect(**postgres(desk, "ann", sslnegotiation="direct")) as ann:
            assert ann.execute(GRANTED).fetchall() == [("A", 1.5)]


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("binding", ["disable", "prefer", "require"])
def test_channel_binding(desk: Desk, binding: str, version: str) -> None:
    words = {"channel_binding": binding, "ssl_min_protocol_version": version, "ssl_max_protocol_version": version}
    with psycopg.connect(**postgres(desk, "ann", **words)) as ann:
        assert ann.execute(GRANTED).fetchall() == [("A", 1.5)]
    with pytest.raises(psycopg.OperationalError, match="wrong user or password for"):
        psycopg.connect(**postgres(desk, "ann", **words) | {"password": "wrong"})


async def by_asyncpg(desk: Desk) -> None:
    words: dict[str, Any] = {
        "host": "localhost", "port": desk.port("pg"), "database": "qdb", "user": "ann", "password": PASSWORDS["ann"],
        "ssl": desk.trusting(),
    }  # fmt: skip
    for direct in (False, True):
        ann = await asyncpg.connect(**words, direct_tls=direct)
        try:
            assert [tuple(row) for row in await ann.fetch(f"{GRANTED} WHERE px < $1", 10.0)] == [("A", 1.5)]
            with pytest.raises(asyncpg.UndefinedTableError, match="'secret' does not exist"):
                await ann.fetch(HIDDEN)
            with pytest.raises(asyncpg.InsufficientPrivilegeError, match="may not INSERT"):
                await ann.execute(INSERT)
        finally:
            await ann.close()
    with pytest.raises(asyncpg.InvalidPasswordError, match="wrong user or password for 'ann'"):
        await asyncpg.connect(**words | {"password": "wrong"})
    with pytest.raises(asyncpg.InvalidAuthorizationSpecificationError, match="connect with sslmode=require"):
        await asyncpg.connect(**words | {"ssl": False})


def test_asyncpg(desk: Desk) -> None:
    asyncio.run(by_asyncpg(desk))


# scripts/setup.sh puts the driver beside the Python of the tests.
JAR = next(iter((Path(sys.executable).parent.parent / "jdbc").glob("postgresql-*.jar")), None)
ASK = Path(__file__).parent / "jdbc" / "Ask.java"


@pytest.mark.skipif(
    JAR is None or shutil.which("javac") is None, reason="Java or the driver is missing: sh scripts/setup.sh clients"
)
def test_jdbc(desk: Desk) -> None:
    def url(**more: str) -> str:
        words = {"sslmode": "verify-full", "sslrootcert": str(desk.ca), **more}
        return f"jdbc:{desk.at('postgresql', 'pg')}/qdb?" + "&".join(f"{name}={quote(words[name])}" for name in words)

    right, feed = ["ann", PASSWORDS["ann"]], ["feed", PASSWORDS["feed"]]
    asked: list[tuple[list[str], str, str]] = [
        ([url(), *right, "SELECT px FROM t"], "rows", "1.5"),
        ([url(), *right, "SELECT current_user"], "rows", "ann"),
        ([url(channelBinding="require"), *right, "SELECT px FROM t"], "rows", "1.5"),
        ([url(channelBinding="disable"), *right, "SELECT px FROM t"], "rows", "1.5"),
        ([url(), *right, "SELECT px FROM secret"], "42P01", "'secret' does not exist"),
        ([url(), *feed, "SELECT px FROM t"], "42501", "may not SELECT"),
        ([url(), *right, INSERT], "42501", "may not INSERT"),
        ([url(), "ann", "wrong", "SELECT px FROM t"], "28P01", "wrong user or password for 'ann'"),
        ([url(), "nobody", PASSWORDS["ann"], "SELECT px FROM t"], "28P01", "wrong user or password for 'nobody'"),
        ([url(sslmode="disable"), *right, "SELECT px FROM t"], "28000", "connect with sslmode=require"),
    ]
    java = ["java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-cp", str(JAR), str(ASK)]
    command = java + [word for words, *_ in asked for word in words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    for line, (words, state, wanted) in zip(done.stdout.splitlines(), asked, strict=True):
        found, told = line.split("\t", 1)
        assert found == state and (told == wanted if state == "rows" else wanted in told), (words, line)


def test_adbc_postgresql(desk: Desk) -> None:
    def ask(sql: str, password: str = PASSWORDS["ann"], sslmode: str = "verify-full") -> list[Any]:
        uri = f"postgresql://ann:{quote(password, safe='')}@localhost:{desk.port('pg')}/qdb"
        uri = f"{uri}?sslmode={sslmode}&sslrootcert={quote(str(desk.ca), safe='')}"
        with adbc_postgresql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            found: list[Any] = cursor.fetchall()
            return found

    assert ask(GRANTED) == [("A", 1.5)]
    with pytest.raises(adbc_driver_manager.ProgrammingError, match="'secret' does not exist"):
        ask(HIDDEN)
    with pytest.raises(adbc_driver_manager.Error, match="wrong user or password for 'ann'"):
        ask(GRANTED, password="wrong")
    with pytest.raises(adbc_driver_manager.Error, match="connect with sslmode=require"):
        ask(GRANTED, sslmode="disable")


def test_sqlalchemy(desk: Desk) -> None:
    def url(driver: str, password: str, **query: str) -> sqlalchemy.URL:
        return sqlalchemy.URL.create(driver, "ann", password, "localhost", desk.port("pg"), "qdb", query)

    def ask(sql: str, password: str = PASSWORDS["ann"], sslmode: str = "verify-full") -> list[Any]:
        address = url("postgresql+psycopg", password, sslmode=sslmode, sslrootcert=str(desk.ca))
        engine = sqlalchemy.create_engine(address)
        try:
            with engine.connect() as connection:
                return [tuple(row) for row in connection.execute(sqlalchemy.text(sql))]
        finally:
            engine.dispose()

    async def by_asyncpg(sql: str, password: str = PASSWORDS["ann"], context: Any = None) -> list[Any]:
        arguments = {"ssl": desk.trusting() if context is None else context}
        engine = create_async_engine(url("postgresql+asyncpg", password), connect_args=arguments)
        try:
            async with engine.connect() as connection:
                return [tuple(row) for row in await connection.execute(sqlalchemy.text(sql))]
        finally:
            await engine.dispose()

    assert ask(GRANTED) == [("A", 1.5)]
    with pytest.raises(sqlalchemy.exc.ProgrammingError, match="'secret' does not exist"):
        ask(HIDDEN)
    with pytest.raises(sqlalchemy.exc.OperationalError, match="wrong user or password for 'ann'"):
        ask(GRANTED, password="wrong")
    with pytest.raises(sqlalchemy.exc.OperationalError, match="connect with sslmode=require"):
        ask(GRANTED, sslmode="disable")
    assert asyncio.run(by_asyncpg(GRANTED)) == [("A", 1.5)]
    with pytest.raises(sqlalchemy.exc.ProgrammingError, match="'secret' does not exist"):
        asyncio.run(by_asyncpg(HIDDEN))
    with pytest.raises((sqlalchemy.exc.DBAPIError, asyncpg.InvalidPasswordError), match="wrong user or password for 'ann'"):
        asyncio.run(by_asyncpg(GRANTED, password="wrong"))
    refused = (sqlalchemy.exc.DBAPIError, asyncpg.InvalidAuthorizationSpecificationError)
    with pytest.raises(refused, match="connect with sslmode=require"):
        asyncio.run(by_asyncpg(GRANTED, context=False))


# QuestDB's clients.


def send(conf: str, sym: str, table: str = "t") -> None:
    with Sender.from_conf(conf) as sender:
        sender.row(table, symbols={"sym": sym}, columns={"px": 4.5}, at=TimestampNanos.now())


def sender_conf(desk: Desk, scheme: str, port: str, **words: str) -> str:
    """A configuration string, which writes ; within a value twice."""
    words = words | ({"tls_roots": str(desk.ca)} if scheme in ("https", "tcps", "wss") else {})
    return f"{scheme}::addr=localhost:{desk.port(port)};" + "".join(
        f"{name}={value.replace(';', ';;')};" for name, value in words.items()
    )


def test_questdb_over_https(desk: Desk) -> None:
    password = {"username": "feed", "password": PASSWORDS["feed"]}
    by = {"H": password, "T": {"token": desk.tokens["feed"]}}
    for sym, words in by.items():
        send(sender_conf(desk, "https", "http", **words), sym)
        assert desk.prices(sym) == [4.5]
        with pytest.raises(QuestDBError, match="may not CREATE") as refused:
            send(sender_conf(desk, "https", "http", **words), sym, "secret")
        assert refused.value.code == QuestDBErrorCode.AuthError
        # A client that is not told the version of the protocol asks for it first.
        with pytest.raises(QuestDBError, match="400 Bad Request"):
            send(sender_conf(desk, "http", "http", **words), "C")
        with pytest.raises(QuestDBError, match="ask https://"):
            send(sender_conf(desk, "http", "http", protocol_version="2", **words), "C")
    wrong = [password | {"password": "wrong"}, password | {"username": "nobody"}, {"token": "tick_x"}, {}]
    for words in wrong:
        with pytest.raises(QuestDBError, match="401") as refused:
            send(sender_conf(desk, "https", "http", **words), "C")
        assert refused.value.code == QuestDBErrorCode.AuthError
    for words in [{"username": "ann", "password": PASSWORDS["ann"]}, {"token": desk.tokens["ann"]}]:
        with pytest.raises(QuestDBError, match="may not INSERT") as refused:
            send(sender_conf(desk, "https", "http", **words), "C")
        assert refused.value.code == QuestDBErrorCode.AuthError
    assert desk.prices("C") == [] and desk.prices("H", "secret") == []


def test_questdb_over_tcps(desk: Desk) -> None:
    key = {name: desk.key[name] for name in ("token", "token_x", "token_y")}
    conf = sender_conf(desk, "tcps", "ilp", username="feed", **key)
    send(conf, "S")
    until(lambda: desk.prices("S") == [4.5], "the row is stored")

    def refused(conf: str, table: str = "t") -> None:
        """The protocol has no answers: the connection ends, and a later row fails."""
        with pytest.raises(QuestDBError) as error, Sender.from_conf(conf) as sender:
            for _ in range(100):
                sender.row(table, symbols={"sym": "C"}, columns={"px": 4.5}, at=TimestampNanos.now())
                sender.flush()
                time.sleep(0.1)
        assert error.value.code in (QuestDBErrorCode.SocketError, QuestDBErrorCode.AuthError), error.value

    refused(conf, "secret")
    # The key of feed is no other user's.
    refused(sender_conf(desk, "tcps", "ilp", username="root", **key))
    # No key: the first lines stand where the user's name and the signature should.
    refused(sender_conf(desk, "tcps", "ilp"))
    refused(sender_conf(desk, "tcp", "ilp", username="feed", **key))
    assert desk.prices("C") == [] and desk.prices("C", "secret") == []


def test_qwp(desk: Desk) -> None:
    def opened(scheme: str = "wss", **words: str) -> Any:
        return questdb.connect(sender_conf(desk, scheme, "http", **words))

    def write(db: Any, table: str, sym: str) -> None:
        with db.sender() as rows:
            rows.row(table, symbols={"sym": sym}, columns={"px": 4.5}, at=TimestampNanos.now())
            rows.flush(wait=True)

    for words in [{"username": "ann", "password": PASSWORDS["ann"]}, {"token": desk.tokens["ann"]}]:
        with opened(**words) as ann:
            frame = ann.query(GRANTED).to_pandas()
            assert (frame["sym"].astype(str).tolist(), frame["px"].tolist()) == (["A"], [1.5])
            with pytest.raises(QuestDBError, match="'secret' does not exist"):
                ann.query(HIDDEN).to_pandas()
            with pytest.raises(QuestDBError, match="may not INSERT"):
                write(ann, "t", "C")
    by = {"W": {"username": "feed", "password": PASSWORDS["feed"]}, "V": {"token": desk.tokens["feed"]}}
    for sym, words in by.items():
        with opened(**words) as feed:
            write(feed, "t", sym)
            with pytest.raises(QuestDBError, match="may not SELECT"):
                feed.query(GRANTED).to_pandas()
            with pytest.raises(QuestDBError, match="may not CREATE"):
                write(feed, "secret", sym)
        assert desk.prices(sym) == [4.5] and desk.prices(sym, "secret") == []
    ann_wrong, nobody = {"username": "ann", "password": "wrong"}, {"username": "nobody", "password": "x"}
    for words in [ann_wrong, nobody, {"token": "tick_x"}, {}]:
        with pytest.raises(QuestDBError) as refused, opened(**words) as db:
            db.query(GRANTED).to_pandas()
        assert refused.value.code == QuestDBErrorCode.AuthError, refused.value
    for words in [{"username": "ann", "password": PASSWORDS["ann"]}, {"token": desk.tokens["ann"]}]:
        with pytest.raises(QuestDBError, match="400"), opened("ws", **words) as db:
            db.query(GRANTED).to_pandas()
    assert desk.prices("C") == []


def test_qwp_has_a_code_for_what_a_user_may_not_do(desk: Desk) -> None:
    with questdb.connect(sender_conf(desk, "wss", "http", token=desk.tokens["ann"])) as ann:
        with pytest.raises(QuestDBError, match="may not INSERT") as refused:
            ann.query(INSERT).to_pandas()
        assert refused.value.code == QuestDBErrorCode.ServerSecurityError
        with pytest.raises(QuestDBError, match="may not INSERT") as refused, ann.sender() as rows:
            rows.row("t", symbols={"sym": "C"}, columns={"px": 4.5}, at=TimestampNanos.now())
            rows.flush(wait=True)
        assert refused.value.sender_error.category == questdb.SenderErrorCategory.SecurityError


# InfluxDB's client, and cryptofeed's back ends.


def test_influxdb(desk: Desk) -> None:
    https = desk.at("https", "influx")
    trusting = {"org": "any", "ssl_ca_cert": str(desk.ca)}

    def write(client: InfluxDBClient, table: str, sym: str) -> None:
        point = Point(table).tag("sym", sym).field("px", 4.5)
        client.write_api(write_options=SYNCHRONOUS).write(bucket="any", record=point)

    both = f"feed:{PASSWORDS['feed']}"
    ways: dict[str, dict[str, Any]] = {
        "I": {"token": desk.tokens["feed"]},
        # Of InfluxDB's first version.
        "J": {"token": both},
        "K": {"token": both, "auth_basic": True},
    }
    for sym, words in ways.items():
        with InfluxDBClient(https, **words, **trusting) as client:
            assert client.ping()
            write(client, "t", sym)
            with pytest.raises(ApiException, match="may not CREATE") as refused:
                write(client, "secret", sym)
            assert refused.value.status == 403
        assert desk.prices(sym) == [4.5] and desk.prices(sym, "secret") == []
    with InfluxDBClient(https, desk.tokens["ann"], **trusting) as client:
        with pytest.raises(ApiException, match="may not INSERT") as refused:
            write(client, "t", "C")
        assert refused.value.status == 403
    wrong: list[dict[str, Any]] = [
        {"token": "tick_x"}, {"token": "feed:wrong"}, {"token": "feed:wrong", "auth_basic": True},
    ]  # fmt: skip
    for words in wrong:
        with InfluxDBClient(https, **words, **trusting) as client:
            with pytest.raises(ApiException, match="wrong user, password or token") as refused:
                write(client, "t", "C")
            assert refused.value.status == 401
    with InfluxDBClient(https, desk.tokens["feed"], org="any") as client:
        with pytest.raises(ApiException, match="CERTIFICATE_VERIFY_FAILED"):
            write(client, "t", "C")
    with InfluxDBClient(desk.at("http", "influx"), desk.tokens["feed"], org="any") as client:
        assert not client.ping()
        with pytest.raises(ApiException, match="ask https://") as refused:
            write(client, "t", "C")
        assert refused.value.status == 400
    assert desk.prices("C") == []


# One trade through a back end: its name, address, user, password or token, and table.
TRADE = """
import asyncio, sys
from decimal import Decimal
from urllib.parse import urlsplit
from cryptofeed.backends.influxdb import TradeInflux
from cryptofeed.backends.postgres import TradePostgres
from cryptofeed.types import Trade

name, address, user, secret, table = sys.argv[1:]

async def main():
    if name == "influxdb":
        backend = TradeInflux(address, org="any", bucket="any", token=secret, key=table)
    else:
        at = urlsplit(address)
        columns = {"timestamp": "ts", "symbol": "sym", "price": "px"}
        backend = TradePostgres(at.hostname, user, secret, "qdb", at.port, table, columns)
    backend.start(asyncio.get_running_loop())
    at = 1723109400.5
    await backend(Trade("KRAKEN", "BTC-USD", "buy", Decimal("0.5"), Decimal("61500.25"), at, id="7"), at)
    stored = asyncio.ensure_future(backend.queue.join())
    await asyncio.wait({stored, backend.worker}, return_when=asyncio.FIRST_COMPLETED)
    stored.cancel()
    await backend.stop()
    await backend.worker

asyncio.run(main())
"""


def test_cryptofeed(desk: Desk) -> None:
    """The back ends for PostgreSQL and InfluxDB. Neither takes an authority or a mode of TLS: asyncpg below the one reads
    PGSSLMODE and PGSSLROOTCERT, and OpenSSL below the other SSL_CERT_FILE.

    The back end for QuestDB is not here: it opens a plain TCP connection and can neither speak TLS nor sign a challenge.
    """
    with psycopg.connect(**postgres(desk, "root")) as root:
        columns = "ts TIMESTAMP, symbol SYMBOL, side VARCHAR, price DOUBLE, amount DOUBLE, id VARCHAR, type VARCHAR"
        root.execute(f'CREATE TABLE "t-KRAKEN" ({columns}, receipt_timestamp DOUBLE, timestamp DOUBLE) TIMESTAMP(ts)')
        root.execute('GRANT INSERT ON "t-KRAKEN" TO feed')

    def collect(backend: str, address: str, secret: str, table: str, **environment: str) -> str:
        command = [sys.executable, "-c", TRADE, backend, address, "feed", secret, table]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=ENVIRONMENT | environment)
        return "" if done.returncode == 0 else done.stderr

    def stored(table: str, condition: str) -> int:
        with psycopg.connect(**postgres(desk, "root")) as root:
            return root.execute(f'SELECT count(*) FROM "{table}" WHERE {condition}').fetchone()[0]  # type: ignore[index]

    pg, tls = desk.at("postgresql", "pg"), {"PGSSLMODE": "verify-full", "PGSSLROOTCERT": str(desk.ca)}
    assert collect("postgres", pg, PASSWORDS["feed"], "t", **tls) == ""
    assert stored("t", "sym = 'BTC-USD' AND px = 61500.25") == 1
    assert "UndefinedTableError" in collect("postgres", pg, PASSWORDS["feed"], "secret", **tls)
    assert "InvalidPasswordError" in collect("postgres", pg, "wrong", "t", **tls)
    in_the_clear = collect("postgres", pg, PASSWORDS["feed"], "t", PGSSLMODE="disable")
    assert "InvalidAuthorizationSpecificationError" in in_the_clear
    assert stored("t", "sym = 'BTC-USD'") == 1 and stored("secret", "sym = 'BTC-USD'") == 0

    https, trusting = desk.at("https", "influx"), {"SSL_CERT_FILE": str(desk.ca)}
    assert collect("influxdb", https, desk.tokens["feed"], "t", **trusting) == ""
    assert stored("t-KRAKEN", "symbol = 'BTC-USD' AND price = 61500.25") == 1
    assert "failed: 403" in collect("influxdb", https, desk.tokens["feed"], "secret", **trusting)
    assert "failed: 401" in collect("influxdb", https, "tick_x", "t", **trusting)
    assert "failed: 401" in collect("influxdb", https, "feed:wrong", "t", **trusting)
    assert "failed: 400" in collect("influxdb", desk.at("http", "influx"), desk.tokens["feed"], "t", **trusting)
    assert "CERTIFICATE_VERIFY_FAILED" in collect("influxdb", https, desk.tokens["feed"], "t")
    assert stored("t-KRAKEN", "true") == 1


# Flight SQL.


def test_adbc_flight_sql(desk: Desk) -> None:
    roots = {DatabaseOptions.TLS_ROOT_CERTS.value: desk.ca.read_text()}
    of_token = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {desk.tokens['ann']}"}
    of_password = {"username": "ann", "password": PASSWORDS["ann"]}

    def opened(words: dict[str, str], scheme: str = "grpc+tls") -> Any:
        more = roots if scheme == "grpc+tls" else {}
        return flightsql.connect(desk.at(scheme, "flight"), db_kwargs=words | more, autocommit=True)

    for words in (of_password, of_token):
        with opened(words) as ann, ann.cursor() as cursor:
            cursor.execute(f"{GRANTED} WHERE px < $1", (10.0,))
            assert cursor.fetchall() == [("A", 1.5)]
            found = ann.adbc_get_objects(depth="tables").read_all().to_pylist()
            assert [table["table_name"] for table in found[0]["catalog_db_schemas"][0]["db_schema_tables"]] == ["t"]
            with pytest.raises(adbc_driver_manager.Error, match="'secret' does not exist"):
                cursor.execute(HIDDEN)
            ticks = pyarrow.table({"ts": pyarrow.array([0], pyarrow.timestamp("ns")), "sym": ["C"], "px": [4.5]})
            with pytest.raises(adbc_driver_manager.Error, match="may not INSERT"):
                cursor.adbc_ingest("t", ticks, mode="append")
    with opened({DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {desk.tokens['feed']}"}) as feed:
        with feed.cursor() as cursor:
            ticks = pyarrow.table({"ts": pyarrow.array([0], pyarrow.timestamp("ns")), "sym": ["F"], "px": [4.5]})
            assert cursor.adbc_ingest("t", ticks, mode="append") == 1
    assert desk.prices("F") == [4.5] and desk.prices("C") == []
    wrong = [
        of_password | {"password": "wrong"}, of_password | {"username": "nobody"},
        {DatabaseOptions.AUTHORIZATION_HEADER.value: "Bearer tick_x"}, {},
    ]  # fmt: skip
    for words in wrong:
        with pytest.raises(adbc_driver_manager.ProgrammingError) as refused, opened(words) as db, db.cursor() as cursor:
            cursor.execute(GRANTED)
        assert refused.value.status_code == adbc_driver_manager.AdbcStatusCode.UNAUTHENTICATED
    for words in (of_password, of_token):
        with pytest.raises(adbc_driver_manager.OperationalError, match="Unavailable"):
            with opened(words, "grpc") as db, db.cursor() as cursor:
                cursor.execute(GRANTED)


def test_pyarrow_flight(desk: Desk) -> None:
    location = desk.at("grpc+tls", "flight")
    flights = pyarrow.flight

    def by(header: str) -> Any:
        return flights.FlightCallOptions(headers=[(b"authorization", header.encode())])

    with flights.connect(location, tls_root_certs=desk.ca.read_text()) as client:
        handshake = flights.FlightCallOptions(headers=[client.authenticate_basic_token("ann", PASSWORDS["ann"])])
        for options in [handshake, by(basic("ann")), by(f"Bearer {desk.tokens['ann']}")]:
            assert [flight.descriptor.path for flight in client.list_flights(options=options)] == [[b"t"]]
            info = client.get_flight_info(flights.FlightDescriptor.for_path("t"), options)
            assert client.do_get(info.endpoints[0].ticket, options).read_all()["px"].to_pylist() == [1.5]
            with pytest.raises(pyarrow.lib.ArrowException, match="no such table|does not exist|not found"):
                client.get_flight_info(flights.FlightDescriptor.for_path("secret"), options)
        with pytest.raises(flights.FlightUnauthenticatedError):
            client.authenticate_basic_token("ann", "wrong")
        for header in [basic("ann", "wrong"), "Bearer tick_x"]:
            with pytest.raises(flights.FlightUnauthenticatedError):
                list(client.list_flights(options=by(header)))
        with pytest.raises(flights.FlightUnauthenticatedError):
            list(client.list_flights())
    with flights.connect(desk.at("grpc", "flight")) as client:
        # Arrow's client has another class for a stream of the handshake that ends.
        with pytest.raises((flights.FlightUnavailableError, flights.FlightInternalError)):
            client.authenticate_basic_token("ann", PASSWORDS["ann"])
        with pytest.raises(flights.FlightUnavailableError):
            list(client.list_flights(options=by(f"Bearer {desk.tokens['ann']}")))


def test_flight_has_a_code_for_what_a_user_may_not_do(desk: Desk) -> None:
    token = f"Bearer {desk.tokens['ann']}"
    options = pyarrow.flight.FlightCallOptions(headers=[(b"authorization", token.encode())])
    with pyarrow.flight.connect(desk.at("grpc+tls", "flight"), tls_root_certs=desk.ca.read_text()) as client:
        with pytest.raises(pyarrow.flight.FlightUnauthorizedError, match="may not INSERT"):
            client.get_flight_info(pyarrow.flight.FlightDescriptor.for_command(INSERT.encode()), options)
    words = {DatabaseOptions.TLS_ROOT_CERTS.value: desk.ca.read_text(), DatabaseOptions.AUTHORIZATION_HEADER.value: token}
    with flightsql.connect(desk.at("grpc+tls", "flight"), db_kwargs=words, autocommit=True) as ann, ann.cursor() as cursor:
        with pytest.raises(adbc_driver_manager.Error, match="may not INSERT") as refused:
            cursor.execute(INSERT)
    assert refused.value.status_code == adbc_driver_manager.AdbcStatusCode.UNAUTHORIZED


# HTTP and WebSockets.


def asked(desk: Desk, sql: str, header: str | None, scheme: str = "https") -> tuple[int, Any]:
    request = urllib.request.Request(f"{desk.at(scheme, 'http')}/exec?query={quote(sql)}")
    if header is not None:
        request.add_header("Authorization", header)
    try:
        with urllib.request.urlopen(request, context=desk.trusting()) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def test_rest(desk: Desk) -> None:
    for header in [basic("ann"), f"Bearer {desk.tokens['ann']}"]:
        status, answer = asked(desk, GRANTED, header)
        assert (status, answer["dataset"]) == (200, [["A", 1.5]])
        status, answer = asked(desk, HIDDEN, header)
        assert status == 400 and "'secret' does not exist" in answer["error"]
        status, answer = asked(desk, INSERT, header)
        assert status == 403 and "may not INSERT" in answer["error"]
        status, answer = asked(desk, GRANTED, header, scheme="http")
        assert status == 400 and "ask https://" in answer["error"]
    for wrong in [None, basic("ann", "wrong"), "Bearer tick_x"]:
        assert asked(desk, GRANTED, wrong)[0] == 401


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is missing")
def test_curl(desk: Desk) -> None:
    def curl(sql: str, *words: str, scheme: str = "https") -> tuple[int, str]:
        url = f"{desk.at(scheme, 'http')}/exec?query={quote(sql)}"
        command = ["curl", "--silent", "--cacert", str(desk.ca), "--write-out", "\n%{http_code}", *words, url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        body, status = done.stdout.rsplit("\n", 1)
        return int(status), body

    for words in [["--user", f"ann:{PASSWORDS['ann']}"], ["--oauth2-bearer", desk.tokens["ann"]]]:
        status, body = curl(GRANTED, *words)
        assert status == 200 and json.loads(body)["dataset"] == [["A", 1.5]]
        status, body = curl(HIDDEN, *words)
        assert status == 400 and "'secret' does not exist" in body
        status, body = curl(GRANTED, *words, scheme="http")
        assert status == 400 and "ask https://" in body
    for words in [[], ["--user", "ann:wrong"], ["--oauth2-bearer", "tick_x"]]:
        assert curl(GRANTED, *words)[0] == 401


async def by_websockets(desk: Desk) -> None:
    def opened(header: str | None, scheme: str = "wss") -> connect:
        headers = {} if header is None else {"Authorization": header}
        context = desk.trusting() if scheme == "wss" else None
        return connect(f"{desk.at(scheme, 'http')}/subscribe", additional_headers=headers, ssl=context)

    async def told(heard: Any) -> str:
        return str(await asyncio.wait_for(heard.recv(), 30))

    for header, px in [(basic("ann"), 8.25), (f"Bearer {desk.tokens['ann']}", 9.25)]:
        async with opened(header) as heard:
            await heard.send(json.dumps({"query": "SELECT * FROM t", "from": "beginning"}))
            seen = ""
            while "caught_up" not in seen:
                seen += await told(heard)
            assert "1.5" in seen
            with psycopg.connect(**postgres(desk, "root")) as root:
                root.execute(f"INSERT INTO t VALUES ('2024-03-01', 'B', 7.25), ('2024-03-01', 'A', {px})")
            while str(px) not in seen:
                seen += await told(heard)
            assert "2.5" not in seen and "7.25" not in seen
        async with opened(header) as heard:
            await heard.send(json.dumps({"query": "SELECT * FROM secret"}))
            answer = json.loads(await told(heard))
            assert answer["event"] == "error" and "'secret' does not exist" in answer["message"], answer
    for wrong in [None, basic("ann", "wrong"), basic("nobody", "x"), "Bearer tick_x"]:
        with pytest.raises(InvalidStatus) as refused:
            await opened(wrong)
        assert refused.value.response.status_code == 401
    with pytest.raises(InvalidStatus) as refused:
        await opened(basic("ann"), scheme="ws")
    assert refused.value.response.status_code == 400 and b"ask https://" in (refused.value.response.body or b"")


def test_websockets(desk: Desk) -> None:
    """The asyncio client. The threading client reads and writes one TLS connection from two threads. The ssl module of
    Python 3.11 does not support that: over TLS 1.3 some connections stall, with any server.
    """
    asyncio.run(by_websockets(desk))


# Tickstone's own.


def test_python(desk: Desk) -> None:
    url, clear = desk.at("tickstone+tls", "flight"), desk.at("tickstone", "flight")
    ann = {"user": "ann", "password": PASSWORDS["ann"]}
    in_address = f"tickstone+tls://ann:{quote(PASSWORDS['ann'], safe='')}@localhost:{desk.port('flight')}"
    ways: list[tuple[str, dict[str, str]]] = [(url, ann), (url, {"token": desk.tokens["ann"]}), (in_address, {})]
    for address, words in ways:
        with tickstone.connect(address, **words, ca=desk.ca) as database:
            assert database.tables() == ["t"]
            assert database.sql(GRANTED).fetchall() == [("A", 1.5)]
            with pytest.raises(tickstone.Error, match="'secret' does not exist"):
                database.sql(HIDDEN).fetchall()
            with pytest.raises(tickstone.Error, match="may not INSERT"):
                database.append("t", database.sql("SELECT * FROM t").arrow())
            assert PASSWORDS["ann"] not in repr(database)
    rows = pyarrow.table({"ts": pyarrow.array([5], pyarrow.timestamp("ns")), "sym": ["Y"], "px": [4.5]})
    for words in [{"user": "feed", "password": PASSWORDS["feed"]}, {"token": desk.tokens["feed"]}]:
        with tickstone.connect(url, **words, ca=desk.ca) as feed:
            assert feed.append("t", rows) == 1
            with pytest.raises(tickstone.Error, match="does not exist|no such table|may not"):
                feed.append("secret", rows)
    assert desk.prices("Y") == [4.5, 4.5] and desk.prices("Y", "secret") == []
    for words in [ann | {"password": "wrong"}, ann | {"user": "nobody"}, {"token": "tick_x"}, {}]:
        with pytest.raises(tickstone.Error, match="wrong user, password or token|who asks"):
            tickstone.connect(url, **words, ca=desk.ca)
    for words in [ann, {"token": desk.tokens["ann"]}]:
        with pytest.raises(tickstone.Error, match=r"tickstone\+tls://"):
            tickstone.connect(clear, **words)
    with tickstone.dbapi.connect(url, **ann, ca=desk.ca) as connection:
        assert connection.cursor().execute(GRANTED).fetchall() == [("A", 1.5)]


def test_sqlalchemy_dialect(desk: Desk) -> None:
    sqlalchemy.dialects.registry.register("tickstone", "tickstone.sqlalchemy_dialect", "TickstoneDialect")

    def ask(sql: str, password: str = PASSWORDS["ann"], **query: str) -> list[Any]:
        url = sqlalchemy.URL.create("tickstone", "ann", password, "localhost", desk.port("flight"), query=query)
        engine = sqlalchemy.create_engine(url)
        try:
            with engine.connect() as connection:
                return [tuple(row) for row in connection.execute(sqlalchemy.text(sql))]
        finally:
            engine.dispose()

    ca = str(desk.ca)
    assert ask(GRANTED, ca=ca) == [("A", 1.5)]
    with pytest.raises(sqlalchemy.exc.DBAPIError, match="'secret' does not exist"):
        ask(HIDDEN, ca=ca)
    with pytest.raises(sqlalchemy.exc.DBAPIError, match="wrong user, password or token"):
        ask(GRANTED, password="wrong", ca=ca)
    with pytest.raises(sqlalchemy.exc.DBAPIError, match=r"tickstone\+tls://"):
        ask(GRANTED)


def test_shell(desk: Desk, program: Path) -> None:
    address = f"localhost:{desk.port('flight')}"

    def said(url: str, sql: str = GRANTED, **environment: str) -> tuple[int, str, str]:
        command = [program, "sql", "--connect", url, "-c", sql, "--format", "csv", "--quiet"]
        given = ENVIRONMENT | environment
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=given, stdin=subprocess.DEVNULL)
        return done.returncode, done.stdout, done.stderr

    ann = f"tickstone+tls://ann@{address}?ca={desk.ca}"
    nobody = f"tickstone+tls://{address}?ca={desk.ca}"
    for url, secret in [(ann, {"TICKSTONE_PASSWORD": PASSWORDS["ann"]}), (nobody, {"TICKSTONE_TOKEN": desk.tokens["ann"]})]:
        assert said(url, **secret) == (0, "sym,px\nA,1.5\n", "")
        code, told, error = said(url, HIDDEN, **secret)
        assert code != 0 and told == "" and "'secret' does not exist" in error
        code, told, error = said(url, INSERT, **secret)
        assert code != 0 and told == "" and "may not INSERT" in error
        code, told, error = said(url.replace("tickstone+tls://", "tickstone://").split("?")[0], **secret)
        assert code != 0 and told == "" and "tickstone+tls://" in error
    wrong = [(ann, {"TICKSTONE_PASSWORD": "wrong-secret"}), (nobody, {"TICKSTONE_TOKEN": "tick_wrong-secret"})]
    for url, secret in wrong:
        code, told, error = said(url, **secret)
        assert code != 0 and told == "" and "wrong user, password or token" in error and "wrong-secret" not in error


def test_streams_of_the_program(desk: Desk, program: Path) -> None:
    with psycopg.connect(**postgres(desk, "root")) as root:
        for name in ("raw", "secret_stream"):
            root.execute(f"CREATE STREAM {name}")
        root.execute("GRANT STREAM ON STREAM raw TO feed")
    address = f"localhost:{desk.port('stream')}"

    def stream(url: str, *words: str, sent: str | None = None, **environment: str) -> tuple[int, str, str]:
        command = [program, "stream", *words, "--connect", url]
        given = ENVIRONMENT | environment
        done = subprocess.run(command, input=sent, capture_output=True, text=True, timeout=60, env=given)
        return done.returncode, done.stdout, done.stderr

    feed, nobody = f"tickstone+tls://feed@{address}?ca={desk.ca}", f"tickstone+tls://{address}?ca={desk.ca}"
    documents = ""
    by = [(feed, {"TICKSTONE_PASSWORD": PASSWORDS["feed"]}), (nobody, {"TICKSTONE_TOKEN": desk.tokens["feed"]})]
    for url, secret in by:
        code, _, error = stream(url, "append", "raw", sent='{"n": 1}\n', **secret)
        assert code == 0, error
        documents += '{"n": 1}\n'
        assert stream(url, "since", "raw", "0", **secret)[:2] == (0, documents)
        code, told, _ = stream(url, "since", "secret_stream", "0", **secret)
        assert code != 0 and told == ""
        code, told, _ = stream(url.replace("tickstone+tls://", "tickstone://").split("?")[0], "since", "raw", "0", **secret)
        assert code != 0 and told == ""
    wrong = [
        (feed, {"TICKSTONE_PASSWORD": "wrong-secret"}), (nobody, {"TICKSTONE_TOKEN": "tick_wrong-secret"}),
        (nobody, {"TICKSTONE_TOKEN": desk.tokens["ann"]}),
    ]  # fmt: skip
    for url, secret in wrong:
        code, told, error = stream(url, "since", "raw", "0", **secret)
        assert code != 0 and told == "" and "wrong-secret" not in error
