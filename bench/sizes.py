#!/usr/bin/env python3
"""Compare the size on disk of parts with Parquet (zstd), Vortex and DuckDB, table by table and column by column.

usage: sizes.py WORK_DIR SUITE_DIR EQUITIES_DIR SAMPLE_DIR [TABLE…]

SUITE_DIR and EQUITIES_DIR hold what `tickstone gen suite` and `tickstone gen equities` wrote, SAMPLE_DIR what the
sample data's tidy.py wrote. Every format gets the same rows in the order of a part (symbol, then time; times of
whole slices for large tables) and the same types: times in ns, symbols as 32-bit ids, so that no format pays for
text. Tables: books (1,000,000 updates), trades, quotes (equities, 15,000,000), equities_trades, sample_trades,
sample_quotes. Peers are measured in the same run, each at its smallest setting; needs numpy, polars, pyarrow, duckdb
and vortex-data. Parts are written by the engine's example `sizes`, built in release. Prints
Markdown, and with all tables puts it into docs/formats/sizes.md.

A column's size with a peer is that of a file that holds the column alone.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import vortex as vx

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
SLICE_ROWS = 1_000_000
COLUMNS_SHOWN = 12
TABLE_HEAD = (
    "| table | rows | Parquet zstd | Vortex | Vortex compact | DuckDB | fast | dense "
    "| fast / best | dense / best | fast, MB/s | dense, MB/s |"
)
COLUMN_HEAD = (
    "| column | best peer | fast | dense | fast: decoded | summed | reduced | filtered "
    "| dense: decoded | summed | reduced | filtered |"
)
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


def ours(path: pathlib.Path, folder: pathlib.Path, density: str) -> dict:
    binary = REPOSITORY / "target/release/examples/sizes"
    out = subprocess.run([binary, path, folder, str(SLICE_ROWS), density], check=True, capture_output=True, text=True)
    return json.loads(out.stdout)


def cached(path: pathlib.Path, make: object) -> dict:
    """The peers do not change from run to run: a result stays in the work folder until it is deleted."""
    if not path.exists():
        path.write_text(json.dumps(make()))
    return json.loads(path.read_text())


def compare(name: str, work: pathlib.Path) -> tuple[str, str]:
    """A row of the table of sizes, and a section with the table's columns."""
    source = work / f"{name}.arrow"
    folder = work / name
    folder.mkdir(exist_ok=True)
    table = pa.ipc.open_file(pa.memory_map(str(source))).read_all()
    rows = table.num_rows
    others = cached(work / f"{name}.peers.json", lambda: peers(part_order(table), folder))
    columns = cached(work / f"{name}.columns.json", lambda: peer_columns(part_order(table), folder))
    parts = {density: ours(source, folder, density) for density in ("fast", "dense")}
    best = min(others.values())
    cells = [f"{size / rows:.3f}" for size in others.values()]
    cells += [f"{part['bytes'] / rows:.3f}" for part in parts.values()]
    cells += [f"{part['bytes'] / best:.3f}" for part in parts.values()]
    cells += [str(part["write_mb_s"]) for part in parts.values()]
    row = f"| {name} | {rows:,} | {' | '.join(cells)} |"
    lines = [f"### {name}", "", COLUMN_HEAD, "|" + "---|" * 12]
    for fast, dense in list(zip(parts["fast"]["columns"], parts["dense"]["columns"]))[:COLUMNS_SHOWN]:
        other = min(columns[fast["name"]].values())
        cells = [f"{size / rows:.3f}" for size in (other, fast["bytes"], dense["bytes"])]
        for column in (fast, dense):
            cells += [f"{column[key] / 1e9:.2f}" for key in ("values_s", "sum_s", "reduce_s", "filter_s")]
        lines.append(f"| {fast['name']} | {' | '.join(cells)} |")
    return row, "\n".join(lines)


def write_section(page: pathlib.Path, text: str) -> None:
    """Puts the text between the markers of the page."""
    section = f"<!-- begin sizes -->\n{text}\n<!-- end sizes -->"
    pattern = re.compile("<!-- begin sizes -->.*?<!-- end sizes -->", re.DOTALL)
    page.write_text(pattern.sub(lambda _: section, page.read_text()))


def main() -> None:
    work = pathlib.Path(sys.argv[1])
    folders = dict(zip(("suite", "equities", "sample"), map(pathlib.Path, sys.argv[2:5])))
    wanted = sys.argv[5:] or list(TABLES)
    work.mkdir(parents=True, exist_ok=True)
    lines, sections = [], []
    for name in wanted:
        folder, file, rows = TABLES[name]
        target = work / f"{name}.arrow"
        if not target.exists():
            convert(folders[folder] / file, rows, target)
        row, section = compare(name, work)
        lines.append(row)
        sections.append(section)
    text = "\n".join([TABLE_HEAD, "|" + "---|" * 12, *lines]) + "\n\n" + "\n\n".join(sections)
    print(text)
    if wanted == list(TABLES):
        write_section(REPOSITORY / "docs/formats/sizes.md", text)


if __name__ == "__main__":
    main()
