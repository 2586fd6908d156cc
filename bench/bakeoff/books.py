#!/usr/bin/env python3
"""Simulate limit order books and write them as an Arrow IPC file (uncompressed), rows in order of time.

usage: books.py OUT.arrow ROWS [LEVELS=20] [DAYS=1] [SEED=1]

Columns as in section A of the suite: timestamp, receipt_timestamp (ns), exchange, sym (ids), then price and
size of each level, bid and ask. Three symbols share the rows as in the paper. Each row is one update of one
real book: a new size at a level (70 %), a level gone (15 %), a level put between two others (15 %), so that
most levels stay as they were, prices are multiples of a tick with gaps, and sizes have up to 8 decimals.
"""
import random, sys
import numpy as np
import pyarrow as pa

SYMBOLS = [(0.511, 20_500.0, 0.01, 0.35), (0.459, 1_100.0, 0.01, 4.0), (0.03, 1.0, 0.0001, 20_000.0)]
START = 1_655_510_400_000_000_000  # 2022-06-18


def size(rng, scale):
    kind = rng.random()
    if kind < 0.15:
        return rng.choice((0.01, 0.05, 0.1, 0.5, 1.0, 2.0, 5.0)) * (1 if scale < 100 else 1000)
    value = rng.expovariate(1 / scale)
    return round(value, 8 if kind < 0.8 else 4) + 1e-8


def level(side, base, at, rng):
    """A new price, in ticks, below `at` on its side."""
    return at + side * (1 + int(rng.expovariate(1 / base)))


def book(rows, levels, price, tick, scale, rng):
    """Prices (ticks) and sizes of `rows` updates: four arrays of rows x levels."""
    out = [np.empty((rows, levels)) for _ in range(4)]
    gap = 3.0
    mid = int(price / tick)
    sides = []
    for side in (-1, 1):
        prices, sizes, at = [], [], mid
        for _ in range(levels + 5):
            at = level(side, gap, at, rng)
            prices.append(at)
            sizes.append(size(rng, scale))
        sides.append((side, prices, sizes))
    for row in range(rows):
        which = 0 if rng.random() < 0.5 else 1
        side, prices, sizes = sides[which]
        place = min(int(rng.expovariate(0.25)), levels - 1)
        action = rng.random()
        if action < 0.70:
            sizes[place] = size(rng, scale)
        elif action < 0.85:
            del prices[place], sizes[place]
            prices.append(level(side, gap, prices[-1], rng))
            sizes.append(size(rng, scale))
        else:
            other = sides[1 - which][1][0]
            inner = prices[place - 1] if place else other
            room = abs(prices[place] - inner) - 1
            if room > 0:
                prices.insert(place, inner + side * rng.randint(1, min(room, 12) if place else room))
                sizes.insert(place, size(rng, scale))
                del prices[-1], sizes[-1]
        out[0][row], out[1][row] = sides[0][1][:levels], sides[0][2][:levels]
        out[2][row], out[3][row] = sides[1][1][:levels], sides[1][2][:levels]
    digits = {0.01: 2, 0.0001: 4}[tick]
    out[0], out[2] = np.round(out[0] * tick, digits), np.round(out[2] * tick, digits)
    out[1], out[3] = np.round(out[1], 8), np.round(out[3], 8)
    return out


def main():
    path, rows = sys.argv[1], int(sys.argv[2])
    levels, days, seed = (int(a) for a in (sys.argv[3:] + ["20", "1", "1"][len(sys.argv) - 3:]))
    np_rng, rng = np.random.default_rng(seed), random.Random(seed)
    counts = [int(rows * share) for share, *_ in SYMBOLS]
    counts[0] += rows - sum(counts)
    parts, times, ids = [], [], []
    for number, (count, (_, price, tick, scale)) in enumerate(zip(counts, SYMBOLS)):
        parts.append(book(count, levels, price, tick, scale, rng))
        span = days * 86_400_000_000
        times.append(np.sort(np_rng.integers(0, span, count)) * 1_000 + START)  # whole microseconds
        ids.append(np.full(count, number, dtype=np.uint32))
    times, ids = np.concatenate(times), np.concatenate(ids)
    order = np.argsort(times, kind="stable")
    receipt = times + (np_rng.lognormal(15.5, 0.6, rows)).astype(np.int64)
    columns = {
        "timestamp": pa.array(times[order], pa.timestamp("ns")),
        "receipt_timestamp": pa.array(receipt[order], pa.timestamp("ns")),
        "exchange": pa.array(np.zeros(rows, np.uint32)),
        "sym": pa.array(ids[order]),
    }
    for side, (price_at, size_at) in {"b": (0, 1), "a": (2, 3)}.items():
        for number in range(levels):
            for name, at in (("price", price_at), ("size", size_at)):
                column = np.concatenate([part[at][:, number] for part in parts])[order]
                columns[f"{side}{number + 1}{name}"] = pa.array(column)
    table = pa.table(columns)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    print(f"{path}: {rows} rows, {table.num_columns} columns, {table.nbytes / rows:.1f} bytes a row in memory")


main()
