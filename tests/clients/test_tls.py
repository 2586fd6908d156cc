"""TLS with the clients of other systems, by certificates of `tickstone cert`."""

import asyncio
import datetime
import os
import shutil
import ssl
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi
import asyncpg
import psycopg
import pyarrow.flight
import pytest
import tickstone
from questdb import QuestDBError, Sender, TimestampNanos
from serving import until
from websockets.sync.client import connect


@pytest.fixture
def authority(program: Path, tmp_path: Path) -> Path:
    """A directory with an authority and a certificate for this machine."""
    out = tmp_path / "certificates"
    subprocess.run([program, "cert", "--out", out], check=True, capture_output=True)
    return out


@pytest.fixture
def tls(serve: Callable[..., Any], authority: Path) -> Any:
    """A server that takes TLS alone."""
    return serve(
        f"--tls-certificate={authority / 'server.pem'}", f"--tls-key={authority / 'server-key.pem'}", "--require-tls=true"
    )


def counted(tls: Any, authority: Path, table: str) -> int:
    with psycopg.connect(**postgres(tls, authority)) as connection:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # type: ignore[index]


def postgres(tls: Any, authority: Path) -> dict[str, Any]:
    return {
        "host": "localhost", "port": tls.ports["pg_port"], "user": "me", "autocommit": True,
        "sslmode": "verify-full", "sslrootcert": str(authority / "ca.pem"),
    }


def trusting(authority: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority / "ca.pem"))


def test_postgresql(tls: Any, authority: Path) -> None:
    with psycopg.connect(**postgres(tls, authority)) as connection:
        connection.execute("CREATE TABLE t (ts TIMESTAMP, x INT) TIMESTAMP(ts)")
        with connection.cursor().copy("COPY t FROM STDIN") as copy:
            for row in range(20_000):
                copy.write_row((f"2024-01-01T00:00:{row % 60:02}", row))
        rows = connection.execute("SELECT x FROM t ORDER BY x").fetchall()
        assert [row[0] for row in rows] == list(range(20_000))
        assert connection.info.pgconn.ssl_in_use
        # Another connection carries the key that cancels.
        connection.cancel_safe()
    with pytest.raises(psycopg.OperationalError, match="sslmode=require"):
        psycopg.connect(**postgres(tls, authority) | {"sslmode": "disable"})
    system = {"sslrootcert": "/etc/ssl/certs/ca-certificates.crt"}
    with pytest.raises(psycopg.OperationalError, match="certificate verify failed|does not exist"):
        psycopg.connect(**postgres(tls, authority) | system)

    async def by_asyncpg() -> Any:
        port = tls.ports["pg_port"]
        connection = await asyncpg.connect(host="localhost", port=port, user="me", ssl=trusting(authority))
        try:
            return await connection.fetchval("SELECT count(*) FROM t WHERE x < $1", 10)
        finally:
            await connection.close()

    assert asyncio.run(by_asyncpg()) == 10


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is missing: sh scripts/setup.sh clients")
def test_psql(tls: Any, authority: Path) -> None:
    conninfo = f"host=localhost port={tls.ports['pg_port']} user=me sslmode=verify-full sslrootcert={authority / 'ca.pem'}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    done = subprocess.run(
        ["psql", conninfo, "-Atc", "SELECT 6 * 7"], capture_output=True, text=True, timeout=30, env=kept | {"PSQLRC": "/dev/null"}
    )
    assert (done.stdout, done.stderr) == ("42\n", "")


def test_http_and_websocket(tls: Any, authority: Path) -> None:
    https = f"https://localhost:{tls.ports['http_port']}"
    body = b"".join(b"t,s=a x=%d %d\n" % (row, row) for row in range(50_000))
    with urllib.request.urlopen(f"{https}/write", data=body, context=trusting(authority)) as answer:
        assert answer.status == 204
    with urllib.request.urlopen(f"{https}/exp?query=SELECT+x+FROM+t", context=trusting(authority)) as answer:
        assert len(answer.read().splitlines()) == 50_001
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(f"{https}/ping", context=ssl.create_default_context())
    address = f"wss://localhost:{tls.ports['http_port']}/subscribe"
    # The client's two threads share the connection, which Python's TLS 1.3 cannot take: one in 300 would stall.
    by_1_2 = trusting(authority)
    by_1_2.maximum_version = ssl.TLSVersion.TLSv1_2
    with connect(address, ssl=by_1_2) as socket:
        socket.send('{"query": "SUBSCRIBE SELECT x FROM t"}')
        assert socket.recv(timeout=20)


def test_lines_by_questdb(tls: Any, authority: Path) -> None:
    roots = f"tls_roots={authority / 'ca.pem'};"
    for scheme, port in [("tcps", "ilp_port"), ("https", "http_port")]:
        with Sender.from_conf(f"{scheme}::addr=localhost:{tls.ports[port]};{roots}") as sender:
            for row in range(1_000):
                sender.row(f"by_{scheme}", columns={"x": row}, at=TimestampNanos(row + 1))
    until(lambda: counted(tls, authority, "by_tcps") == 1_000, "all rows are stored")
    assert counted(tls, authority, "by_https") == 1_000
    with pytest.raises(QuestDBError), Sender.from_conf(f"https::addr=localhost:{tls.ports['http_port']};retry_timeout=0;") as sender:
        sender.row("stranger", columns={"x": 1}, at=TimestampNanos(1))


def test_our_own(program: Path, tls: Any, authority: Path) -> None:
    port, ca = tls.ports["flight_port"], authority / "ca.pem"
    with tickstone.connect(f"tickstone+tls://localhost:{port}", ca=ca) as database:
        database.sql("CREATE TABLE t (ts TIMESTAMP, x INT) TIMESTAMP(ts)")
        days = [datetime.datetime(2024, 1, day, tzinfo=datetime.timezone.utc) for day in (1, 2, 3)]
        database.append("t", {"ts": days, "x": [1, 2, 3]})
        assert database.sql("SELECT sum(x) FROM t").fetchone() == (6,)

    def shell(address: str) -> tuple[str, str]:
        command = [program, "sql", "--quiet", "--format", "csv", "-c", "SELECT count(*) AS n FROM t", "--connect", address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.stdout, done.stderr

    assert shell(f"tickstone+tls://127.0.0.1:{port}?ca={ca}") == ("n\n3\n", "")
    for address, wanted in [
        (f"tickstone+tls://localhost:{port}", "is not trusted"),
        (f"tickstone+tls://localhost:{port}?ca={authority / 'server-key.pem'}", "has no certificate"),
        (f"tickstone+tls://localhost:{port}?ca={authority / 'none.pem'}", "cannot read the certificate"),
        (f"tickstone://localhost:{port}", "tickstone+tls://"),
    ]:
        told, error = shell(address)
        assert told == "" and wanted in error, f"{address}: {error}"
    with pytest.raises(ValueError, match="tickstone.tls"):
        tickstone.connect(f"tickstone://localhost:{port}", ca=ca)
    subprocess.run([program, "cert", "--out", authority, "ticks.example.com"], check=True, capture_output=True)
    until(lambda: "certificate" in shell(f"tickstone+tls://localhost:{port}?ca={ca}")[1], "it is for another name")


def test_certificates(program: Path, authority: Path, serve: Callable[..., Any]) -> None:
    """Another certificate of the same authority holds for servers that run, and for clients that trust it."""
    server = serve(f"--tls-certificate={authority / 'server.pem'}", f"--tls-key={authority / 'server-key.pem'}")
    https = f"https://127.0.0.1:{server.ports['http_port']}/ping"
    with urllib.request.urlopen(https, context=trusting(authority)) as answer:
        assert answer.status == 204
    kept = (authority / "ca.pem").read_text()
    subprocess.run([program, "cert", "--out", authority, "ticks.example.com"], check=True, capture_output=True)
    assert (authority / "ca.pem").read_text() == kept
    assert {(authority / name).stat().st_mode & 0o777 for name in ["ca-key.pem", "server-key.pem"]} == {0o600}

    def is_replaced() -> bool:
        try:
            urllib.request.urlopen(https, context=trusting(authority)).close()
        except urllib.error.URLError as error:
            assert "IP address mismatch" in str(error)
            return True
        return False

    until(is_replaced, "the new certificate is for another name")
    # Those of another authority, of any name, are taken, and a key that is not its own is not.
    other = authority / "other"
    other.mkdir()
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=Our own",
         "-addext", "keyUsage=keyCertSign", "-keyout", other / "ca-key.pem", "-out", other / "ca.pem"],
        check=True, capture_output=True,
    )
    subprocess.run([program, "cert", "--out", other], check=True, capture_output=True)
    verify = ["openssl", "verify", "-x509_strict", "-CAfile", other / "ca.pem", other / "server.pem"]
    assert "OK" in subprocess.run(verify, check=True, capture_output=True, text=True).stdout
    (other / "ca-key.pem").write_text((authority / "ca-key.pem").read_text())
    done = subprocess.run([program, "cert", "--out", other], capture_output=True, text=True)
    assert done.returncode == 2 and "is not the key of it" in done.stderr
    (authority / "ca-key.pem").unlink()
    done = subprocess.run([program, "cert", "--out", authority], capture_output=True, text=True)
    assert done.returncode == 2 and "without the other" in done.stderr


def test_flight(tls: Any, authority: Path) -> None:
    roots = (authority / "ca.pem").read_text()
    location = f"grpc+tls://localhost:{tls.ports['flight_port']}"
    options = {"adbc.flight.sql.client_option.tls_root_certs": roots}
    with adbc_driver_flightsql.dbapi.connect(location, db_kwargs=options, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT value FROM generate_series(1, 100000)")
            assert cursor.fetch_arrow_table().num_rows == 100_000
    with pytest.raises(pyarrow.flight.FlightError), pyarrow.flight.connect(location) as stranger:
        list(stranger.list_flights())


def test_the_program_s_own_streams(tls: Any, authority: Path, program: Path) -> None:
    port = tls.ports["stream_port"]
    url = f"tickstone+tls://localhost:{port}?ca={authority / 'ca.pem'}"

    def stream(command: str, *arguments: str, url: str = url, **options: Any) -> subprocess.CompletedProcess[str]:
        called = [program, "stream", command, "raw", *arguments, "--connect", url]
        return subprocess.run(called, capture_output=True, text=True, timeout=60, **options)

    documents = "".join(f'{{"n": {n}, "text": "{"x" * (n % 700)}"}}\n' for n in range(5_000))
    appended = stream("append", input=documents)
    assert appended.returncode == 0, appended.stderr
    assert stream("since", "0").stdout == documents
    by_system = stream("since", "0", url=f"tickstone+tls://localhost:{port}")
    assert by_system.returncode != 0 and "certificate" in by_system.stderr
    in_the_clear = stream("since", "0", url=f"localhost:{port}")
    assert in_the_clear.returncode != 0 and "closed the connection" in in_the_clear.stderr
    # The same address under a name that its certificate has not.
    other_name = stream("since", "0", url=url.replace("localhost", "0.0.0.0"))
    assert other_name.returncode != 0 and "certificate" in other_name.stderr.replace(str(authority), "")
