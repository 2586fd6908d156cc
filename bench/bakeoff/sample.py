#!/usr/bin/env python3
"""Turn the CSVs of the sample data's tidy.py into Arrow IPC tables for the bake-off.

usage: sample.py FOLDER      reads FOLDER/trades.csv and FOLDER/quotes.csv, writes trades.arrow and quotes.arrow

Times are ns, symbols (and the side) are ids in order of first appearance, as inside the engine.
"""
import sys
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

SYMBOLS, TIMES = {"symbol": "sym", "side": "side"}, ("timestamp", "exchange_time")

for name in ("trades", "quotes"):
    table = csv.read_csv(f"{sys.argv[1]}/{name}.csv")
    columns = {}
    for column in table.column_names:
        values = table[column].combine_chunks()
        if column in SYMBOLS:
            columns[SYMBOLS[column]] = pc.cast(values.dictionary_encode().indices, pa.uint32())
        elif column in TIMES:
            columns[column] = values.cast(pa.timestamp("ns"))
        else:
            columns[column] = values
    out = pa.table(columns)
    with pa.OSFile(f"{sys.argv[1]}/{name}.arrow", "wb") as sink, pa.ipc.new_file(sink, out.schema) as writer:
        writer.write_table(out, max_chunksize=out.num_rows)
    print(name, out.num_rows, out.schema)
