"""Every operator that reads rows by series and time, against DuckDB, Polars and pandas, over every mix of runs and
parts.

The markets are made from fixed seeds and hold what is awkward: hundreds of symbols, the busy ones longer than a
block of 1,024 values and the rare ones of one row; equal times; NULLs in keys and values; NaN; late rows in parts
that overlap; one row; none.

Prices are small multiples of 1/64 and sizes small integers, so that their sums, products and averages come out the
same to the last bit in whatever order they are added: those are compared exactly. `stddev` and `corr` round on their
way, each system in its own, and so does DuckDB in the average of integers (once to a long double, then to a double);
they are compared to a relative 1e-9.
"""

import datetime
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from hypothesis import strategies as st

from tickstone.testing import Asking, State, asking, strategies
from tickstone.testing.markets import market as market_of
from tickstone.testing.states import overlapping

SECOND = 1_000_000_000
MINUTE = 60 * SECOND
DAY = 86_400 * SECOND
# 2024-03-30T22:00:00Z, so that three days of rows are in four partitions.
START = strategies.START
LATE_REOPENED = State("overlapping, reopened", overlapping, reopened=True)
# Only in memory, only in parts, in order in both, late in both, after deletions, and late from disk. Frames drawn by hypothesis are
# small and go through all the states.
MIXES: Sequence[str | State] = ("memory", "parts", "half", "overlapping", "changed", LATE_REOPENED)
FEW: Sequence[str | State] = ("memory", "parts", LATE_REOPENED)
BUSY = "S000"
WEIGHTED = ("vwap(price, size)", "sum(price * size) / sum(size) FILTER (price IS NOT NULL)")


@dataclass(frozen=True)
class Market:
    """A table `ticks` in every state and in DuckDB. `ordered_across`: rows of different series have different times,
    so that what is first and last is one row whatever the rows are grouped by."""

    name: str
    asking: Asking
    ordered_across: bool
    ties: bool

    @property
    def times(self) -> list[int]:
        """The times of the rows, ns since the Unix epoch, ascending."""
        times: list[int] = self.asking.rows["ticks"].column("ts").cast(pa.int64()).to_pylist()
        return times


MARKETS: dict[str, tuple[Callable[[], pa.Table], str | list[str], str]] = {
    # Name: the rows, the series key, which rows have equal times. S000 has some 2,600 rows of `crowd`.
    "crowd": (lambda: market_of(1, 14_000, 300, ties="series"), "symbol", "series"),
    "auction": (lambda: market_of(2, 4_000, 40, days=0.3, ties="all"), "symbol", "all"),
    "strict": (lambda: market_of(3, 7_000, 150), "symbol", "none"),
    "venues": (lambda: market_of(4, 7_000, 20), ["symbol", "venue"], "none"),
    "one symbol": (lambda: market_of(5, 5_000, 1, ties="series"), "symbol", "series"),
    "one row": (lambda: market_of(6, 1, 1), "symbol", "none"),
    "empty": (lambda: market_of(7, 0, 1), "symbol", "none"),
}


@contextmanager
def opened(name: str) -> Iterator[Market]:
    """A market by its name."""
    rows, series, ties = MARKETS[name]
    table = rows()
    with asking(states=MIXES if table.num_rows > 1 else FEW, series=series, timestamp="ts", ticks=table) as ask:
        yield Market(name, ask, ties != "all", ties != "none")


def literal(ns: int) -> str:
    """A time as Tickstone reads it."""
    moment = datetime.datetime.fromtimestamp(ns // SECOND, datetime.UTC)
    return f"'{moment:%Y-%m-%dT%H:%M:%S}.{ns % SECOND:09}'"


def between(from_ns: int, to_ns: int) -> tuple[str, str]:
    """The condition that a time is in a half-open range, for Tickstone and for DuckDB."""
    return (
        f"ts >= {literal(from_ns)} AND ts < {literal(to_ns)}",
        f"ts >= make_timestamp_ns({from_ns}) AND ts < make_timestamp_ns({to_ns})",
    )


def bucket(stride_ns: int) -> str:
    """The start of a bucket in DuckDB's SQL."""
    return f"make_timestamp_ns(epoch_ns(ts) // {stride_ns} * {stride_ns})"


def drawn_range(data: st.DataObject, times: list[int]) -> tuple[int, int]:
    """A range of time whose ends are at rows or beside them; short, long or empty."""
    first = data.draw(st.integers(0, len(times) - 1))
    last = min(first + data.draw(st.sampled_from([0, 1, 50, 1_023, 1_024, 1_025, len(times)])), len(times) - 1)
    beside = st.sampled_from([-1, 0, 1])
    return times[first] + data.draw(beside), times[last] + data.draw(beside)


FAR = START + 1_000 * DAY
CONDITIONS: dict[str, tuple[str, str]] = {
    "everything": ("", ""),
    "one symbol": (f"symbol = '{BUSY}'",) * 2,
    "some symbols": ("symbol IN ('S001', 'S007', 'nowhere')",) * 2,
    "all but one symbol": (f"symbol <> '{BUSY}'",) * 2,
    "no symbol": ("symbol IS NULL",) * 2,
    "a middle": between(START + 9 * 3_600 * SECOND + 1, START + 40 * 3_600 * SECOND + 7),
    "an open end": (f"ts > {literal(START + DAY)}", f"ts > make_timestamp_ns({START + DAY})"),
    "a price": ("price > 100.5",) * 2,
    "a side": ("side = 'buy'",) * 2,
    "values": ("odd IS NOT NULL AND size <= 50",) * 2,
    "nothing": between(FAR, FAR + DAY),
    "no such symbol": ("symbol = 'nowhere'",) * 2,
    "no such price": ("price > 1e9",) * 2,
}
CONDITIONS["all at once"] = (
    f"{CONDITIONS['a middle'][0]} AND symbol <> 'S002' AND price < 105",
    f"{CONDITIONS['a middle'][1]} AND symbol <> 'S002' AND price < 105",
)
