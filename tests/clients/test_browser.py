"""A browser as a client, over TLS with users: who it says it is, what its pages may ask, and whose pages may."""

import base64
import hashlib
import http.server
import json
import re
import shutil
import subprocess
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from websockets.sync.client import ClientConnection, connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PASSWORD = "a password: of ann"

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is missing: sh scripts/setup.sh clients")


class Page:
    """A page of a browser, which is told what to do by the DevTools protocol."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.number = 0
        self.call("Page.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        self.connection.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while (answer := json.loads(self.connection.recv(timeout=60))).get("id") != self.number:
            pass
        return answer["result"]

    def visit(self, address: str) -> str | None:
        """Why it could not be visited."""
        visited = self.call("Page.navigate", url=address)
        if error := visited.get("errorText"):
            return error
        while json.loads(self.connection.recv(timeout=60)).get("method") != "Page.loadEventFired":
            pass
        return None

    def run(self, script: str) -> Any:
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")


@contextmanager
def browser(folder: Path, *arguments: str) -> Iterator[Page]:
    folder.mkdir()
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
    command += ["--remote-debugging-port=0", f"--user-data-dir={folder}", *arguments, "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        port = next(found[1] for line in process.stderr if (found := re.search(r"ws://127\.0\.0\.1:(\d+)/", line)))
        # What it goes on to say is not waited for.
        threading.Thread(target=process.stderr.read, daemon=True).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=60) as answer:
            page = next(target for target in json.load(answer) if target["type"] == "page")
        with connect(page["webSocketDebuggerUrl"], max_size=None) as connection:
            yield Page(connection)
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def desk(program: Path, tmp_path: Path, serve: Any) -> tuple[Any, Path]:
    """A server that takes TLS alone, where ann reads and hears of the rows of A; and its certificate."""
    out = tmp_path / "certificates"
    subprocess.run([program, "cert", "--out", out], check=True, capture_output=True)
    command = [program, "user", "add", "root", "--admin", "--data", tmp_path / "data"]
    subprocess.run(command, input=b"r\n", check=True, capture_output=True)
    certificate = out / "server.pem"
    served = serve(f"--tls-certificate={certificate}", f"--tls-key={out / 'server-key.pem'}", "--require-tls=true")
    root = {"host": "localhost", "port": served.ports["pg_port"], "user": "root", "password": "r", "sslmode": "require"}
    with psycopg.connect(**root, autocommit=True) as admin:
        admin.execute("CREATE TABLE t (ts TIMESTAMP, sym SYMBOL, px DOUBLE) TIMESTAMP(ts)")
        admin.execute("INSERT INTO t VALUES ('2024-01-01', 'A', 1.5), ('2024-01-02', 'B', 2.5)")
        admin.execute(f"CREATE USER ann PASSWORD '{PASSWORD}'")
        admin.execute("GRANT SELECT, SUBSCRIBE ON t WHERE sym = 'A' TO ann")
    return served, certificate


def trusting(certificate: Path) -> str:
    """Has a browser trust the key of a certificate, and no other that no authority vouches for."""
    pem = subprocess.run(["openssl", "x509", "-pubkey", "-noout", "-in", certificate], check=True, capture_output=True)
    command = ["openssl", "pkey", "-pubin", "-outform", "der"]
    key = subprocess.run(command, input=pem.stdout, check=True, capture_output=True).stdout
    hashed = hashlib.sha256(key).digest()
    return f"--ignore-certificate-errors-spki-list={base64.b64encode(hashed).decode()}"


def test_a_browser_does_not_trust_an_authority_of_a_lab(desk: tuple[Any, Path], tmp_path: Path) -> None:
    with browser(tmp_path / "browser") as page:
        visited = page.visit(f"https://localhost:{desk[0].ports['http_port']}/settings")
        assert visited == "net::ERR_CERT_AUTHORITY_INVALID"


def test_pages_ask_and_listen_as_their_user(desk: tuple[Any, Path], tmp_path: Path) -> None:
    served, certificate = desk
    host = f"localhost:{served.ports['http_port']}"
    rows = "fetch('/exec?query=' + encodeURIComponent('SELECT sym, px FROM t')).then(a => a.json()).then(a => a.dataset)"
    with browser(tmp_path / "browser", trusting(certificate)) as page:
        # Nobody may ask, and what answers anybody is answered.
        assert page.visit(f"https://{host}/settings") is None
        assert page.run("fetch('/exec?query=SELECT+1', {credentials: 'omit'}).then(a => a.status)") == 401
        # As an address of a bookmark has it; the browser says so to each request from then on.
        user = f"ann:{PASSWORD.replace(':', '%3A').replace(' ', '%20')}"
        assert page.visit(f"https://{user}@{host}/exec?query=SELECT+1") is None
        assert page.visit(f"https://{host}/exec?query=SELECT+current_user") is None
        assert json.loads(page.run("document.body.innerText"))["dataset"] == [["ann"]]
        assert page.run(rows) == [["A", 1.5]]
        assert page.run("fetch('/exec?query=DROP+TABLE+t').then(a => a.status)") == 403
        listen = """
            new Promise((resolve, reject) => {
                const heard = [], socket = new WebSocket(`wss://${location.host}/subscribe`);
                socket.onopen = () => socket.send(JSON.stringify({query: "SELECT sym, px FROM t", from: "beginning"}));
                socket.onerror = () => reject(new Error("no WebSocket"));
                socket.onmessage = ({data}) => {
                    const {event, rows, message} = JSON.parse(data);
                    if (event === "error") reject(new Error(message));
                    heard.push(...(rows ?? []));
                    if (heard.length === 2) resolve(heard);
                    if (event === "caught_up") fetch("/settings").then(() => document.title = "caught up");
                };
            })
        """
        page.run(f"window.heard = {listen}; 0")
        page.run("new Promise(done => setInterval(() => document.title === 'caught up' && done(), 20))")
        with psycopg.connect(
            host="localhost", port=served.ports["pg_port"], user="root", password="r", sslmode="require", autocommit=True
        ) as root:
            root.execute("INSERT INTO t VALUES ('2024-01-03', 'B', 3.5), ('2024-01-03', 'A', 4.5)")
        assert [row["px"] for row in page.run("window.heard")] == [1.5, 4.5]
        # A page of another host, though the browser knows who ann is.
        with elsewhere() as other:
            assert page.visit(other) is None
            ask = "fetch('https://{host}{path}', {{mode: '{mode}', credentials: 'include'}}).then(a => a.type, e => 'refused')"
            assert page.run(ask.format(host=host, path="/exec?query=SELECT+1", mode="cors")) == "refused"
            page.run(ask.format(host=host, path="/exec?query=INSERT+INTO+t+SELECT+*+FROM+t", mode="no-cors"))
            socket = f"""
                new Promise(done => {{
                    const socket = new WebSocket('wss://{host}/subscribe');
                    socket.onopen = () => done('open');
                    socket.onerror = () => done('refused');
                }})
            """
            assert page.run(socket) == "refused"
            assert page.run(f"fetch('https://{host}/write', {{method: 'POST', mode: 'no-cors', body: 't px=1'}}).then(a => 0)") == 0
        assert page.visit(f"https://{host}/exec?query=SELECT+count(*)+FROM+t") is None
        assert json.loads(page.run("document.body.innerText"))["dataset"] == [[2]]


@contextmanager
def elsewhere() -> Iterator[str]:
    """A page of another host."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<p>elsewhere")

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
