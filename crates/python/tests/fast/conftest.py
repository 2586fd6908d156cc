"""The markets of `fast.markets`, opened once for the tests of a file."""

from collections.abc import Iterator

import pytest

from fast.markets import (
    MARKETS,
    Market,
    opened,
)


@pytest.fixture(scope="module", params=[name for name in MARKETS if name != "strict"])
def market(request: pytest.FixtureRequest) -> Iterator[Market]:
    """Each of the markets but one that is for windows."""
    with opened(request.param) as each:
        yield each


@pytest.fixture(scope="module", params=["strict", "venues", "one row", "empty"])
def untied(request: pytest.FixtureRequest) -> Iterator[Market]:
    """The markets whose times are all different."""
    with opened(request.param) as each:
        yield each


@pytest.fixture(scope="module", params=["crowd", "venues"])
def large(request: pytest.FixtureRequest) -> Iterator[Market]:
    """The largest markets, for questions drawn by hypothesis."""
    with opened(request.param) as each:
        yield each


@pytest.fixture(scope="module")
def venues() -> Iterator[Market]:
    """The market whose series have two columns."""
    with opened("venues") as each:
        yield each
