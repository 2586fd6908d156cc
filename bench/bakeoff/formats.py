#!/usr/bin/env python3
"""Measure Parquet (zstd), Vortex and mapped Arrow IPC on one table: size, scans on a core, look-ups.

usage: taskset -c 1 formats.py TABLE.arrow DIR COLUMN

TABLE is in order of time, with `timestamp` (ns), `sym` (ids). Every format gets the rows in the order that
suits it best, the one a part has: by symbol, then time. A look-up is one symbol, one hour, the sum of COLUMN;
the same 10,000 look-ups (DIR/lookups.csv) go to every format, and their sums are compared.

Arrow IPC answers all 10,000 in one call of numpy. The bindings of the others have no such call, so that each
look-up is a call; their floor (a call that reads one row) is reported beside it, and row positions are handed
to them for nothing: they are timed on reading alone. Prints one JSON object a line; medians of 5.
"""
import json, os, statistics, sys, time
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import vortex as vx

HOUR = 3_600_000_000_000


def median(run, times=5):
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        result = run()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken), result


def report(format_, what, **values):
    print(json.dumps({"format": format_, "what": what, **values}), flush=True)


def lookups(path, table):
    """10,000 random (symbol, from): symbols by their share of the rows, hours within the table's time."""
    rng = np.random.default_rng(7)
    times = table["timestamp"].to_numpy().astype(np.int64)
    ids = table["sym"].to_numpy()
    picks = rng.integers(0, len(ids), 10_000)
    span = max(times.max() - HOUR - times.min(), 1)
    starts = times.min() + rng.integers(0, span, 10_000)
    with open(path, "w") as out:
        out.writelines(f"{s},{t},{t + HOUR}\n" for s, t in zip(ids[picks], starts))
    return ids[picks], starts


def row_ranges(times, ids, symbols, starts):
    """Rows of each look-up in (symbol, time) order."""
    first = np.searchsorted(ids, np.arange(ids.max() + 2))
    low, high = np.empty(len(symbols), np.int64), np.empty(len(symbols), np.int64)
    for symbol in np.unique(symbols):
        mine, a, b = symbols == symbol, first[symbol], first[symbol + 1]
        low[mine] = a + np.searchsorted(times[a:b], starts[mine])
        high[mine] = a + np.searchsorted(times[a:b], starts[mine] + HOUR)
    return low, high


def arrow_ipc(path, column, symbols, starts):
    mapped = pa.memory_map(path)
    table = pa.ipc.open_file(mapped).read_all()
    values = table[column].chunk(0).to_numpy()
    times = table["timestamp"].chunk(0).cast(pa.int64()).to_numpy()
    ids = table["sym"].chunk(0).to_numpy()

    def batch():
        low, high = row_ranges(times, ids, symbols, starts)
        return np.array([values[a:b].sum() for a, b in zip(low, high)])

    taken, sums = median(batch)
    report("arrow-ipc", "look-up", us=taken / len(symbols) * 1e6)
    return sums, row_ranges(times, ids, symbols, starts)


def parquet(path, column, low, high, name):
    file = pq.ParquetFile(path, memory_map=True)
    ends = np.cumsum([file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])

    def one(a, b):
        groups = list(range(np.searchsorted(ends, a, "right"), np.searchsorted(ends, max(b - 1, a), "right") + 1))
        start = ends[groups[0] - 1] if groups[0] else 0
        values = file.read_row_groups(groups, columns=[column], use_threads=False)[column].to_numpy()
        return values[a - start : b - start].sum()

    count = 200
    taken, sums = median(lambda: [one(a, b) for a, b in zip(low[:count], high[:count])], 3)
    floor, _ = median(lambda: [one(0, 1) for _ in range(20)], 3)
    report(name, "look-up", us=taken / count * 1e6, floor_us=floor / 20 * 1e6)
    return sums


def vortex(path, column, low, high, name):
    file = vx.open(path, memory_map=True)
    scan = file.to_repeated_scan([column])

    def one(a, b):
        array = scan.execute(row_range=(int(a), int(b))).read_all().to_arrow_array()
        chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
        return sum(chunk.field(0).to_numpy(zero_copy_only=False).sum() for chunk in chunks)

    count = 500
    taken, sums = median(lambda: [one(a, b) for a, b in zip(low[:count], high[:count])], 3)
    floor, _ = median(lambda: [one(0, 1) for _ in range(200)], 3)
    report(name, "look-up", us=taken / count * 1e6, floor_us=floor / 200 * 1e6)
    return sums


def scans(name, read, column_sets, rows):
    for label, columns in column_sets.items():
        taken, _ = median(lambda: read(columns), 5 if len(columns) < 20 else 3)
        report(name, f"scan {label}", million_values_s=rows * len(columns) / taken / 1e6, ms=taken * 1e3)


def sum_all(columns):
    return [pc.sum(column) for column in columns]


def main():
    source, folder, column = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    vx.set_worker_threads(0)
    pa.set_cpu_count(1)
    table = pa.ipc.open_file(pa.memory_map(source)).read_all()
    symbols, starts = lookups(f"{folder}/lookups.csv", table)
    table = table.sort_by([("sym", "ascending"), ("timestamp", "ascending")]).combine_chunks()
    rows = table.num_rows
    doubles = [f.name for f in table.schema if pa.types.is_floating(f.type)]
    sets = {"1 column": [column], "10 columns": doubles[:10], "all doubles": doubles}
    paths = {n: f"{folder}/{n}" for n in ("arrow-ipc", "parquet-zstd", "parquet-zstd-bss", "vortex", "vortex-compact")}

    def write_ipc():
        with pa.OSFile(paths["arrow-ipc"], "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows)

    def write_parquet(name, **options):
        pq.write_table(table, paths[name], compression="zstd", compression_level=3, row_group_size=131_072, **options)

    writers = {
        "arrow-ipc": write_ipc,
        "parquet-zstd": lambda: write_parquet("parquet-zstd"),
        "parquet-zstd-bss": lambda: write_parquet(
            "parquet-zstd-bss", use_dictionary=False, use_byte_stream_split=doubles,
            column_encoding={"timestamp": "DELTA_BINARY_PACKED"}),
        "vortex": lambda: vx.io.VortexWriteOptions.default().write(table, paths["vortex"]),
        "vortex-compact": lambda: vx.io.VortexWriteOptions.compact().write(table, paths["vortex-compact"]),
    }
    for name, write in writers.items():
        taken, _ = median(write, 1)
        size = os.path.getsize(paths[name])
        report(name, "write", mb_s=table.nbytes / taken / 1e6, bytes_a_row=size / rows, bytes=size)
    del table

    sums, (low, high) = arrow_ipc(paths["arrow-ipc"], column, symbols, starts)
    report("all", "checksum", sum=float(sums.sum()), rows=int((high - low).sum()))
    for name in ("parquet-zstd", "parquet-zstd-bss"):
        found = parquet(paths[name], column, low, high, name)
        assert np.allclose(found, sums[: len(found)])
    for name in ("vortex", "vortex-compact"):
        found = vortex(paths[name], column, low, high, name)
        assert np.allclose(found, sums[: len(found)])

    mapped = pa.ipc.open_file(pa.memory_map(paths["arrow-ipc"])).read_all()
    scans("arrow-ipc", lambda c: sum_all([mapped[n] for n in c]), sets, rows)
    for name in ("parquet-zstd", "parquet-zstd-bss"):
        read = lambda c: sum_all(pq.read_table(paths[name], columns=c, use_threads=False, memory_map=True).columns)
        scans(name, read, sets, rows)
    for name in ("vortex", "vortex-compact"):
        file = vx.open(paths[name], memory_map=True)
        read = lambda c: [sum_all(batch.columns) for batch in file.to_arrow(c)]
        scans(name, read, sets, rows)


main()
