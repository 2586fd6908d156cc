"""A server for each test."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from serving import Server


@pytest.fixture
def server(program: Path, tmp_path: Path) -> Iterator[Server]:
    served = Server(program, tmp_path / "data")
    yield served
    if served.process.poll() is None:
        assert served.stop() == 0


@pytest.fixture
def serve(program: Path, tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Starts servers over one directory, one after the other."""
    started: list[Server] = []

    def start(*settings: str) -> Server:
        started.append(Server(program, tmp_path / "data", *settings))
        return started[-1]

    yield start
    for served in started:
        if served.process.poll() is None:
            served.kill()
