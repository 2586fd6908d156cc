"""What each kind of user may do, by statement and by endpoint: the tables of docs/server/security.md are made of it.

UPDATE_DOCS=1 writes the page. A kind of statement, an endpoint or a port without a row fails.
"""

import base64
import json
import os
import re
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flightsql
import psycopg
import pytest
from serving import PORTS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "server" / "security.md"

# Each asks as one of these. "revoked" had the admin role when its connection began.
USERS = ["nobody", "none", "reader", "writer", "owner", "rows", "columns", "revoked", "admin"]

# The kind of statement, how it is written, and how what it does is undone where it succeeds.
STATEMENTS: list[tuple[str, str, str]] = [
    ("SELECT", "SELECT ts, px FROM t", ""),
    ("SELECT", "SELECT * FROM t", ""),
    ("SELECT", "SELECT * FROM v", ""),
    ("SELECT", "SELECT * FROM audit", ""),
    ("SELECT", "SELECT * FROM read_csv('x.csv')", ""),
    ("SELECT", "SELECT * FROM tables()", ""),
    ("SELECT", "SELECT * FROM views()", ""),
    ("SELECT", "SELECT * FROM streams()", ""),
    ("SELECT", "SELECT * FROM stream('raw')", ""),
    ("SELECT", "SELECT * FROM table_partitions('t')", ""),
    ("SELECT", "SELECT * FROM table_storage('t')", ""),
    ("SELECT", "SELECT * FROM queries()", ""),
    ("SELECT", "SELECT * FROM metrics()", ""),
    ("SELECT", "SELECT * FROM config()", ""),
    ("EXPLAIN", "EXPLAIN SELECT ts FROM t", ""),
    ("DESCRIBE", "DESCRIBE SELECT ts FROM t", ""),
    ("SUMMARIZE", "SUMMARIZE SELECT ts FROM t", ""),
    ("SHOW", "SHOW COLUMNS FROM t", ""),
    ("SHOW", "SHOW PARTITIONS FROM t", ""),
    ("SHOW", "SHOW CREATE TABLE t", ""),
    ("SHOW", "SHOW USERS", ""),
    ("SHOW", "SHOW METRICS", ""),
    ("INSERT", "INSERT INTO t VALUES ('2024-03-01', 'A', 1)", ""),
    ("INSERT", "INSERT INTO t VALUES ('2024-03-01', 'A', 1) RETURNING px", ""),
    ("UPDATE", "UPDATE t SET px = 2 WHERE px = 3", ""),
    ("DELETE", "DELETE FROM t WHERE px = 3", ""),
    (
        "MERGE",
        "MERGE INTO t3 USING (SELECT '2024-01-01'::TIMESTAMP AS ts, 'A' AS sym, 1.0 AS px) AS s"
        " ON t3.ts = s.ts AND t3.sym = s.sym WHEN MATCHED THEN UPDATE SET px = s.px",
        "",
    ),
    ("COPY TO", "COPY t TO 'x.csv'", ""),
    ("COPY FROM", "COPY t FROM 'x.csv'", ""),
    ("CREATE TABLE", "CREATE TABLE made (ts TIMESTAMP) TIMESTAMP(ts)", "DROP TABLE made"),
    ("CREATE TABLE", "CREATE OR REPLACE TABLE t3 (ts TIMESTAMP, sym SYMBOL, px DOUBLE) TIMESTAMP(ts) DEDUP UPSERT KEYS (ts, sym)", ""),
    ("CREATE TABLE", "CREATE TABLE made AS STREAM 'raw' FORMAT json (ts TIMESTAMP) TIMESTAMP(ts)", "DROP TABLE made; DROP TABLE IF EXISTS made_rejected"),
    ("CREATE VIEW", "CREATE VIEW w AS SELECT 1 AS a", "DROP VIEW w"),
    ("CREATE VIEW", "CREATE OR REPLACE VIEW v AS SELECT ts FROM t", "view"),
    ("DROP VIEW", "DROP VIEW v", "view"),
    ("CREATE MATERIALIZED VIEW", "CREATE MATERIALIZED VIEW m AS SELECT ts, sum(px) AS s FROM t SAMPLE BY 1d", "DROP MATERIALIZED VIEW m"),
    ("REFRESH MATERIALIZED VIEW", "REFRESH MATERIALIZED VIEW bars", ""),
    ("DROP MATERIALIZED VIEW", "DROP MATERIALIZED VIEW bars", "bars"),
    ("ALTER TABLE", "ALTER TABLE t ADD COLUMN more DOUBLE", "ALTER TABLE t DROP COLUMN more"),
    ("ALTER TABLE", "ALTER TABLE t2 OWNER TO u_owner", ""),
    ("TRUNCATE", "TRUNCATE TABLE t2", "fill2"),
    ("DROP TABLE", "DROP TABLE t2", "fill2"),
    ("DROP TABLE", "DROP TABLE t2 CASCADE", "fill2"),
    ("OPTIMIZE", "OPTIMIZE TABLE t", ""),
    ("CREATE STREAM", "CREATE STREAM s2", "DROP STREAM s2"),
    ("ALTER STREAM", "ALTER STREAM raw SET (max_bytes = '1GB')", ""),
    ("DROP STREAM", "DROP STREAM gone", "CREATE STREAM gone"),
    ("CHECKPOINT", "CHECKPOINT", ""),
    ("CANCEL QUERY", "CANCEL QUERY 1000000", ""),
    ("CREATE USER", "CREATE USER eve PASSWORD 'x'", "DROP USER eve"),
    ("ALTER USER", "ALTER USER other PASSWORD 'x'", ""),
    ("ALTER USER", "ALTER USER other SET max_rows = 5", ""),
    ("DROP USER", "DROP USER other", "CREATE USER other PASSWORD 'x'; CREATE TOKEN of_other FOR other"),
    ("CREATE ROLE", "CREATE ROLE r2", "DROP ROLE r2"),
    ("ALTER ROLE", "ALTER ROLE desk SET max_rows = 5", "ALTER ROLE desk RESET ALL"),
    ("DROP ROLE", "DROP ROLE desk", "CREATE ROLE desk"),
    ("CREATE TOKEN", "CREATE TOKEN k FOR other", "DROP TOKEN k"),
    ("DROP TOKEN", "DROP TOKEN of_other", "CREATE TOKEN of_other FOR other"),
    ("REASSIGN OWNED", "REASSIGN OWNED BY other TO other", ""),
    ("GRANT", "GRANT SELECT ON t TO other", "REVOKE SELECT ON t FROM other"),
    ("GRANT", "GRANT admin TO other", "REVOKE admin FROM other"),
    ("REVOKE", "REVOKE SELECT ON t FROM other", ""),
]

# Of a connection: they see what its user sees, and change nothing of the database.
OF_SESSIONS = {
    "BEGIN", "COMMIT", "ROLLBACK", "SET", "RESET", "DISCARD ALL", "DECLARE CURSOR", "FETCH", "MOVE", "CLOSE CURSOR",
    "PREPARE", "EXECUTE", "DEALLOCATE", "UNLISTEN",
}  # fmt: skip
# Which do not end; tests/clients/test_users.py has them.
ENDLESS = {"SUBSCRIBE": "SUBSCRIBE", "REPLAY": "SUBSCRIBE", "LISTEN": "SUBSCRIBE"}

LINE = b"t,sym=A px=1 1704240000000000000\n"
# Method, path with words, body.
ENDPOINTS: list[tuple[str, str, bytes | None]] = [
    ("get", "/exec?query=SELECT+ts+FROM+t", None),
    ("get", "/exp?query=SELECT+ts+FROM+t", None),
    ("get", "/query?query=SELECT+ts+FROM+t", None),
    ("post", "/imp?name=t&fmt=json", b"ts,sym,px\n2024-01-03T00:00:00Z,A,1\n"),
    ("get", "/chk?f=json&j=t", None),
    ("post", "/write", LINE),
    ("post", "/api/v2/write", LINE),
    ("post", "/api/v3/write_lp", LINE),
    ("get", "/api/v2/query", None),
    ("get", "/api/v3/query_influxql", None),
    ("get", "/write/v4", None),
    ("get", "/api/v4/write", None),
    ("get", "/read/v1", None),
    ("get", "/api/v1/read", None),
    ("get", "/subscribe", None),
    ("post", "/mcp", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()),
    ("get", "/settings", None),
    ("get", "/ping", None),
    ("get", "/health", None),
    ("get", "/ready", None),
    ("get", "/metrics", None),
    ("get", "/openapi.json", None),
]

FILL = "INSERT INTO {0} VALUES ('2024-01-01', 'A', 1.5), ('2024-01-02', 'B', 2.5)"
MAKE = "CREATE TABLE {0} (ts TIMESTAMP, sym SYMBOL, px DOUBLE) TIMESTAMP(ts)"
GRANTS = [
    "GRANT SELECT ON {0} WHERE sym = 'A' TO u_rows",
    "GRANT SELECT ON {0} (ts, px) TO u_columns",
]
RESTORE = {
    "fill2": [MAKE.format("t2").replace("TABLE", "TABLE IF NOT EXISTS"), FILL.format("t2"), *(grant.format("t2") for grant in GRANTS)],
    "view": ["CREATE OR REPLACE VIEW v AS SELECT ts FROM t"],
    "bars": ["CREATE MATERIALIZED VIEW bars AS SELECT ts, sum(px) AS s FROM t SAMPLE BY 1d"],
}


class Desk:
    """A server with a user of each kind."""

    files: Path

    def __init__(self, served: Any) -> None:
        self.served = served
        self.root = psycopg.connect(**self.postgresql("admin"))
        root = self.run
        for user in USERS[1:-1]:
            root(f"CREATE USER u_{user} PASSWORD 'x'")
        root("CREATE USER other PASSWORD 'x'", "CREATE ROLE desk", "CREATE TOKEN of_other FOR other")
        root("GRANT reader TO u_reader", "GRANT writer TO u_writer", "GRANT admin TO u_revoked")
        root("GRANT CREATE ON ALL TABLES TO u_owner", "CREATE STREAM raw", "CREATE STREAM gone")
        with psycopg.connect(**self.postgresql("owner")) as owner:
            for table in ("t", "t2", "t3"):
                owner.execute(MAKE.format(table) + (" DEDUP UPSERT KEYS (ts, sym)" if table == "t3" else ""))
                owner.execute(FILL.format(table))
            owner.execute("CREATE VIEW v AS SELECT ts FROM t")
            owner.execute("CREATE MATERIALIZED VIEW bars AS SELECT ts, sum(px) AS s FROM t SAMPLE BY 1d")
        for table in ("t", "t2", "t3"):
            root(*(grant.format(table) for grant in GRANTS))

    def undo(self, undo: str) -> None:
        if undo not in RESTORE:
            return self.run(undo)
        # Who owned it owns it again.
        with psycopg.connect(**self.postgresql("owner")) as owner:
            for sql in RESTORE[undo]:
                owner.execute(sql)

    def run(self, *statements: str) -> None:
        for sql in statements:
            self.root.execute(sql)

    def postgresql(self, user: str) -> dict[str, Any]:
        port = self.served.ports["pg_port"]
        return {"host": "localhost", "port": port, "user": f"u_{user}", "password": "x", "autocommit": True}

    def http(self, user: str, method: str, path: str, body: bytes | None = None) -> tuple[int, str]:
        request = urllib.request.Request(f"http://localhost:{self.served.ports['http_port']}{path}", data=body, method=method.upper())
        if body is not None and path.startswith("/mcp"):
            request.add_header("Content-Type", "application/json")
        if user != "nobody":
            request.add_header("Authorization", "Basic " + base64.b64encode(f"u_{user}:x".encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


def outcome(error: str | None) -> str:
    """What came of a statement, in a word."""
    if error is None:
        return "yes"
    for part, word in [
        ("was already imported", "yes"),
        ("there was no query", "yes"),
        ("does not exist", "hidden"),
        ("there is no ", "hidden"),
        ("may not", "no"),
        ("an admin does", "no"),
        ("wants to know who asks", "who?"),
        ("password", "who?"),
        ("names a file of the server is not run", "no"),
    ]:
        if part in error:
            return word
    return f"? {error}"


def by_http(desk: Desk, user: str, sql: str) -> str | None:
    status, text = desk.http(user, "get", f"/exec?query={urllib.parse.quote(sql)}")
    return None if status == 200 else text


def by_postgresql(desk: Desk, connections: dict[str, Any], user: str, sql: str) -> str | None:
    try:
        if user == "nobody":
            psycopg.connect(**(desk.postgresql("nobody") | {"password": ""})).close()
            return None
        connections[user].execute(sql)
    except psycopg.Error as error:
        return str(error)
    return None


def by_flight(desk: Desk, user: str, sql: str) -> str | None:
    options = {} if user == "nobody" else {"username": f"u_{user}", "password": "x"}
    try:
        address = f"grpc://localhost:{desk.served.ports['flight_port']}"
        with flightsql.connect(address, db_kwargs=options, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(sql)
            cursor.fetchall()
    except Exception as error:
        return str(error)
    return None


@pytest.fixture
def desk(program: Path, tmp_path: Path, serve: Callable[..., Any]) -> Iterator[Desk]:
    command = [program, "user", "add", "u_admin", "--admin", "--data", tmp_path / "data"]
    subprocess.run(command, input=b"x\n", check=True, capture_output=True)
    files = tmp_path / "files"
    files.mkdir()
    (files / "x.csv").write_text("ts,sym,px\n2024-01-01T00:00:00Z,A,1.0\n")
    desk = Desk(serve("--audit=changes", f"--files={files}"))
    desk.files = files
    yield desk


def test_every_kind_has_a_row() -> None:
    dialect = ROOT / "crates" / "query" / "src" / "dialect"
    kinds: set[str] = set()
    for name in ("statement.rs", "accounts.rs"):
        text = (dialect / name).read_text()
        body = text[text.index("fn kind(&self)") :]
        kinds |= set(re.findall(r'"([A-Z][A-Z ]+)"', body[: body.index("\n    }\n")]))
    rows = {kind for kind, _, _ in STATEMENTS} | OF_SESSIONS | set(ENDLESS)
    assert kinds - rows == set() and rows - kinds == set()

    routes = (ROOT / "crates" / "server" / "src" / "rest" / "mod.rs").read_text()
    paths = set(re.findall(r'path: "(/[^"]+)"', routes))
    assert {path.split("?")[0] for _, path, _ in ENDPOINTS} == paths

    shown = (ROOT / "crates" / "query" / "src" / "statements" / "show.rs").read_text()
    body = shown[shown.index("fn table_functions(") :]
    functions = set(re.findall(r'\("(\w+)", ', body[: body.index("\n}\n")]))
    read = {found[1] for _, sql, _ in STATEMENTS if (found := re.search(r"FROM (\w+)\(", sql))}
    assert functions <= read, functions - read
    assert set(PORTS) == {"http_port", "influx_port", "pg_port", "flight_port", "ilp_port", "stream_port"}


def test_the_page_says_what_each_may_do(desk: Desk) -> None:
    connections = {user: psycopg.connect(**desk.postgresql(user)) for user in USERS[1:]}
    desk.run("REVOKE admin FROM u_revoked")
    wrong: list[Any] = []
    lines = [f"| statement | {' | '.join(USERS)} |", "|---|" + "---|" * len(USERS)]
    for _, sql, undo in STATEMENTS:
        cells = []
        for user in USERS:
            found = {}
            for protocol, ask in [
                ("postgresql", lambda user, sql: by_postgresql(desk, connections, user, sql)),
                ("http", lambda user, sql: by_http(desk, user, sql)),
                ("flight", lambda user, sql: by_flight(desk, user, sql)),
            ]:
                error = ask(user, sql.replace("'x.csv'", f"'{desk.files}/x.csv'"))
                found[protocol] = outcome(error)
                if found[protocol].startswith("?"):
                    wrong.append((sql, user, protocol, error))
                if error is None and undo:
                    desk.undo(undo)
            if len(set(found.values())) != 1:
                wrong.append((sql, user, found))
            cells.append(found["http"])
        lines.append(f"| `{sql.replace('|', chr(92) + '|')}` | {' | '.join(cells)} |")
    for connection in connections.values():
        connection.close()
    assert not wrong, "\n".join(map(str, wrong))
    generated("statements", lines)

    lines = [f"| endpoint | {' | '.join(USERS)} |", "|---|" + "---|" * len(USERS)]
    for method, path, body in ENDPOINTS:
        cells = []
        for user in USERS:
            status, text = desk.http(user, method, path, body)
            assert status < 500, (path, user, text)
            cells.append(str(status))
        lines.append(f"| {method.upper()} `{path}` | {' | '.join(cells)} |")
    generated("endpoints", lines)


def generated(name: str, lines: list[str]) -> None:
    text = PAGE.read_text()
    pattern = re.compile(rf"(<!-- {name} -->\n)(.*?)(<!-- end of {name} -->)", re.DOTALL)
    assert pattern.search(text), f"{PAGE} has no piece '{name}'"
    made = pattern.sub(lambda found: found[1] + "\n" + "\n".join(lines) + "\n\n" + found[3], text)
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(made)
    assert PAGE.read_text() == made, f"{PAGE} is out of date: UPDATE_DOCS=1 writes it"
