"""Markets from a seed: more rows than hypothesis draws, and all that is awkward in them."""

from __future__ import annotations

import random
from typing import Any, Literal

import pyarrow as pa

from tickstone.testing.strategies import SECOND, START

__all__ = ["market"]

DAY = 86_400 * SECOND


def market(
    seed: int,
    rows: int,
    symbols: int,
    *,
    days: float = 3.0,
    ties: Literal["none", "series", "all"] = "none",
    null_symbols: bool = True,
) -> pa.Table:
    """Rows in order of time and, where that is equal, of arrival, which `id` counts from 0.

    `ties` says which rows may have equal times: "none", those of one "series" (never two series), or "all".
    Few symbols, S000 before all, have most rows. Prices are multiples of 1/64 and sizes small integers: sums and
    products come out the same in any order. `odd` has NaN, both zeros and negative numbers. A seed gives the same
    rows always.
    """
    rng = random.Random(seed)
    names: list[str | None] = [f"S{at:03}" for at in range(symbols)]
    weights = [1 / (at + 1) ** 1.1 for at in range(symbols)]
    if null_symbols and symbols > 1:
        names.append(None)
        weights.append(sum(weights) / 50)
    step = int(days * DAY) // max(rows, 1)
    ts = START
    columns: dict[str, list[Any]] = {
        name: [] for name in ("ts", "symbol", "venue", "side", "price", "size", "odd", "id")
    }
    drawn = rng.choices(names, weights, k=rows)
    for row in range(rows):
        symbol, venue = drawn[row], rng.choice(["X", "Y", "Z", None])
        tied = ties != "none" and row > 0 and rng.random() < 0.25
        if tied and ties == "series":
            symbol, venue = columns["symbol"][-1], columns["venue"][-1]
        if not tied:
            ts += rng.randrange(1, 2 * step)
            # A time on the full second now and then, where buckets begin.
            ts = ts - ts % SECOND + SECOND if rng.random() < 0.1 else ts
        values = (
            ts,
            symbol,
            venue,
            rng.choice(["buy", "sell", "sell", None]),
            None if rng.random() < 0.05 else rng.randrange(90 * 64, 110 * 64) / 64,
            None if rng.random() < 0.05 else rng.randrange(1, 100),
            rng.choice([None, float("nan"), 0.0, -0.0, *(rng.randrange(-640, 640) / 64 for _ in range(16))]),
            row,
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return with_types(columns)


def with_types(columns: dict[str, list[Any]]) -> pa.Table:
    """The columns of a market."""
    text, number = pa.string(), pa.float64()
    types = [pa.timestamp("ns"), text, text, text, number, pa.int64(), number, pa.int64()]
    return pa.table({name: pa.array(values, kind) for (name, values), kind in zip(columns.items(), types, strict=True)})
