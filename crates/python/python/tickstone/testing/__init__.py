"""Asks Tickstone and others the same question about the same frames, for tests.

    from tickstone.testing import check

    check(
        tick="SELECT symbol, vwap(price, size) FROM trades GROUP BY symbol",
        duckdb="SELECT symbol, sum(price * size) / sum(size) FROM trades GROUP BY symbol",
        polars=lambda trades: trades.group_by("symbol").agg(
            (pl.col("price") * pl.col("size")).sum() / pl.col("size").sum()),
        trades=frame,
    )

The question goes to Tickstone once for each state that its rows can be in: in memory, in parts, half and
half, arrived out of order, in parts that overlap, reopened from disk, and in frames that were never stored.
`asking` fills each state once for many questions. `tickstone.testing.strategies` makes trades and quotes for
hypothesis. Needs pyarrow, and whichever peers are asked.
"""

from tickstone.testing.comparing import Mismatch, assert_same
from tickstone.testing.harness import Asking, asking, check, peer_answer
from tickstone.testing.states import STATES, State

__all__ = ["STATES", "Asking", "Mismatch", "State", "asking", "assert_same", "check", "peer_answer"]
