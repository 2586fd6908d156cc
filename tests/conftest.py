"""What all Python tests share: the program under test and a database directory to run it on."""

import csv
import io
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.ipc
import pytest
from serving import Server

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
# Longest that one command may take, in seconds, on a slow machine in the dev profile.
COMMAND_SECONDS = 300


class Tickstone:
    """The program, run on one database directory."""

    def __init__(self, program: pathlib.Path, data: pathlib.Path):
        self.program = program
        self.data = data

    def command(self, *arguments: object) -> list[str]:
        """The command line of a sub-command on this directory."""
        subcommand, *rest = map(str, arguments)
        return [str(self.program), subcommand, "--data", str(self.data), *rest]

    def run(self, *arguments: object, check: bool = True, cwd=None) -> subprocess.CompletedProcess:
        """Runs a sub-command; with `check`, fails the test with what it printed if it fails."""
        command = self.command(*arguments)
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, cwd=cwd)
        if check and done.returncode != 0:
            pytest.fail(f"{' '.join(command)}\nexited {done.returncode}\n{done.stdout}{done.stderr}", pytrace=False)
        return done

    def query(self, sql: str) -> list[dict[str, str]]:
        """The rows of a query, as text."""
        return list(csv.DictReader(io.StringIO(self.run("sql", "--format", "csv", "-c", sql).stdout)))

    def table(self, sql: str) -> pa.Table:
        """The result of a query with its types."""
        command = self.command("sql", "--format", "arrow", "-c", sql)
        done = subprocess.run(command, capture_output=True, timeout=COMMAND_SECONDS)
        if done.returncode != 0:
            pytest.fail(f"{sql}\nexited {done.returncode}\n{done.stderr.decode()}", pytrace=False)
        return pa.ipc.open_file(done.stdout).read_all()

    def value(self, sql: str) -> str:
        """The one value of a query."""
        rows = self.query(sql)
        assert len(rows) == 1 and len(rows[0]) == 1, rows
        return next(iter(rows[0].values()))


@pytest.fixture(scope="session")
def program() -> pathlib.Path:
    """The built program: $TICKSTONE, else the dev build."""
    path = pathlib.Path(os.environ.get("TICKSTONE", REPOSITORY / "target" / "debug" / "tickstone"))
    if not path.exists():
        pytest.exit(f"{path} is missing: run `make build`", returncode=2)
    return path


@pytest.fixture
def tickstone(program, tmp_path) -> Tickstone:
    """The program on a database directory of the test's own."""
    data = tmp_path / "tickstone-data"
    # Statements that only read make no database.
    data.mkdir()
    return Tickstone(program, data)


@pytest.fixture(scope="module")
def module_tickstone(program, tmp_path_factory) -> Tickstone:
    """The program on a database directory that the tests of a module share."""
    return Tickstone(program, tmp_path_factory.mktemp("database") / "tickstone-data")


@pytest.fixture(scope="session")
def sample(tmp_path_factory) -> pathlib.Path:
    """A folder with trades.csv and quotes.csv, made from the recorded feeds."""
    data = pathlib.Path(os.environ.get("TICKSTONE_SAMPLE_DATA", REPOSITORY.parent / "shared" / "data"))
    if not (data / "tidy.py").exists():
        pytest.skip(f"no sample data at {data} (set TICKSTONE_SAMPLE_DATA)")
    folder = tmp_path_factory.mktemp("sample")
    subprocess.run([sys.executable, data / "tidy.py", folder], check=True, timeout=COMMAND_SECONDS)
    return folder


@pytest.fixture
def server(program, tmp_path) -> Iterator[Server]:
    """A server on a database directory of the test's own."""
    served = Server(program, tmp_path / "data")
    yield served
    if served.process.poll() is None:
        assert served.stop() == 0


@pytest.fixture
def serve(program, tmp_path) -> Iterator[Callable[..., Server]]:
    """Starts servers over one directory, one after the other."""
    started: list[Server] = []

    def start(*settings: str) -> Server:
        started.append(Server(program, tmp_path / "data", *settings))
        return started[-1]

    yield start
    for served in started:
        if served.process.poll() is None:
            served.kill()
