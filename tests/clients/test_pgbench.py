"""pgbench with a script of its own at the PostgreSQL port: eight clients that read and write."""

import glob
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

# scripts/setup.sh puts it beside the Python of the tests where it is missing. Debian keeps it with the server, and has one
# on the PATH that only looks for that.
BESIDE = str(Path(sys.executable).with_name("pgbench"))
FOUND = [BESIDE, *glob.glob("/usr/lib/postgresql/*/bin/pgbench"), shutil.which("pgbench")]
PGBENCH = next((path for path in FOUND if path and os.access(path, os.X_OK)), "")
pytestmark = pytest.mark.skipif(not PGBENCH, reason="pgbench is missing: sh scripts/setup.sh clients")

SCRIPT = """
\\set id random(1, 1000)
SELECT price FROM trades WHERE id = :id;
SELECT max(price), count(*) FROM trades WHERE symbol = 'S1' AND id < :id;
INSERT INTO trades VALUES ('2024-08-08T10:00:00', 'NEW', 1.5, :client_id);
"""
PIPELINE = """
\\set id random(1, 1000)
\\startpipeline
INSERT INTO trades VALUES ('2024-08-08T10:00:00', 'NEW', 1.5, :client_id);
SELECT price FROM trades WHERE id = :id;
\\endpipeline
BEGIN;
SELECT price FROM trades WHERE id = :id;
END;
"""
CLIENTS = 8


@pytest.mark.parametrize(
    ("script", "flags"),
    [
        (SCRIPT, ["--protocol=simple", "--transactions=15"]),
        (SCRIPT, ["--protocol=extended", "--transactions=15"]),
        (SCRIPT, ["--protocol=prepared", "--time=2"]),
        (SCRIPT, ["--protocol=prepared", "--transactions=5", "--connect"]),
        (PIPELINE, ["--protocol=prepared", "--transactions=15"]),
    ],
    ids=["simple", "extended", "prepared", "connect", "pipeline"],
)
def test_clients_that_read_and_write(server: Any, tmp_path: Path, script: str, flags: list[str]) -> None:
    port = server.ports["pg_port"]
    with psycopg.connect(f"host=127.0.0.1 port={port} user=admin password=quest dbname=qdb", autocommit=True) as db:
        db.execute("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, id BIGINT) TIMESTAMP(ts)")
        with db.cursor().copy("COPY trades FROM STDIN") as copy:
            for n in range(1000):
                copy.write_row((f"2024-08-08T09:{n // 60:02}:{n % 60:02}", f"S{n % 5}", n / 4, n + 1))
        (tmp_path / "script.sql").write_text(script)
        command = [PGBENCH, "--no-vacuum", f"--client={CLIENTS}", "--jobs=2", f"--file={tmp_path}/script.sql", *flags]
        login = ["--host=127.0.0.1", f"--port={port}", "--username=admin", "qdb"]
        environment = {**os.environ, "PGPASSWORD": "quest", "LC_ALL": "C"}
        done = subprocess.run([*command, *login], capture_output=True, text=True, timeout=60, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "ERROR" not in done.stderr and "aborted" not in done.stderr, done.stderr
        processed = re.search(r"actually processed: (\d+)", done.stdout)
        assert processed is not None and int(processed[1]) >= CLIENTS
        assert "failed transactions: 0 " in done.stdout
        found = db.execute("SELECT count(*), count(DISTINCT id) FROM trades WHERE symbol = 'NEW'").fetchone()
    assert found == (int(processed[1]), CLIENTS)
