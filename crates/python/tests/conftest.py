"""What the tests of the package share: a database, and settings of hypothesis for a quick run."""

import os
import pathlib
from collections.abc import Iterator

import hypothesis
import pytest

import tickstone

# Quick by default. TICKSTONE_EXAMPLES=200 makes a long run, with new examples, and makes failing ones small.
LONG_RUN = "TICKSTONE_EXAMPLES" in os.environ
hypothesis.settings.register_profile(
    "tickstone",
    max_examples=int(os.environ.get("TICKSTONE_EXAMPLES", "8")),
    deadline=None,
    derandomize=not LONG_RUN,
    phases=[phase for phase in hypothesis.Phase if LONG_RUN or phase != hypothesis.Phase.shrink],
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
