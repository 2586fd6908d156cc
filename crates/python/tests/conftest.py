"""What the tests of the package share: a database, and settings of hypothesis for a quick run."""

import os
import pathlib
from collections.abc import Iterator

import hypothesis
import pytest

import tickstone

# Quick by default: TICKSTONE_EXAMPLES raises the number of examples for a long run.
hypothesis.settings.register_profile(
    "tickstone",
    max_examples=int(os.environ.get("TICKSTONE_EXAMPLES", "12")),
    deadline=None,
    derandomize="TICKSTONE_EXAMPLES" not in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.data_too_large],
)
hypothesis.settings.load_profile("tickstone")


@pytest.fixture
def db() -> Iterator[tickstone.Database]:
    """An empty database in memory."""
    with tickstone.open(":memory:") as database:
        yield database


@pytest.fixture
def directory(tmp_path: pathlib.Path) -> pathlib.Path:
    """Where a database of the test's own may be."""
    return tmp_path / "ticks"
