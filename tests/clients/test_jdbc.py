"""The JDBC driver at the PostgreSQL port: jdbc/Trades.java, a program of which each check is a test here."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import Server

PROGRAM = Path(__file__).parent / "jdbc" / "Trades.java"
# scripts/setup.sh puts the driver beside the Python of the tests.
JAR = next(iter((Path(sys.executable).parent.parent / "jdbc").glob("postgresql-*.jar")), None)
pytestmark = pytest.mark.skipif(
    JAR is None or shutil.which("javac") is None, reason="Java or the driver is missing: sh scripts/setup.sh clients"
)
CHECKS = [
    "tables, rows and questions",
    "every setter and getter",
    "timestamps of another zone",
    "types that are said",
    "nanoseconds are cut",
    "batches",
    "rows by pieces",
    "transactions",
    "cancelling",
    "metadata",
    "states of the connection",
    "prepared while others change the table",
    "copies",
    "errors",
    "DBeaver",
]


@pytest.fixture(scope="module")
def said(program: Path, tmp_path_factory: Any) -> Iterator[dict[str, str]]:
    """What each check said: one program does them all, on one server."""
    server = Server(program, tmp_path_factory.mktemp("jdbc") / "data")
    command = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-Xshare:auto",
        "-cp",
        str(JAR),
        str(PROGRAM),
        str(server.ports["pg_port"]),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=PROGRAM.parent)
    assert done.returncode == 0, done.stderr
    yield dict(line.split("\t", 1) for line in done.stdout.splitlines())
    assert server.stop() == 0


@pytest.mark.parametrize("check", CHECKS)
def test_jdbc(said: dict[str, str], check: str) -> None:
    assert said[check] == "ok", said[check].replace("\\n", "\n")


def test_no_check_is_left_out(said: dict[str, str]) -> None:
    assert list(said) == CHECKS
