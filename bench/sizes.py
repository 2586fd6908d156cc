#!/usr/bin/env python3
"""Compare the size on disk of parts with Parquet (zstd), Vortex and DuckDB, table by table and column by column.

usage: sizes.py WORK_DIR SUITE_DIR EQUITIES_DIR SAMPLE_DIR [TABLE…]

SUITE_DIR and EQUITIES_DIR hold what `tickstone gen suite` and `tickstone gen equities` wrote, SAMPLE_DIR what the
sample data's tidy.py wrote. Every format gets the same rows in the order of a part (symbol, then time; times of
whole slices for large tables) and the same types: times in ns, symbols as 32-bit ids, so that no format pays for
text. Tables: books (1,000,000 updates), trades, quotes (equities, 15,000,000), equities_trades, sample_trades,
sample_quotes. Peers are measured in the same run, each at its smallest setting; needs numpy, polars, pyarrow, duckdb
and vortex-data. Parts are written by the engine's example `sizes`, built in release. Prints Markdown.

A column's size with a peer is that of a file that holds the column alone.
"""

import json
import os
import pathlib
import subprocess
import sys

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import vortex as vx

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
SLICE_ROWS = 1_000_000
TABLES = {
    "books": ("suite", "books.csv", 1_000_000),
    "trades": ("suite", "trades.csv", None),
    "quotes": ("equities", "quotes.csv", None),
    "equities_trades": ("equities", "trades.csv", None),
    "sample_trades": ("sample", "trades.csv", None),
    "sample_quotes": ("sample", "quotes.csv", None),
}


def convert(source: pathlib.Path, rows: int | None, target: pathlib.Path) -> None:
    """CSV to an Arrow IPC file in order of time, text as ids in order of first appearance."""
    frame = pl.read_csv(source, n_rows=rows, infer_schema_length=100_000)
    columns = []
    for name, kind in frame.schema.items():
        column = pl.col(name)
        if name in ("timestamp", "receipt_timestamp", "exchange_time"):
            if kind == pl.String:
                column = column.str.to_datetime(time_unit="ns", time_zone="UTC").dt.replace_time_zone(None)
            columns.append(column.cast(pl.Datetime("ns")))
        elif kind == pl.String:
            ids = pl.DataFrame({name: frame[name].unique(maintain_order=True)}).with_row_index("id")
            mapped = frame.select(name).join(ids, on=name, how="left", maintain_order="left")["id"]
            columns.append(mapped.cast(pl.UInt32).alias("sym" if name == "symbol" else name))
        else:
            columns.append(column)
    table = frame.select(columns).to_arrow().combine_chunks()
    with pa.OSFile(str(target), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=table.num_rows)


def part_order(table: pa.Table) -> pa.Table:
    """Rows as a part has them: slices of time of about equal size, in each by symbol, then time."""
    frame = pl.from_arrow(table)
    slices = -(-len(frame) // SLICE_ROWS)
    each = -(-len(frame) // slices)
    frame = frame.with_row_index("arrival").with_columns(slice=pl.col("arrival") // each)
    frame = frame.sort(["slice", "sym", "timestamp", "arrival"]).drop("slice", "arrival")
    return frame.to_arrow().combine_chunks()


def parquet(table: pa.Table, path: str, **options: object) -> int:
    pq.write_table(table, path, compression="zstd", row_group_size=1_000_000, **options)
    return os.path.getsize(path)


def parquet_best(table: pa.Table, path: str) -> int:
    """The smaller of dictionaries and of byte stream split with delta-encoded integers, at zstd level 9."""
    reals = [f.name for f in table.schema if pa.types.is_floating(f.type)]
    whole = {f.name: "DELTA_BINARY_PACKED" for f in table.schema if f.name not in reals}
    plain = parquet(table, path, compression_level=9)
    split = parquet(
        table, path, compression_level=9, use_dictionary=False, use_byte_stream_split=reals, column_encoding=whole
    )
    return min(plain, split)


def vortex(table: pa.Table, path: str, options: object) -> int:
    options.write(table, path)
    return os.path.getsize(path)


def duck(table: pa.Table, path: str) -> int:
    for name in (path, path + ".wal"):
        pathlib.Path(name).unlink(missing_ok=True)
    with duckdb.connect(path, config={"storage_compatibility_version": "latest"}) as database:
        database.register("source", table)
        database.execute("CREATE TABLE t AS SELECT * FROM source")
        database.execute("CHECKPOINT")
    return os.path.getsize(path)


def peers(table: pa.Table, folder: pathlib.Path) -> dict[str, int]:
    path = str(folder / "peer")
    return {
        "Parquet zstd": parquet_best(table, path),
        "Vortex": vortex(table, path, vx.io.VortexWriteOptions.default()),
        "Vortex compact": vortex(table, path, vx.io.VortexWriteOptions.compact()),
        "DuckDB": duck(table, path + ".duckdb"),
    }


def peer_columns(table: pa.Table, folder: pathlib.Path) -> dict[str, dict[str, int]]:
    path = str(folder / "peer")
    return {
        name: {
            "Parquet zstd": parquet_best(table.select([name]), path),
            "Vortex compact": vortex(table.select([name]), path, vx.io.VortexWriteOptions.compact()),
        }
        for name in table.column_names
    }


def ours(path: pathlib.Path, folder: pathlib.Path) -> dict:
    binary = REPOSITORY / "target/release/examples/sizes"
    out = subprocess.run([binary, path, folder, str(SLICE_ROWS)], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def cached(path: pathlib.Path, make: object) -> dict:
    """The peers do not change from run to run: a result stays in the work folder until it is deleted."""
    if not path.exists():
        path.write_text(json.dumps(make()))
    return json.loads(path.read_text())


def compare(name: str, work: pathlib.Path) -> None:
    source = work / f"{name}.arrow"
    folder = work / name
    folder.mkdir(exist_ok=True)
    table = pa.ipc.open_file(pa.memory_map(str(source))).read_all()
    rows = table.num_rows
    others = cached(work / f"{name}.peers.json", lambda: peers(part_order(table), folder))
    columns = cached(work / f"{name}.columns.json", lambda: peer_columns(part_order(table), folder))
    part = ours(source, folder)
    best = min(others, key=others.get)
    print(f"\n## {name}: {rows:,} rows, {len(table.schema)} columns\n")
    print("| format | bytes a row | part is so many times that |")
    print("|---|---|---|")
    for format_, size in {**others, "part": part["bytes"]}.items():
        print(f"| {format_}{' (best)' if format_ == best else ''} | {size / rows:.3f} | {part['bytes'] / size:.3f} |")
    shown = sorted(part["columns"], key=lambda c: min(columns[c["name"]].values()) - c["bytes"])
    print(f"\nBytes a row; of the part's, {part['page_bytes'] / rows:.3f} are pages and {part['footer_bytes'] / rows:.3f} the footer.\n")
    print("| column | part | of it the page | Parquet zstd | Vortex compact | part / best | decoded, billion values/s |")
    print("|---|---|---|---|---|---|---|")
    for column in shown[:24]:
        other = columns[column["name"]]
        each = [column["bytes"], column["page_bytes"], other["Parquet zstd"], other["Vortex compact"]]
        cells = " | ".join(f"{size / rows:.3f}" for size in each)
        speed = column["values_s"] / 1e9
        print(f"| {column['name']} | {cells} | {column['bytes'] / min(other.values()):.2f} | {speed:.2f} |")


def main() -> None:
    work = pathlib.Path(sys.argv[1])
    folders = dict(zip(("suite", "equities", "sample"), map(pathlib.Path, sys.argv[2:5])))
    wanted = sys.argv[5:] or list(TABLES)
    work.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        folder, file, rows = TABLES[name]
        target = work / f"{name}.arrow"
        if not target.exists():
            convert(folders[folder] / file, rows, target)
        compare(name, work)


if __name__ == "__main__":
    main()
