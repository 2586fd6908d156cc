"""Users who prove who they are by a certificate of `tickstone cert --user`, over every port; logins bound to a connection."""

import json
import socket
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi
import psycopg
import pyarrow.flight
import pytest
import sqlalchemy
import sqlalchemy.dialects
import tickstone
from serving import until
from websockets.sync.client import connect


def cert(program: Path, out: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, "cert", "--out", out, *arguments], capture_output=True, text=True, timeout=60)


@pytest.fixture
def authority(program: Path, tmp_path: Path) -> Path:
    """A directory with an authority, and certificates of a server and of the users ann, feed and gone."""
    out = tmp_path / "certificates"
    for arguments in [[], ["--user", "ann"], ["--user", "feed"], ["--user", "gone"]]:
        done = cert(program, out, *arguments)
        assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def desk(program: Path, tmp_path: Path, authority: Path, serve: Callable[..., Any]) -> Any:
    """A server that takes TLS alone, and certificates of users."""
    for name, role in [("root", "--admin"), ("ann", "--role=reader"), ("feed", "--role=writer")]:
        command = [program, "user", "add", name, role, "--data", tmp_path / "data"]
        subprocess.run(command, input=f"secret of {name}\n", text=True, check=True, capture_output=True)
    served = serve(
        f"--tls-certificate={authority / 'server.pem'}", f"--tls-key={authority / 'server-key.pem'}",
        f"--tls-client-ca={authority / 'ca.pem'}", "--require-tls=true", "--audit=all",
    )
    with psycopg.connect(**postgres(served, authority, "root", password="secret of root")) as root:
        root.execute("CREATE TABLE t (ts TIMESTAMP, px DOUBLE) TIMESTAMP(ts)")
        root.execute("INSERT INTO t VALUES ('2024-01-01', 1.5), ('2024-01-02', 2.5)")
        root.execute("CREATE STREAM raw")
    return served


def postgres(served: Any, authority: Path, user: str, holder: str | None = None, **more: Any) -> dict[str, Any]:
    files = {"sslcert": str(authority / f"{holder}.pem"), "sslkey": str(authority / f"{holder}-key.pem")} if holder else {}
    return {
        "host": "localhost", "port": served.ports["pg_port"], "user": user, "autocommit": True, "sslmode": "verify-full",
        "sslrootcert": str(authority / "ca.pem"), **files, **more,
    }


def context(authority: Path, holder: str | None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(authority / "ca.pem"))
    if holder:
        made.load_cert_chain(authority / f"{holder}.pem", authority / f"{holder}-key.pem")
    return made


def test_postgresql(desk: Any, authority: Path) -> None:
    with psycopg.connect(**postgres(desk, authority, "ann", "ann")) as ann:
        assert ann.execute("SELECT current_user, count(*) FROM t").fetchone() == ("ann", 2)
        with pytest.raises(psycopg.Error, match="may not"):
            ann.execute("DELETE FROM t")
    # Somebody else's certificate proves nothing, and is no hindrance.
    with psycopg.connect(**postgres(desk, authority, "root", "ann", password="secret of root")) as root:
        assert root.execute("SELECT current_user").fetchone() == ("root",)
        logins = "SELECT count(*) FROM audit WHERE kind = 'LOGIN' AND user_name = 'ann' AND state = '00000'"
        until(lambda: root.execute(logins).fetchone() == (1,), "the login is in the audit log")
    for wrong in [{"user": "root", "holder": "ann"}, {"user": "gone", "holder": "gone"}, {"user": "ann"}]:
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(**postgres(desk, authority, **wrong, password="wrong"))


def test_logins_are_bound_to_their_connection(desk: Any, authority: Path) -> None:
    """libpq takes SCRAM-SHA-256-PLUS where it is offered, and refuses to go without where it must be bound."""
    bound = postgres(desk, authority, "root", password="secret of root", channel_binding="require")
    with psycopg.connect(**bound) as root:
        assert root.execute("SELECT 1").fetchone() == (1,)
    with psycopg.connect(**bound | {"channel_binding": "disable"}) as root:
        assert root.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError, match="wrong user or password"):
        psycopg.connect(**bound | {"password": "wrong"})


def test_http_and_websocket(desk: Any, authority: Path) -> None:
    https = f"https://localhost:{desk.ports['http_port']}"

    def asked(path: str, holder: str | None, body: bytes | None = None, **headers: str) -> tuple[int, Any]:
        request = urllib.request.Request(f"{https}{path}", data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, context=context(authority, holder)) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            text = error.read()
            return error.code, json.loads(text) if text else None

    assert asked("/exec?query=SELECT+current_user", "ann")[1]["dataset"] == [["ann"]]
    assert asked("/exec?query=SELECT+current_user", None)[0] == 401
    assert asked("/exec?query=SELECT+current_user", "gone")[0] == 401
    assert asked("/exec?query=SELECT+current_user", "ann", Authorization="Bearer wrong")[0] == 401
    assert asked("/write", "feed", b"t px=3 1704240000000000000")[0] == 204
    assert asked("/write", "ann", b"t px=3 1704240000000000000")[0] == 403
    assert asked("/exec?query=SELECT+count(*)+FROM+t", "ann")[1]["dataset"] == [[3]]
    address = f"wss://localhost:{desk.ports['http_port']}/subscribe"
    # As in test_tls.py.
    by_1_2 = context(authority, "ann")
    by_1_2.maximum_version = ssl.TLSVersion.TLSv1_2
    with connect(address, ssl=by_1_2) as ws:
        ws.send('{"query": "SUBSCRIBE SELECT px FROM t"}')
        assert "error" not in json.loads(ws.recv(timeout=20))


def test_lines(desk: Any, authority: Path) -> None:
    def sent(holder: str, lines: bytes) -> None:
        port = desk.ports["ilp_port"]
        with socket.create_connection(("localhost", port)) as plain:
            with context(authority, holder).wrap_socket(plain, server_hostname="localhost") as client:
                client.sendall(lines)

    def count() -> Any:
        with psycopg.connect(**postgres(desk, authority, "ann", "ann")) as ann:
            return ann.execute("SELECT count(*) FROM t").fetchone()

    sent("ann", b"t px=4 1704326400000000000\n")
    sent("feed", b"".join(b"t px=4 %d\n" % (1_704_326_400_000_000_000 + row) for row in range(1_000)))
    until(lambda: count() == (1_002,), "the rows of feed alone are stored")


def test_flight(desk: Any, authority: Path) -> None:
    port = desk.ports["flight_port"]
    text = {name: (authority / f"{name}.pem").read_text() for name in ["ca", "ann", "ann-key"]}
    options = {
        "adbc.flight.sql.client_option.tls_root_certs": text["ca"],
        "adbc.flight.sql.client_option.mtls_cert_chain": text["ann"],
        "adbc.flight.sql.client_option.mtls_private_key": text["ann-key"],
    }
    with adbc_driver_flightsql.dbapi.connect(f"grpc+tls://localhost:{port}", db_kwargs=options, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM t")
            assert cursor.fetchone() == (2,)
            with pytest.raises(adbc_driver_flightsql.dbapi.Error):
                cursor.execute("DELETE FROM t")
    roots = {"tls_root_certs": text["ca"]}
    with pyarrow.flight.connect(f"grpc+tls://localhost:{port}", **roots) as stranger:
        with pytest.raises(pyarrow.flight.FlightUnauthenticatedError):
            list(stranger.list_flights())
    with pyarrow.flight.connect(
        f"grpc+tls://localhost:{port}", **roots, cert_chain=text["ann"], private_key=text["ann-key"]
    ) as ann:
        list(ann.list_flights())


def test_our_own(program: Path, desk: Any, authority: Path) -> None:
    flight, ca = f"localhost:{desk.ports['flight_port']}", authority / "ca.pem"
    files = {"cert": authority / "ann.pem", "key": authority / "ann-key.pem"}
    with tickstone.connect(f"tickstone+tls://{flight}", ca=ca, **files) as database:
        assert database.sql("SELECT sum(px) FROM t").fetchone() == (4.0,)
        with pytest.raises(tickstone.Error, match="may not"):
            database.sql("DROP TABLE t")
    for wrong, match in [
        ({"cert": files["cert"]}, "given together"),
        ({"cert": authority / "none.pem", "key": files["key"]}, "cannot read the certificate"),
        ({"cert": files["cert"], "key": ca}, "has no key"),
        ({"cert": authority / "gone.pem", "key": authority / "gone-key.pem"}, "gone"),
        ({}, "who asks"),
    ]:
        with pytest.raises((tickstone.Error, ValueError), match=match):
            tickstone.connect(f"tickstone+tls://{flight}", ca=ca, **wrong)
    others = authority.parent / "others"
    for arguments in [[], ["--user", "ann"]]:
        assert cert(program, others, *arguments).returncode == 0
    stranger = {"cert": others / "ann.pem", "key": others / "ann-key.pem"}
    with pytest.raises(tickstone.Error, match="refuses the certificate of this client"):
        tickstone.connect(f"tickstone+tls://{flight}", ca=ca, **stranger)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(**postgres(desk, others, "ann", "ann", sslrootcert=str(ca)))
    # Refused before anybody was asked who they are: the log has both all the same.
    refused = "SELECT DISTINCT protocol FROM audit WHERE kind = 'LOGIN' AND message LIKE '%certificate is refused%' ORDER BY 1"
    with psycopg.connect(**postgres(desk, authority, "root", password="secret of root")) as root:
        until(lambda: root.execute(refused).fetchall() == [("flight",), ("postgresql",)], "the refused ones", 60)
    asked = f"ca={ca}&cert={files['cert']}&key={files['key']}"
    # As the package says of itself where it is installed.
    sqlalchemy.dialects.registry.register("tickstone", "tickstone.sqlalchemy_dialect", "TickstoneDialect")
    engine = sqlalchemy.create_engine(f"tickstone://{flight}/?{asked}")
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.text("SELECT count(*) FROM t")).scalar() == 2
    command = [program, "sql", "--quiet", "--format", "csv", "-c", "SELECT count(*) AS n FROM t", "--connect"]
    done = subprocess.run([*command, f"tickstone+tls://{flight}?{asked}"], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("n\n2\n", "")
    feed = asked.replace("ann", "feed")
    stream = f"tickstone+tls://localhost:{desk.ports['stream_port']}"
    for words, holder, text in [("append", feed, None), ("since", asked, "{}\n")]:
        called = [program, "stream", words, "raw", *(["0"] if words == "since" else []), "--connect", f"{stream}?{holder}"]
        done = subprocess.run(called, input="{}\n" if text is None else None, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and (text is None or done.stdout == text), done.stderr
    for holder in [f"ca={ca}", asked]:
        called = [program, "stream", "append", "raw", "--connect", f"{stream}?{holder}"]
        done = subprocess.run(called, input="{}\n", capture_output=True, text=True, timeout=60)
        assert done.returncode != 0, "neither a stranger nor a reader appends"


def test_certificates_of_users(program: Path, authority: Path) -> None:
    assert (authority / "ann-key.pem").stat().st_mode & 0o777 == 0o600
    verify = ["openssl", "verify", "-x509_strict", "-purpose", "sslclient", "-CAfile", authority / "ca.pem", authority / "ann.pem"]
    assert "OK" in subprocess.run(verify, check=True, capture_output=True, text=True).stdout
    for name in ["", "ca", "Server", "../ann", "a/b", ".ann", "ann-key"]:
        done = cert(program, authority, "--user", name)
        assert done.returncode == 2 and "name of files too" in done.stderr, name
    done = cert(program, authority, "--user", "ann", "localhost")
    assert done.returncode == 2 and "cannot be used with" in done.stderr
