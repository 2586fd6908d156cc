"""Users, passwords and grants, with the clients of other systems."""

import asyncio
import base64
import http.client
import json
import os
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import adbc_driver_flightsql.dbapi as flightsql
import asyncpg
import psycopg
import pyarrow.flight
import pytest
import sqlalchemy
import tickstone
import tickstone.dbapi
from cakedb import Driver
from cryptography.hazmat.primitives.asymmetric import ec
from questdb import QuestDBError, Sender, TimestampNanos
from serving import until
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

PASSWORDS = {"root": "r\u00f6\u00f6t", "ann": "it's", "feed": "f:eed"}


def user(program: Path, data: Path, *words: str, password: str | None = None) -> subprocess.CompletedProcess:
    command = [program, "user", *words, "--data", data]
    return subprocess.run(command, input=password, capture_output=True, text=True)


@pytest.fixture
def desk(program: Path, tmp_path: Path, serve: Callable[..., Any]) -> Any:
    """A server with an admin, a reader and a writer, whose tables t and secret have rows."""
    data = tmp_path / "data"
    for name, role in [("root", "--admin"), ("ann", ""), ("feed", "--role=writer")]:
        done = user(program, data, "add", name, *([role] if role else []), password=PASSWORDS[name] + "\n")
        assert done.returncode == 0, done.stderr
    served = serve("--audit=all")
    with psycopg.connect(**postgres(served, "root")) as root:
        for table in ("t", "secret"):
            root.execute(f"CREATE TABLE {table} (ts TIMESTAMP, sym SYMBOL, px DOUBLE) TIMESTAMP(ts)")
            root.execute(f"INSERT INTO {table} VALUES ('2024-01-01', 'A', 1.5), ('2024-01-02', 'B', 2.5)")
        root.execute("GRANT SELECT, SUBSCRIBE ON t WHERE sym = 'A' TO ann")
    return served


def postgres(served: Any, name: str, **more: Any) -> dict[str, Any]:
    port = served.ports["pg_port"]
    return {"host": "localhost", "port": port, "user": name, "password": PASSWORDS[name], "autocommit": True, **more}


def asked(served: Any, path: str, header: str | None = None, body: bytes | None = None) -> tuple[int, Any]:
    """The status and the JSON of an answer over HTTP."""
    request = urllib.request.Request(f"http://localhost:{served.ports['http_port']}{path}", data=body)
    if header is not None:
        request.add_header("Authorization", header)
    try:
        with urllib.request.urlopen(request) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text else None


def raw(served: Any, path: str, header: str) -> tuple[int, bytes]:
    """The status and the body of an answer over HTTP."""
    request = urllib.request.Request(f"http://localhost:{served.ports['http_port']}{path}", headers={"Authorization": header})
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def basic(name: str, password: str | None = None) -> str:
    both = f"{name}:{PASSWORDS[name] if password is None else password}"
    return "Basic " + base64.b64encode(both.encode()).decode()


def test_the_program_makes_users(program: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = user(program, data, "add", "ann", password="x\n")
    assert first.returncode != 0 and "the first user must be an admin" in first.stderr
    assert user(program, data, "add", "root", "--admin", password="\n").returncode != 0
    assert user(program, data, "add", "Root", "--admin", password="x\n").returncode == 0
    again = user(program, data, "add", "root", password="x\n")
    assert again.returncode != 0 and "there is a user or role 'root' already" in again.stderr
    assert user(program, data, "password", "root", password="y\n").returncode == 0
    listed = user(program, data, "list").stdout
    assert "root" in listed and "SCRAM" not in listed
    last = user(program, data, "drop", "root")
    assert last.returncode == 0, last.stderr
    assert user(program, tmp_path / "none", "drop", "root").returncode != 0
    assert not (tmp_path / "none").exists()


def test_postgresql(desk: Any) -> None:
    with psycopg.connect(**postgres(desk, "ann")) as ann, psycopg.connect(**postgres(desk, "root")) as root:
        assert ann.execute("SELECT current_user").fetchone() == ("ann",)
        assert ann.execute("SELECT sym, px FROM t").fetchall() == [("A", 1.5)]
        for sql in ["SELECT * FROM secret", "DELETE FROM t", "COPY t FROM STDIN", "LISTEN secret"]:
            with pytest.raises(psycopg.Error):
                ann.execute(sql)
        for catalog in [
            "SELECT relname FROM pg_class WHERE relname IN ('t', 'secret')",
            "SELECT table_name FROM information_schema.tables WHERE table_name IN ('t', 'secret')",
            "SELECT tablename FROM pg_tables WHERE tablename IN ('t', 'secret')",
        ]:
            assert ann.execute(catalog).fetchall() == [("t",)], catalog
            assert len(root.execute(catalog).fetchall()) == 2, catalog
        assert ann.execute("SELECT to_regclass('secret')").fetchone() == (None,)
        root.execute("REVOKE SELECT ON t FROM ann")
        with pytest.raises(psycopg.Error, match="may not SELECT|does not exist"):
            ann.execute("SELECT * FROM t")
        root.execute("ALTER USER ann PASSWORD 'another'")
        with pytest.raises(psycopg.OperationalError, match="wrong user or password"):
            psycopg.connect(**postgres(desk, "ann"))
        root.execute("DROP USER ann")
        with pytest.raises(psycopg.Error, match="was dropped"):
            ann.execute("SELECT 1")
    wrong = [{"password": ""}, {"password": "x"}, {"user": "nobody"}, {"user": "reader"}, {"user": "ann"}]
    for words in wrong:
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(**postgres(desk, "root") | words)


async def by_asyncpg(desk: Any) -> None:
    port = desk.ports["pg_port"]
    connection = await asyncpg.connect(host="localhost", port=port, user="ann", password=PASSWORDS["ann"])
    try:
        assert await connection.fetchval("SELECT count(*) FROM t WHERE px < $1", 10.0) == 1
    finally:
        await connection.close()


def test_asyncpg(desk: Any) -> None:
    asyncio.run(by_asyncpg(desk))


def test_http(desk: Any) -> None:
    counted = "/exec?query=SELECT+count(*)+FROM+t"
    assert asked(desk, "/health")[0] == 200 and asked(desk, "/ping")[0] == 204
    for header in [None, "Basic", "Basic !", basic("ann", "x"), "Bearer x", "Token x", "Digest ann"]:
        for path in ["/exec?query=SELECT+1", "/metrics", "/openapi.json", "/exp?query=SELECT+1", "/chk?f=json&j=t"]:
            status, answer = asked(desk, path, header)
            assert status == 401 and "error" in answer, (path, header, answer)
    assert asked(desk, counted, basic("ann"))[1]["dataset"] == [[1]]
    assert asked(desk, counted, basic("root"))[1]["dataset"] == [[2]]
    assert asked(desk, "/exec?query=DROP+TABLE+t", basic("ann"))[0] == 403
    assert asked(desk, "/chk?f=json&j=secret", basic("ann"))[1] == {"status": "Does not exist"}
    token = asked(desk, "/exec?query=CREATE+TOKEN+k+FOR+ann", basic("root"))[1]["dataset"][0][0]
    assert asked(desk, counted, f"Bearer {token}")[1]["dataset"] == [[1]]
    assert asked(desk, counted, f"Token {token}")[1]["dataset"] == [[1]]
    assert asked(desk, counted, f"Bearer {token}x")[0] == 401
    assert asked(desk, "/exec?query=DROP+TOKEN+k", basic("ann"))[0] == 200
    assert asked(desk, counted, f"Bearer {token}")[0] == 401

    # Rows that come: into what is there, into a table that they make, and of InfluxDB's first version.
    line = b"t,sym=C px=3 1704240000000000000"
    assert asked(desk, "/write", basic("ann"), line)[0] == 403
    assert asked(desk, "/write", None, line)[0] == 401
    assert asked(desk, "/write", basic("feed"), line)[0] == 204
    assert asked(desk, "/write?u=feed&p=f%3Aeed", None, b"made,sym=C px=3 1704240000000000000")[0] == 204
    assert asked(desk, "/write?u=feed&p=wrong", None, line)[0] == 401
    assert asked(desk, counted, basic("root"))[1]["dataset"] == [[3]]
    granted = asked(desk, "/exec?query=SHOW+GRANTS+FOR+feed", basic("root"))[1]["dataset"]
    assert ["feed", "table", "made", "OWNER", None, None] in granted
    upload = b"ts,px\n2024-01-01T00:00:00Z,1\n"
    assert asked(desk, "/imp?name=up&fmt=json", basic("ann"), upload)[0] == 403
    assert asked(desk, "/imp?name=up&fmt=json", basic("feed"), upload)[0] == 200
    assert asked(desk, "/imp?name=t&overwrite=true&fmt=json", basic("feed"), upload)[0] == 403


def test_questdb(desk: Any) -> None:
    port = desk.ports["http_port"]
    with Sender.from_conf(f"http::addr=localhost:{port};username=feed;password=f:eed;") as sender:
        sender.row("t", symbols={"sym": "Q"}, columns={"px": 4.5}, at=TimestampNanos.now())
    with pytest.raises(QuestDBError), Sender.from_conf(f"http::addr=localhost:{port};username=feed;password=x;") as sender:
        sender.row("t", symbols={"sym": "Q"}, columns={"px": 4.5}, at=TimestampNanos.now())
    assert asked(desk, "/exec?query=SELECT+count(*)+FROM+t", basic("root"))[1]["dataset"] == [[3]]


def test_subscriptions(desk: Any) -> None:
    url = f"ws://localhost:{desk.ports['http_port']}/subscribe?query=SELECT+*+FROM+t&from=beginning"
    with pytest.raises(InvalidStatus) as refused:
        connect(url)
    assert refused.value.response.status_code == 401
    with connect(url, additional_headers={"Authorization": basic("ann")}) as socket_of_ann:
        seen = ""
        while '"px":1.5' not in seen:
            seen += str(socket_of_ann.recv(timeout=30))
        assert asked(desk, "/write", basic("feed"), b"t,sym=B px=7.25\nt,sym=A px=8.25\n")[0] == 204
        while '"px":8.25' not in seen:
            seen += str(socket_of_ann.recv(timeout=30))
        # A time may have the digits of a price.
        assert '"px":2.5' not in seen and '"px":7.25' not in seen


def test_flight(desk: Any) -> None:
    address = f"grpc://localhost:{desk.ports['flight_port']}"

    def options(name: str) -> pyarrow.flight.FlightCallOptions:
        return pyarrow.flight.FlightCallOptions(headers=[(b"authorization", basic(name).encode())])

    with pyarrow.flight.connect(address) as client:
        with pytest.raises(pyarrow.flight.FlightUnauthenticatedError):
            list(client.list_flights())
        with pytest.raises(pyarrow.flight.FlightUnauthenticatedError):
            client.authenticate_basic_token("root", "wrong")
        token = client.authenticate_basic_token("root", PASSWORDS["root"])
        by_token = pyarrow.flight.FlightCallOptions(headers=[token])
        assert len(list(client.list_flights(options=by_token))) == 2
        assert len(list(client.list_flights(options=options("ann")))) == 1
        descriptor = pyarrow.flight.FlightDescriptor.for_path("t")
        info = client.get_flight_info(descriptor, options("ann"))
        rows = client.do_get(info.endpoints[0].ticket, options("ann")).read_all()
        assert rows.column("px").to_pylist() == [1.5]
        # A ticket is no right: who shows it reads as who they are.
        assert client.do_get(info.endpoints[0].ticket, by_token).read_all().num_rows == 2
        with pytest.raises(pyarrow.lib.ArrowException, match="no such table|does not exist|not found"):
            client.get_flight_info(pyarrow.flight.FlightDescriptor.for_path("secret"), options("ann"))
        for table in ("t", "secret", "new"):
            writer, reader = client.do_put(pyarrow.flight.FlightDescriptor.for_path(table), rows.schema, options("ann"))
            with pytest.raises(pyarrow.lib.ArrowException, match="may not (CREATE|INSERT)"):
                writer.write_table(rows)
                writer.done_writing()
                reader.read()
                writer.close()
    assert asked(desk, "/exec?query=SELECT+count(*)+FROM+t", basic("root"))[1]["dataset"] == [[2]]


def by_adbc(desk: Any, name: str) -> Any:
    return flightsql.connect(
        f"grpc://localhost:{desk.ports['flight_port']}",
        db_kwargs={"username": name, "password": PASSWORDS[name]},
        autocommit=True,
    )


def test_adbc(desk: Any) -> None:
    with by_adbc(desk, "ann") as ann, by_adbc(desk, "root") as root, by_adbc(desk, "feed") as feed:
        found = ann.adbc_get_objects(depth="tables").read_all().to_pylist()
        assert [table["table_name"] for table in found[0]["catalog_db_schemas"][0]["db_schema_tables"]] == ["t"]
        with ann.cursor() as of_ann, root.cursor() as of_root, feed.cursor() as of_feed:
            of_ann.execute("SELECT sym FROM t WHERE px > $1", (1,))
            assert of_ann.fetchall() == [("A",)]
            ticks = pyarrow.table({"ts": pyarrow.array([0], pyarrow.timestamp("ns")), "sym": ["C"], "px": [4.0]})
            for mode in ("append", "create", "replace", "create_append"):
                for table in ("t", "secret"):
                    with pytest.raises(Exception, match="may not|'secret' does not exist|'t' already exists"):
                        of_ann.adbc_ingest(table, ticks, mode=mode)
            with pytest.raises(Exception, match="may not ALTER"):
                of_feed.adbc_ingest("t", ticks, mode="replace")
            assert of_feed.adbc_ingest("t", ticks, mode="append") == 1
            with pytest.raises(Exception, match="may not"):
                of_feed.executemany("DELETE FROM t WHERE px = $1", [(1.5,), (2.5,)])
            assert of_feed.executemany("INSERT INTO t VALUES ($1, $2, $3)", [("2024-02-01", "D", 1.0), ("2024-02-02", "D", 2.0)]) is None
            of_root.execute("SELECT count(*) FROM t")
            assert of_root.fetchall() == [(5,)]
            # What was prepared with a right is not run without it.
            of_ann.adbc_prepare("SELECT count(*) FROM t")
            of_ann.execute("SELECT count(*) FROM t")
            assert of_ann.fetchall() == [(1,)]
            of_root.execute("REVOKE SELECT ON t FROM ann")
            with pytest.raises(Exception, match="may not SELECT"):
                of_ann.execute("SELECT count(*) FROM t")


def test_handles_are_their_users(desk: Any) -> None:
    """Who knows the handle of another user's session, transaction or statement can do nothing with it."""
    address = f"grpc://localhost:{desk.ports['flight_port']}"

    def of(name: str) -> pyarrow.flight.FlightCallOptions:
        return pyarrow.flight.FlightCallOptions(headers=[(b"authorization", basic(name).encode())])

    with pyarrow.flight.connect(address) as client:

        def act(name: str, kind: str, body: bytes) -> bytes:
            return b"".join(result.body.to_pybytes() for result in client.do_action((kind, body), of(name)))

        begun = act("root", "tickstone.BeginSession", b"")
        handle = begun[2 : 2 + begun[1]]
        act("root", "tickstone.KeepSession", handle)
        with pytest.raises(pyarrow.lib.ArrowException, match="no such session"):
            act("ann", "tickstone.KeepSession", handle)
        with pytest.raises(pyarrow.lib.ArrowException, match="no such session"):
            act("ann", "tickstone.ForgetTables", handle)
        act("ann", "tickstone.EndSession", handle)
        act("root", "tickstone.KeepSession", handle)
        act("root", "tickstone.EndSession", handle)
        with pytest.raises(pyarrow.lib.ArrowException, match="no such session"):
            act("root", "tickstone.KeepSession", handle)


def test_only_its_user_cancels_a_statement(desk: Any) -> None:
    address = f"grpc://localhost:{desk.ports['flight_port']}"

    def of(name: str) -> pyarrow.flight.FlightCallOptions:
        return pyarrow.flight.FlightCallOptions(headers=[(b"authorization", basic(name).encode())])

    def cancel(client: Any, name: str, info: Any) -> bytes:
        told = info.serialize()
        request = b"\x0a" + varint(len(told)) + told
        action = pyarrow.flight.Action("CancelFlightInfo", request)
        return b"".join(result.body.to_pybytes() for result in client.do_action(action, of(name)))

    def varint(number: int) -> bytes:
        low, number = number & 0x7F, number >> 7
        return bytes([low | 0x80]) + varint(number) if number else bytes([low])

    ended: list[str] = []

    def read(info: Any) -> None:
        try:
            with pyarrow.flight.connect(address) as client:
                client.do_get(info.endpoints[0].ticket, of("root")).read_all()
        except pyarrow.lib.ArrowException as error:
            ended.append(str(error))

    with pyarrow.flight.connect(address) as client:
        endless = pyarrow.flight.FlightDescriptor.for_command(b"SELECT sum(value % 7) FROM range(0, 1000000000000)")
        info = client.get_flight_info(endless, of("root"))
        reading = threading.Thread(target=read, args=(info,))
        reading.start()
        until(lambda: cancel(client, "ann", info) == b"\x08\x03", "an answer")
        time.sleep(1)
        assert cancel(client, "ann", info) == b"\x08\x03" and not ended
        until(lambda: cancel(client, "root", info) == b"\x08\x01", "its end")
        reading.join(30)
        assert ended and "cancelled" in ended[0]


def test_python(desk: Any) -> None:
    port = desk.ports["flight_port"]
    url = f"tickstone://localhost:{port}"
    with tickstone.connect(url, user="ann", password=PASSWORDS["ann"]) as ann:
        assert ann.sql("SELECT sym, px FROM t").fetchall() == [("A", 1.5)]
        assert ann.tables() == ["t"]
        with pytest.raises(tickstone.Error, match="may not INSERT"):
            ann.append("t", ann.sql("SELECT * FROM t").arrow())
        with pytest.raises(tickstone.Error, match="may not CREATE"):
            ann.append("fresh", ann.sql("SELECT * FROM t").arrow(), create=True)
    with tickstone.connect(url, user="root", password=PASSWORDS["root"]) as root:
        token = root.sql("CREATE TOKEN k FOR feed").fetchall()[0][0]
    with tickstone.connect(url, token=token) as feed:
        rows = pyarrow.table({"ts": pyarrow.array([5], pyarrow.timestamp("ns")), "sym": ["C"], "px": [4.0]})
        assert feed.append("t", rows) == 1
        with feed.transaction() as transaction:
            transaction.append("t", rows)
        with feed.transaction() as transaction, pytest.raises(tickstone.Error, match="does not exist|no such table"):
            transaction.append("secrets", rows)
    password = quote(PASSWORDS["feed"])
    with tickstone.connect(f"tickstone://feed:{password}@localhost:{port}") as feed:
        assert feed.sql("SELECT count(*) FROM t").fetchall() == [(4,)]
        assert password not in repr(feed) and PASSWORDS["feed"] not in repr(feed)
    for words in [{}, {"user": "ann", "password": "x"}, {"user": "nobody", "password": ""}, {"token": "tick_x"}]:
        with pytest.raises(tickstone.Error, match="who asks|wrong user, password or token"):
            tickstone.connect(url, **words)
    for words in [{"user": "ann"}, {"password": "x"}, {"user": "ann", "password": "x", "token": "t"}]:
        with pytest.raises(ValueError):
            tickstone.connect(url, **words)
    with tickstone.dbapi.connect(url, user="ann", password=PASSWORDS["ann"]) as connection:
        assert connection.cursor().execute("SELECT count(*) FROM t").fetchall() == [(1,)]
    sqlalchemy.dialects.registry.register("tickstone", "tickstone.sqlalchemy_dialect", "TickstoneDialect")
    engine = sqlalchemy.create_engine(f"tickstone://ann:{quote(PASSWORDS['ann'])}@localhost:{port}")
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT count(*) FROM t")).scalar() == 1
    engine.dispose()


def test_the_shell(desk: Any, program: Path) -> None:
    address = f"localhost:{desk.ports['flight_port']}"

    def said(url: str, **environment: str) -> subprocess.CompletedProcess:
        command = [program, "sql", "--connect", url, "-c", "SELECT px FROM t", "--format", "csv", "--quiet"]
        return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, stdin=subprocess.DEVNULL)

    done = said(f"tickstone://ann@{address}", TICKSTONE_PASSWORD=PASSWORDS["ann"])
    assert done.stdout.split() == ["px", "1.5"], done.stderr
    done = said(f"tickstone://ann@{address}")
    assert done.returncode != 0 and "set TICKSTONE_PASSWORD" in done.stderr
    done = said(f"tickstone://ann@{address}", TICKSTONE_PASSWORD="wrong-secret")
    assert done.returncode != 0 and "wrong user, password or token" in done.stderr and "secret" not in done.stderr
    done = said(f"tickstone://{address}")
    assert done.returncode != 0 and "user:password@" in done.stderr
    token = asked(desk, "/exec?query=CREATE+TOKEN+k+FOR+root", basic("root"))[1]["dataset"][0][0]
    done = said(f"tickstone://{address}", TICKSTONE_TOKEN=token)
    assert done.stdout.split() == ["px", "1.5", "2.5"], done.stderr


def test_mcp(desk: Any) -> None:
    def call(name: str, tool: str, **arguments: Any) -> str:
        params = {"name": tool, "arguments": arguments}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
        return said(name, body)

    def said(name: str, body: bytes) -> str:
        request = urllib.request.Request(f"http://localhost:{desk.ports['http_port']}/mcp", data=body)
        request.add_header("Authorization", basic(name))
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request) as answer:
            return answer.read().decode()

    assert "secret" in call("root", "list_tables") and "secret" not in call("ann", "list_tables")
    assert "2.5" in call("root", "query", sql="SELECT px FROM t")
    of_ann = call("ann", "query", sql="SELECT px FROM t")
    assert "1.5" in of_ann and "2.5" not in of_ann
    for tool in ("describe_table", "sample_rows"):
        assert "2.5" in call("root", tool, table="t")
        of_ann = call("ann", tool, table="t")
        assert "1.5" in of_ann and "2.5" not in of_ann and '"B"' not in of_ann, (tool, of_ann)
        assert '"isError":true' in call("ann", tool, table="secret").replace(" ", "")
    read = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "resources/read", "params": {"uri": "tickstone://schema"}})
    assert "secret" in said("root", read.encode()) and "secret" not in said("ann", read.encode())


def test_streams(desk: Any) -> None:
    port = desk.ports["stream_port"]
    token = asked(desk, "/exec?query=CREATE+TOKEN+k+FOR+feed", basic("root"))[1]["dataset"][0][0]

    def proved(driver: Driver, said: str) -> Driver:
        driver.send(7, said.encode())
        return driver

    for said in [None, "", "Bearer", "Bearer tick_x", basic("feed", "wrong"), basic("ann")]:
        with pytest.raises((OSError, EOFError)), Driver(port) as driver:
            if said is not None:
                proved(driver, said)
            driver.id("raw")
    for said in [f"Bearer {token}", basic("feed")]:
        with Driver(port) as driver:
            proved(driver, said)
            driver.append("raw", said.encode())
            assert driver.ask(4, "raw", 0)[-1][1] == said.encode()
            writer = driver.ids["raw"]
            # The id of a stream holds for all connections, the right does not.
            with pytest.raises((OSError, EOFError)), Driver(port) as other:
                proved(other, basic("ann"))
                other.ids["raw"] = writer
                other.ask(4, "raw", 0)
    assert asked(desk, "/exec?query=GRANT+SELECT+ON+STREAM+raw+TO+ann", basic("root"))[0] == 200
    with Driver(port) as driver:
        assert len(proved(driver, basic("ann")).ask(4, "raw", 0)) == 2
        with pytest.raises((OSError, EOFError)):
            driver.append("raw", b"from ann")
            driver.ask(4, "raw", 0)
    with Driver(port) as driver:
        assert len(proved(driver, basic("feed")).ask(4, "raw", 0)) == 2


def test_line_protocol_over_tcp(desk: Any) -> None:
    port = desk.ports["ilp_port"]
    counted = "/exec?query=SELECT+count(*)+FROM+t"
    made = asked(desk, "/exec?query=CREATE+TOKEN+k+FOR+feed+TYPE+ES256", basic("root"))[1]
    key = dict(zip([column["name"] for column in made["columns"]], made["dataset"][0], strict=True))
    config = f"tcp::addr=localhost:{port};username=feed;token={key['token']};token_x={key['token_x']};token_y={key['token_y']};"
    with Sender.from_conf(config) as sender:
        sender.row("t", symbols={"sym": "Q"}, columns={"px": 4.5}, at=TimestampNanos.now())
        sender.flush()
    until(lambda: asked(desk, counted, basic("root"))[1]["dataset"] == [[3]], "a row")

    # The public key of a pair that the client made.
    pair = ec.generate_private_key(ec.SECP256R1())
    x, y, d = (
        base64.urlsafe_b64encode(number.to_bytes(32, "big")).decode().rstrip("=")
        for number in (
            pair.public_key().public_numbers().x,
            pair.public_key().public_numbers().y,
            pair.private_numbers().private_value,
        )
    )
    query = quote(f"CREATE TOKEN own FOR ann TYPE ES256 KEY ('{x}', '{y}')")
    assert asked(desk, f"/exec?query={query}", basic("root"))[1]["dataset"] == [[None, x, y, "own", "ann"]]
    with Sender.from_conf(f"tcp::addr=localhost:{port};username=ann;token={d};token_x={x};token_y={y};") as sender:
        sender.row("t", symbols={"sym": "Q"}, columns={"px": 4.5}, at=TimestampNanos.now())
        sender.flush()

    def refused(*lines: bytes) -> None:
        with socket.create_connection(("localhost", port), timeout=30) as connection:
            try:
                for line in lines:
                    connection.sendall(line)
                while connection.recv(1 << 10):
                    pass
            except ConnectionError:
                pass

    line = b"t,sym=X px=1\n"
    refused(line)
    refused(b"feed\n", b"", b"AAAA\n" + line)
    refused(b"feed\n" + base64.b64encode(bytes(64)) + b"\n" + line)
    refused(b"nobody\n", base64.b64encode(bytes(64)) + b"\n" + line)
    refused(b"x" * 2_000)
    refused(b"\xff\n\n")
    # Ann may not write, and the key of feed is none of root's.
    with pytest.raises(QuestDBError), Sender.from_conf(config.replace("username=feed", "username=root")) as sender:
        for _ in range(50):
            sender.row("t", symbols={"sym": "Q"}, columns={"px": 4.5}, at=TimestampNanos.now())
            sender.flush()
            time.sleep(0.1)
    # A key that is dropped stores nothing more, over the connection that it opened too.
    with pytest.raises(QuestDBError), Sender.from_conf(config) as sender:
        assert asked(desk, "/exec?query=DROP+TOKEN+k", basic("root"))[0] == 200
        for _ in range(50):
            sender.row("t", symbols={"sym": "Q"}, columns={"px": 4.5}, at=TimestampNanos.now())
            sender.flush()
            time.sleep(0.1)
    assert asked(desk, counted, basic("root"))[1]["dataset"] == [[3]]


def test_a_subscription_ends_with_its_rights(desk: Any) -> None:
    url = f"ws://localhost:{desk.ports['http_port']}/subscribe?query=SELECT+*+FROM+t"

    def until_error(heard: Any) -> str:
        seen = ""
        while "error" not in seen:
            assert asked(desk, "/write", basic("feed"), b"t,sym=A px=8.25\n")[0] == 204
            seen = str(heard.recv(timeout=30))
            assert '"px":8.25' not in seen
        return seen

    for statement, again in [
        ("REVOKE SUBSCRIBE ON t FROM ann", "GRANT SUBSCRIBE ON t WHERE sym = 'A' TO ann"),
        ("GRANT SUBSCRIBE ON t WHERE sym = 'B' TO ann", "SHOW USERS"),
        ("GRANT reader TO ann", "SHOW USERS"),
        ("REVOKE reader FROM ann", "SHOW USERS"),
        ("DROP USER ann", "SHOW USERS"),
    ]:
        with connect(url, additional_headers={"Authorization": basic("ann")}) as heard:
            while "subscribed" not in (said := str(heard.recv(timeout=30))):
                assert "error" not in said, said
            # Of others.
            assert asked(desk, f"/exec?query={quote('GRANT SELECT ON secret TO feed')}", basic("root"))[0] == 200
            assert asked(desk, f"/exec?query={quote(statement)}", basic("root"))[0] == 200
            assert "rights of 'ann'" in (said := until_error(heard)) or "user 'ann' was dropped" in said
        assert asked(desk, f"/exec?query={quote(again)}", basic("root"))[0] == 200


def test_audit(desk: Any, program: Path, tmp_path: Path, serve: Callable[..., Any]) -> None:
    def deeds(served: Any, columns: str, where: str) -> list[list[Any]]:
        query = quote(f"SELECT {columns} FROM audit WHERE {where} ORDER BY ts")
        return asked(served, f"/exec?query={query}", basic("root"))[1]["dataset"]

    with psycopg.connect(**postgres(desk, "ann")) as ann:
        ann.execute("SELECT sym, px FROM t")
        with pytest.raises(psycopg.Error):
            ann.execute("SELECT * FROM secret")
        for sql in ["SELECT * FROM audit", "INSERT INTO audit (ts) VALUES (now())", "DROP TABLE audit"]:
            with pytest.raises(psycopg.Error, match="does not exist|may not"):
                ann.execute(sql)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(**postgres(desk, "ann") | {"password": "wrong"})
    assert asked(desk, "/write", basic("feed"), b"t,sym=A px=8.25\nt,sym=A px=9.25\n")[0] == 204
    assert asked(desk, "/exec?query=DROP+TABLE+t", basic("ann"))[0] == 403
    with psycopg.connect(**postgres(desk, "root")) as root:
        root.execute("CREATE USER eve PASSWORD 'hidden-secret'")
        root.execute("PREPARE p AS SELECT 1")
        for sql in [
            "DELETE FROM audit",
            "UPDATE audit SET message = NULL",
            "TRUNCATE TABLE audit",
            "DROP TABLE audit",
            "ALTER TABLE audit DROP COLUMN text",
            "ALTER TABLE audit RENAME TO other",
            "INSERT INTO audit (ts) VALUES (now())",
        ]:
            with pytest.raises(psycopg.Error, match="is the audit log, which is only read"):
                root.execute(sql)
        for sql in [
            "CREATE TABLE audit (ts TIMESTAMP)",
            "CREATE TABLE AUDIT AS SELECT 1 AS a",
            "CREATE VIEW Audit AS SELECT 1 AS a",
            "CREATE OR REPLACE TABLE audit AS SELECT 1 AS a",
            "ALTER TABLE t RENAME TO audit",
            "COPY audit FROM STDIN",
        ]:
            with pytest.raises(psycopg.Error):
                root.execute(sql)
    assert asked(desk, "/write", basic("root"), b"audit,user=x rows=1\n")[0] != 204
    until(lambda: deeds(desk, "1", "text = 'PREPARE p AS SELECT 1'"), "the deeds")
    assert deeds(desk, "user_name, protocol, address, rows, state", "text = 'SELECT sym, px FROM t'") == [
        ["ann", "postgresql", "127.0.0.1", 1, "00000"]
    ]
    assert deeds(desk, "user_name, state", "text = 'SELECT * FROM secret'") == [["ann", "42P01"]]
    assert deeds(desk, "user_name, protocol, state", "text = 'DROP TABLE t'") == [["ann", "http", "42501"]]
    assert ["root", "postgresql", "00000"] in deeds(desk, "user_name, protocol, state", "kind = 'LOGIN'")
    assert deeds(desk, "text, protocol, state", "kind = 'LOGIN' AND state <> '00000'") == [["ann", "postgresql", "28P01"]]
    assert deeds(desk, "text", "kind = 'CREATE USER'")[-1] == ["CREATE USER eve PASSWORD '\u2026'"]
    until(lambda: deeds(desk, "1", "kind = 'INGEST' AND user_name = 'feed'"), "the rows that came", 60)
    ingested = deeds(desk, "user_name, protocol, text, sum(rows)", "kind = 'INGEST' GROUP BY user_name, protocol, text, ts")
    assert ["feed", "http", "t", 2] in ingested, ingested

    # Each format of an export, and rows that were refused.
    for kind in ("csv", "parquet", "arrow"):
        query = quote(f"SELECT px AS as_{kind} FROM t")
        status, _ = raw(desk, f"/exp?query={query}&fmt={kind}", basic("ann"))
        assert status == 200
        until(lambda kind=kind: deeds(desk, "1", f"text LIKE '%as_{kind} FROM t'"), f"the export as {kind}")
    assert asked(desk, "/write", basic("ann"), b"t,sym=A px=1\n")[0] == 403
    until(lambda: deeds(desk, "1", "kind = 'INGEST' AND user_name = 'ann' AND state = '42501'"), "the rows refused")
    assert asked(desk, "/write", basic("root"), b"AUDIT,user=x rows=1\n")[0] == 400
    with psycopg.connect(**postgres(desk, "root")) as root, pytest.raises(psycopg.Error, match="already exists"):
        root.execute("CREATE TEMP TABLE audit (ts TIMESTAMP)")

    # It outlives a stop and a kill, and no secret is in it or in the server's log.
    before = len(deeds(desk, "ts", "true"))
    desk.kill()
    again = serve("--audit=changes")
    assert len(deeds(again, "ts", "true")) >= before
    assert asked(again, "/exec?query=SELECT+7777", basic("root"))[0] == 200
    assert asked(again, "/exec?query=CREATE+TABLE+last+(ts+TIMESTAMP)", basic("root"))[0] == 200
    assert again.stop() == 0
    once_more = serve()
    assert deeds(once_more, "text", "text LIKE 'CREATE TABLE last%'") == [["CREATE TABLE last (ts TIMESTAMP)"]]
    assert deeds(once_more, "text", "text LIKE '%7777%'") == []
    assert deeds(once_more, "text", "text LIKE '%hidden-secret%' OR message LIKE '%hidden-secret%'") == []
    assert once_more.stop() == 0
    assert "hidden-secret" not in (tmp_path / "data.log").read_text()


def test_the_audit_log_counts_what_was_given_and_kept(desk: Any) -> None:
    def deeds(columns: str, where: str) -> list[list[Any]]:
        query = quote(f"SELECT {columns} FROM audit WHERE {where}")
        return asked(desk, f"/exec?query={query}", basic("root"))[1]["dataset"]

    with psycopg.connect(**postgres(desk, "root")) as root:
        root.execute("CREATE TABLE copied (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)")
        root.execute("CREATE TABLE later (ts TIMESTAMP, x BIGINT) TIMESTAMP(ts)")
        for end in ["ROLLBACK", "COMMIT"]:
            root.execute("BEGIN")
            for table, count in [("copied", 3), ("later", 2), ("copied", 4)]:
                with root.cursor().copy(f"COPY {table} FROM STDIN") as rows:
                    for row in range(count):
                        rows.write_row(("2024-01-01", row))
            root.execute(end)
        root.execute("BEGIN")
        many = "SELECT value AS of_a_cursor FROM range(0, 5000000)"
        root.execute(f"DECLARE few CURSOR FOR {many}")
        root.execute("DECLARE all_of_them CURSOR FOR SELECT value AS all_of_them FROM range(0, 20)")
        assert len(root.execute("FETCH 7 FROM few").fetchall()) == 7
        assert len(root.execute("FETCH 15 FROM all_of_them").fetchall()) == 15
        root.execute("MOVE 2 FROM few")
        assert len(root.execute("FETCH ALL FROM all_of_them").fetchall()) == 5
        assert deeds("1", "text LIKE '%of_a_cursor FROM range%' AND user_name = 'root' AND kind = 'DECLARE CURSOR'") == []
        root.execute("CLOSE few")
        root.execute("COMMIT")
    limited = quote("SELECT value AS limited FROM range(0, 5000000)")
    values = ", ".join(f"('2024-01-01', {row})" for row in range(5))
    returning = quote(f"INSERT INTO later VALUES {values} RETURNING x AS returned")
    assert asked(desk, f"/exec?query={returning}&limit=2", basic("root"))[1]["count"] == 2
    assert asked(desk, f"/exec?query={limited}&limit=11", basic("root"))[1]["count"] == 11
    assert raw(desk, f"/exp?query={limited}&limit=12", basic("root"))[0] == 200
    cursors = "text LIKE 'DECLARE%' AND (text LIKE '%of_a_cursor%' OR text LIKE '%all_of_them%')"
    until(lambda: len(deeds("1", cursors)) == 2, "the cursors")
    assert sorted(deeds("rows, state", cursors)) == [[7, "00000"], [20, "00000"]]
    of_http = "text LIKE 'SELECT value AS limited%'"
    until(lambda: len(deeds("1", of_http)) == 2, "the answers over HTTP")
    returned = "text LIKE '%RETURNING x AS returned'"
    until(lambda: deeds("1", returned), "the rows that were stored")
    assert deeds("rows, state", returned) == [[5, "00000"]]
    assert sorted(deeds("rows, state", of_http)) == [[11, "00000"], [12, "00000"]]
    kept = "kind = 'INGEST' AND text IN ('copied', 'later') GROUP BY text ORDER BY text"
    until(lambda: deeds("text", kept), "the rows that came", 60)
    assert deeds("text, sum(rows)", kept) == [["copied", 7], ["later", 2]]


def test_limits(desk: Any) -> None:
    with psycopg.connect(**postgres(desk, "root")) as root, psycopg.connect(**postgres(desk, "ann")) as ann:
        many = "SELECT value FROM range(0, 1000000)"
        assert len(ann.execute(many).fetchall()) == 1_000_000
        for sql in [
            "ALTER USER ann SET max_rows = 1000",
            "CREATE ROLE slow",
            "GRANT slow TO ann",
            "ALTER ROLE slow SET max_rows = 5",
            "ALTER ROLE slow SET statement_timeout TO '300ms'",
            "ALTER ROLE slow SET query_memory = '20MB'",
            "ALTER ROLE slow SET weight = 10",
        ]:
            root.execute(sql)
        assert sorted(ann.execute("SHOW LIMITS").fetchall()) == [
            ("ann", "max_rows", "1000"),
            ("ann", "query_memory", "20971520"),
            ("ann", "statement_timeout", "300ms"),
            ("ann", "weight", "10"),
        ]
        assert len(root.execute("SHOW LIMITS").fetchall()) == 5
        for sql in ["ALTER USER ann RESET max_rows", "ALTER USER ann SET weight = 100", "ALTER ROLE slow RESET ALL"]:
            with pytest.raises(psycopg.Error, match="an admin does"):
                ann.execute(sql)
        for sql, told in [
            ("ALTER USER ann SET max_rows = 0", "wants a whole number"),
            ("ALTER USER ann SET weight = 101", "from 1 to 100"),
            ("ALTER USER ann SET rows = 5", "there is no limit 'rows'"),
            ("ALTER ROLE ann SET max_rows = 5", "no role 'ann'|no such role|role 'ann'"),
            ("ALTER USER slow SET max_rows = 5", "user 'slow'"),
            ("ALTER ROLE slow PASSWORD 'x'", "no user 'slow'"),
            ("ALTER USER root SET max_rows = 5", "admins have no limits"),
            ("ALTER USER ann NOLOGIN", "max_connections = 0"),
        ]:
            with pytest.raises(psycopg.Error, match=told):
                root.execute(sql)
        assert len(ann.execute("SELECT value FROM range(0, 1000)").fetchall()) == 1_000
        for query in [many, "SELECT value FROM range(0, 1001)", "COPY (SELECT value FROM range(0, 1001)) TO STDOUT"]:
            with pytest.raises(psycopg.Error, match="max_rows"):
                if query.startswith("COPY"):
                    with ann.cursor() as cursor, cursor.copy(query) as copied:
                        list(copied)
                else:
                    ann.execute(query).fetchall()
        assert ann.execute(f"SELECT count(*) FROM ({many})").fetchone() == (1_000_000,)
        for path in [f"/exec?query={quote(many)}&limit=2000", f"/exp?query={quote(many)}"]:
            status, told = asked(desk, path, basic("ann"))
            assert status == 400 and "max_rows" in told["error"], path
        query = quote("SELECT value FROM range(0, 2000000)")
        with pytest.raises((http.client.HTTPException, AssertionError)):
            status, body = raw(desk, f"/exp?query={query}&fmt=parquet", basic("ann"))
            assert status == 200 and len(body) > 100_000
        endless = "SELECT sum(value % 7) FROM range(0, 1000000000000)"
        for sql in [endless, f"SET statement_timeout = '1h'; {endless}"]:
            begun = time.monotonic()
            with pytest.raises(psycopg.Error, match="statement_timeout"):
                ann.execute(sql)
            assert time.monotonic() - begun < 20
        root.execute("ALTER ROLE slow RESET statement_timeout")
        large = "SELECT cardinality(array_agg(value)) FROM range(0, 5000000)"
        with pytest.raises(psycopg.Error, match="user's queries hold"):
            ann.execute(large)
        root.execute("ALTER ROLE slow RESET ALL")
        assert ann.execute(large).fetchone() == (5_000_000,)

        # Rows a second, over all ways in and all connections.
        root.execute("ALTER USER feed SET ingest_rows_per_second = 100")
        lines = b"".join(b"t,sym=Q px=1 %d\n" % at for at in range(1_704_240_000_000_000_000, 1_704_240_000_000_000_150))
        begun = time.monotonic()
        assert asked(desk, "/write", basic("feed"), lines)[0] == 204
        with psycopg.connect(**postgres(desk, "feed")) as feed:
            feed.execute("INSERT INTO t SELECT timestamp_s(value), 'Q', 1.0 FROM range(0, 100)")
        assert 1.4 < time.monotonic() - begun
        # The time of waiting counts towards that of the statement, which then has stored nothing.
        root.execute("ALTER USER feed SET statement_timeout = '500ms'")
        with psycopg.connect(**postgres(desk, "feed")) as feed, pytest.raises(psycopg.errors.QueryCanceled):
            feed.execute("INSERT INTO t SELECT timestamp_s(value), 'W', 1.0 FROM range(0, 150)")
        assert root.execute("SELECT count(*) FROM t WHERE sym = 'W'").fetchone() == (0,)
        root.execute("ALTER USER feed RESET statement_timeout")
        # A client that hangs up leaves its rows' time to the next, by whatever way they come; RETURNING and EXECUTE count.
        with psycopg.connect(**postgres(desk, "feed")) as feed:
            inserts = "INSERT INTO t SELECT timestamp_s(value), 'V', 1.0 FROM range(0, 60)"
            feed.execute(f"PREPARE ins AS {inserts}")
            begun = time.monotonic()
            feed.execute("EXECUTE ins")
            for _ in range(2):
                assert feed.execute(f"{inserts} RETURNING 1 / 1").rowcount == 60
            assert time.monotonic() - begun > 1.1
        # What would wait too long is told so, and stored nowhere.
        many = b"".join(b"t,sym=M px=1 %d\n" % at for at in range(1_704_250_000_000_000_000, 1_704_250_000_000_009_000))
        assert asked(desk, "/write", basic("feed"), many)[0] == 204
        status, body = asked(desk, "/write", basic("feed"), lines)
        assert status == 503 and "ingest_rows_per_second" in json.dumps(body)
        root.execute("ALTER USER feed RESET ingest_rows_per_second")
        assert asked(desk, "/write", basic("feed"), lines)[0] == 204

        # Connections: of the user alone, and given back.
        root.execute("ALTER USER ann SET max_connections = 2")
        with psycopg.connect(**postgres(desk, "ann")):
            with pytest.raises(psycopg.OperationalError, match="max_connections"):
                psycopg.connect(**postgres(desk, "ann"))
            with psycopg.connect(**postgres(desk, "root")):
                pass
        until(lambda: connects(desk, "ann"), "a connection that was given back")
        root.execute("ALTER USER ann RESET max_rows")
        # A request of HTTP and a call of Flight are one until they are answered, also to a client that reads nothing yet.
        many = quote("SELECT repeat('x', 1000) FROM range(0, 1000000)")
        waiting = http.client.HTTPConnection("localhost", desk.ports["http_port"])
        waiting.request("GET", f"/exp?query={many}", headers={"Authorization": basic("ann")})
        answer = waiting.getresponse()
        assert answer.status == 200 and answer.read(100)
        status, told = asked(desk, "/exec?query=SELECT+1", basic("ann"))
        assert status == 503 and "max_connections" in told["error"]
        with pytest.raises(tickstone.Error, match="max_connections"):
            tickstone.connect(f"tickstone://localhost:{desk.ports['flight_port']}", user="ann", password=PASSWORDS["ann"])
        waiting.close()
        until(lambda: asked(desk, "/exec?query=SELECT+1", basic("ann"))[0] == 200, "a request that was given up")


def connects(desk: Any, name: str) -> bool:
    try:
        psycopg.connect(**postgres(desk, name)).close()
    except psycopg.OperationalError:
        return False
    return True


def test_no_log_has_a_password(desk: Any, tmp_path: Path, serve: Callable[..., Any]) -> None:
    assert desk.stop() == 0
    served = serve("--slow-statement=1us", "--log-level=trace")
    with psycopg.connect(**postgres(served, "root")) as root:
        for sql in ["CREATE USER eve PASSWORD 'hidden-secret'", "ALTER USER eve WITH PASSWORD 'hidden-secret2'"]:
            root.execute(sql)
        with pytest.raises(psycopg.Error):
            root.execute("CREATE USER eve PASSWORD 'hidden-secret'")
    query = quote("ALTER USER eve PASSWORD 'hidden-secret3'")
    assert asked(served, f"/exec?query={query}", basic("root"))[0] == 200
    assert asked(served, "/write?u=feed&p=f%3Aeed", None, b"t,sym=C px=3 1704240000000000000")[0] == 204
    assert served.stop() == 0
    log = (tmp_path / "data.log").read_text()
    assert "slow statement" in log and "hidden-secret" not in log and "f:eed" not in log and "f%3Aeed" not in log


def test_connections_of_before_end(program: Path, tmp_path: Path, serve: Callable[..., Any]) -> None:
    served = serve()
    port = served.ports["pg_port"]
    with psycopg.connect(host="localhost", port=port, user="any", autocommit=True) as before:
        before.execute("CREATE USER root PASSWORD 'r' IN ROLE admin")
        with pytest.raises(psycopg.Error, match="connect again"):
            before.execute("SELECT 1")
        with pytest.raises(psycopg.Error, match="connect again"):
            before.execute("CREATE USER eve PASSWORD 'e'")
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(host="localhost", port=port, user="any")


def test_closed_by_default(program: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    ports = [f"--{name}-port=0" for name in ("http", "influx", "pg", "flight", "ilp", "stream")]
    command = [program, "serve", "--data", data, "--host=0.0.0.0", *ports]

    def said(*words: Any) -> str:
        done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode != 0
        return done.stderr

    assert "tickstone user add" in said() and "tickstone user add" in said("--insecure=tls")
    assert user(program, data, "add", "root", "--admin", password="r\n").returncode == 0
    assert "require_tls" in said() and "require_tls" in said("--insecure=users")
    out = tmp_path / "certificates"
    subprocess.run([program, "cert", "--out", out], check=True, capture_output=True)
    tls = [f"--tls-certificate={out / 'server.pem'}", f"--tls-key={out / 'server-key.pem'}"]
    assert "require_tls" in said(*tls)
    running = subprocess.Popen([*command, *tls, "--require-tls=true"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(timeout=3)
    finally:
        running.kill()
        running.wait()


def test_cursors_end_when_rights_do(desk: Any) -> None:
    with psycopg.connect(**postgres(desk, "root")) as root:
        root.execute("INSERT INTO t SELECT timestamp_s(1704067200 + value), 'A', value FROM range(0, 100000)")
        root.execute("CREATE USER view PASSWORD 'v' IN ROLE reader")
        root.execute("GRANT CREATE ON ALL TABLES TO view")
        PASSWORDS["view"] = "v"
        with psycopg.connect(**postgres(desk, "view")) as owner:
            owner.execute("CREATE VIEW of_view AS SELECT px FROM secret")
        root.execute("GRANT SELECT ON of_view TO ann")
        changes = [
            ("t", "REVOKE SELECT ON t FROM ann", ["GRANT SELECT ON t WHERE sym = 'A' TO ann"]),
            ("of_view", "REVOKE reader FROM view", ["GRANT reader TO view"]),
            ("t", "ALTER TABLE t ADD COLUMN more BIGINT", None),
            ("t", "GRANT SELECT ON t TO feed", None),
            ("t", "DROP USER ann", ["CREATE USER ann PASSWORD 'it''s'", "GRANT SELECT ON t WHERE sym = 'A' TO ann"]),
        ]
        for table, change, back in changes:
            with psycopg.connect(**postgres(desk, "ann")) as ann, psycopg.connect(**postgres(desk, "ann")) as other:
                ann.execute("BEGIN")
                ann.execute(f"DECLARE c CURSOR FOR SELECT px FROM {table}")
                ann.execute("DECLARE m CURSOR WITH HOLD FOR SELECT px FROM t")
                assert len(ann.execute("FETCH 1 FROM c").fetchall()) == 1
                served = other.cursor(name="held", withhold=True)
                served.execute(f"SELECT px FROM {table}")
                assert len(served.fetchmany(1)) == 1
                root.execute(change)
                if back is None:
                    assert len(ann.execute("FETCH 1 FROM c").fetchall()) == 1
                    assert len(served.fetchmany(1)) == 1
                else:
                    for read in (lambda: ann.execute("FETCH 1 FROM c"), lambda: served.fetchmany(1)):  # noqa: B023
                        with pytest.raises(psycopg.Error) as refused:
                            read()
                        assert refused.value.sqlstate in ("42501", "28000"), refused.value
                    ann.execute("ROLLBACK")
                for sql in back or []:
                    root.execute(sql)
        # The log has what was read before, and why no more was.
        kept = "SELECT state, rows FROM audit WHERE user_name = 'ann' AND text LIKE 'DECLARE%CURSOR FOR SELECT px FROM {}%'"
        until(lambda: len(root.execute(kept.format("of_view")).fetchall()) == 1, "the cursor that was cut off")
        assert root.execute(kept.format("of_view")).fetchall() == [("42501", 1)]
        until(lambda: len(root.execute(kept.format("t")).fetchall()) == 4, "the others")
        assert sorted(root.execute(kept.format("t")).fetchall()) == [("00000", 2), ("00000", 2), ("28000", 1), ("42501", 1)]
        del PASSWORDS["view"]


def test_queries_tell_whose_they_are(desk: Any) -> None:
    own = "SELECT user_name, protocol, address FROM queries()"
    expected = ("ann", "postgresql", "127.0.0.1")
    with psycopg.connect(**postgres(desk, "root")) as root, psycopg.connect(**postgres(desk, "ann")) as ann:
        assert ann.execute(own).fetchall() == [expected]
        with ann.transaction(), ann.cursor(name="open") as cursor:
            cursor.execute("SELECT * FROM generate_series(1, 10000000)")
            cursor.fetchmany(10)
            assert root.execute(f"{own} WHERE user_name <> current_user").fetchall() == [expected]
            assert psycopg.connect(**postgres(desk, "feed")).execute(own).fetchall() == [("feed", "postgresql", "127.0.0.1")]
    status, answer = asked(desk, f"/exec?query={quote(own)}", basic("ann"))
    assert (status, answer["dataset"]) == (200, [["ann", "http", "127.0.0.1"]])


def test_lines_tell_nothing_of_tables_that_are_hidden(desk: Any) -> None:
    with psycopg.connect(**postgres(desk, "root")) as root:
        root.execute("CREATE TABLE hidden(ts TIMESTAMP, acct SYMBOL, bonus DOUBLE, note VARCHAR) TIMESTAMP(ts)")
        root.execute("CREATE VIEW hidden_view AS SELECT * FROM hidden")
        root.execute("CREATE USER nix PASSWORD 'secret of nix'")
    PASSWORDS["nix"] = "secret of nix"
    try:
        for path in ["/write", "/api/v2/write?bucket=b"]:
            told = {
                asked(desk, path, basic("nix"), f"{line} 1717200000000000000".encode())[0]
                for line in ['hidden bonus="x"', "hidden note=1", "hidden acct=5i", "hidden_view a=1", 'hidden new="x"', "none a=1"]
            }
            assert told == {403}, path
        refused = "SELECT count(*) FROM audit WHERE user_name = 'nix' AND kind = 'INGEST' AND state = '42501'"
        with psycopg.connect(**postgres(desk, "root")) as root:
            until(lambda: root.execute(refused).fetchone() == (12,), "each is in the audit log")
    finally:
        del PASSWORDS["nix"]


def test_what_is_prepared_is_no_connection(desk: Any) -> None:
    with psycopg.connect(**postgres(desk, "root")) as root:
        root.execute("ALTER USER ann SET max_connections = 1")
    options = {"username": "ann", "password": PASSWORDS["ann"]}
    with flightsql.connect(f"grpc://localhost:{desk.ports['flight_port']}", db_kwargs=options, autocommit=True) as flight:
        cursors = [flight.cursor() for _ in range(3)]
        for cursor in cursors:
            cursor.adbc_prepare("SELECT 1")
        with psycopg.connect(**postgres(desk, "ann")) as ann:
            assert ann.execute("SELECT 1").fetchone() == (1,)
            for cursor in cursors:
                cursor.close()
        with psycopg.connect(**postgres(desk, "ann")) as ann:
            assert ann.execute("SELECT 2").fetchone() == (2,)


def test_catalogs_tell_of_roles_and_rights(desk: Any) -> None:
    with psycopg.connect(**postgres(desk, "root")) as root, psycopg.connect(**postgres(desk, "ann")) as ann:
        root.execute("CREATE ROLE chief")
        root.execute("GRANT chief TO ann")
        root.execute("GRANT INSERT, ALTER ON t TO chief")
        root.execute("GRANT SELECT (px) ON secret TO ann")
        roles = "SELECT rolname, rolsuper, rolcanlogin FROM pg_roles ORDER BY 1"
        all_roles = [("admin", True, False), ("ann", False, True), ("chief", False, False), ("feed", False, True),
                     ("reader", False, False), ("root", True, True), ("tickstone", True, False), ("writer", False, False)]  # fmt: skip
        assert root.execute(roles).fetchall() == all_roles
        assert ann.execute(roles).fetchall() == [all_roles[1], all_roles[2], all_roles[6]]
        members = (
            "SELECT m.rolname, r.rolname FROM pg_auth_members g JOIN pg_roles m ON m.oid = g.member "
            "JOIN pg_roles r ON r.oid = g.roleid ORDER BY 1, 2"
        )
        assert root.execute(members).fetchall() == [("ann", "chief"), ("feed", "writer"), ("root", "admin")]
        assert root.execute("SELECT usename, usesuper FROM pg_user ORDER BY 1").fetchall() == [
            ("ann", False), ("feed", False), ("root", True)]  # fmt: skip
        for connection, is_super in [(root, "on"), (ann, "off")]:
            assert connection.execute("SHOW is_superuser").fetchone() == (is_super,)
            assert connection.execute("SELECT current_setting('is_superuser')").fetchone() == (is_super,)
            assert connection.info.parameter_status("is_superuser") == is_super
        # Owners: whoever made it; of what the files' owner made, nobody's user.
        assert root.execute("SELECT tableowner FROM pg_tables WHERE tablename = 't'").fetchone() == ("root",)
        owner = "SELECT pg_get_userbyid(relowner), relowner::regrole::text FROM pg_class WHERE relname = 't'"
        assert root.execute(owner).fetchone() == ("root", "root")
        asks = {
            "has_table_privilege('t', 'SELECT')": True,
            "has_table_privilege('t', 'insert')": True,
            "has_table_privilege('t'::regclass::oid, 'DELETE')": False,
            "has_table_privilege('t', 'DELETE, SELECT')": True,
            "has_table_privilege('t', 'SELECT WITH GRANT OPTION')": False,
            "has_table_privilege('t', 'TRUNCATE')": True,
            "has_table_privilege('ann', 't', 'SELECT')": True,
            "has_table_privilege('chief', 't', 'SELECT')": False,
            "has_table_privilege('feed', 't', 'SELECT')": None,
            "has_table_privilege('secret', 'SELECT')": False,
            "has_any_column_privilege('secret', 'SELECT')": True,
            "has_column_privilege('secret', 'px', 'SELECT')": True,
            "has_table_privilege('pg_class', 'SELECT')": True,
            "has_schema_privilege('public', 'CREATE')": False,
            "has_schema_privilege('public', 'USAGE')": True,
            "has_database_privilege(current_database(), 'CREATE')": False,
            "pg_has_role('chief', 'MEMBER')": True,
            "pg_has_role('writer', 'MEMBER')": False,
        }
        for ask, expected in asks.items():
            assert ann.execute(f"SELECT {ask}").fetchone() == (expected,), ask
            if expected is not None and "chief', 't'" not in ask and "'ann'" not in ask:
                assert root.execute(f"SELECT {ask}").fetchone() == (True,), ask
        assert root.execute("SELECT has_table_privilege('feed', 't', 'SELECT')").fetchone() == (True,)
        granted = "SELECT grantee, table_name, privilege_type FROM information_schema.table_privileges ORDER BY 1, 2, 3"
        assert ann.execute(granted).fetchall() == [("ann", "t", "SELECT"), ("chief", "t", "INSERT"), ("chief", "t", "TRUNCATE")]
        assert ("root", "secret", "DELETE") in root.execute(granted).fetchall()
        columns = "SELECT column_name FROM information_schema.column_privileges WHERE grantee = 'ann' AND table_name = 'secret'"
        assert ann.execute(columns).fetchall() == [("px",)]
        # As \\dp of psql and JDBC's getTablePrivileges read them.
        acl = "SELECT relacl FROM pg_class WHERE relname = %s"
        root.execute("CREATE TABLE alone(ts TIMESTAMP, px DOUBLE) TIMESTAMP(ts)")
        root.execute('CREATE ROLE "the desk"')
        root.execute('GRANT SELECT, UPDATE ON alone TO "the desk"')
        everywhere = ["reader=r/root", "writer=ar/root", "admin=arwdD/root"]
        own = "root=arwdD/root"
        assert root.execute(acl, ["alone"]).fetchone() == ([own, *everywhere, '"the desk"=rw/root'],)
        assert ann.execute(acl, ["t"]).fetchone() == ([own, "ann=r/root", "chief=aD/root"],)
        assert ann.execute(acl, ["secret"]).fetchone() == (None,), "rights to a column are rights to that alone"
        attacl = "SELECT attname, attacl FROM pg_attribute WHERE attrelid = 'secret'::regclass AND attacl IS NOT NULL"
        assert ann.execute(attacl).fetchall() == [("px", ["ann=r/root"])]
    login = f"host=localhost port={desk.ports['pg_port']} user=ann password={PASSWORDS['ann']}"
    dp = ["psql", "-X", "-A", "-t", "-c", "\\dp secret", login]
    assert "px:\n  ann=r/root" in subprocess.run(dp, check=True, capture_output=True, text=True, timeout=60).stdout


def test_nobody_takes_the_catalog_from_others(desk: Any) -> None:
    asked_of = {
        "SELECT count(*) > 0 FROM pg_catalog.pg_class WHERE relname = 't'": True,
        "SELECT count(*) > 0 FROM pg_type WHERE typname = 'float8'": True,
        "SELECT count(*) = 0 FROM pg_roles WHERE rolname = 'taker' AND rolsuper": True,
    }
    with psycopg.connect(**postgres(desk, "root")) as root:
        for sql in ["CREATE USER taker PASSWORD 'x' IN ROLE writer", "GRANT CREATE ON ALL TABLES TO taker"]:
            root.execute(sql)
        PASSWORDS["taker"] = "x"
        for name in ["pg_class", "pg_type", "pg_namespace"]:
            assert asked(desk, "/write", basic("taker"), f"{name} x=1\n".encode())[0] == 204
        with psycopg.connect(**postgres(desk, "taker")) as taker:
            taker.execute("CREATE VIEW pg_roles AS SELECT 'taker' AS rolname, true AS rolsuper")
            for connection in [root, taker]:
                for sql, wanted in asked_of.items():
                    assert connection.execute(sql).fetchone() == (wanted,), sql
            # It is read by a name of its own.
            root.execute("ALTER TABLE pg_class RENAME TO measured")
            assert root.execute("SELECT x FROM measured").fetchone() == (1.0,)
            root.execute("DROP TABLE pg_type, pg_namespace")
            root.execute("DROP VIEW pg_roles")
            root.execute("DROP TABLE measured")
        root.execute("DROP USER taker")
        del PASSWORDS["taker"]
