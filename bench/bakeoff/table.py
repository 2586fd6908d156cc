#!/usr/bin/env python3
"""Print the Markdown tables of docs/decisions/0001-part-format.md from the JSON files of run.sh.

usage: table.py WORK_DIR
"""
import json, os, sys

work = sys.argv[1]


def number(value, digits=1):
    return "" if value is None else f"{value:,.{digits}f}"


for name in ("books", "narrow", "trades", "quotes"):
    path = f"{work}/{name}.json"
    if not os.path.exists(path):
        continue
    found = {}
    for line in open(path):
        row = json.loads(line)
        key = row["what"] if row.get("threads", 1) == 1 else f"{row['what']}, {row['threads']} threads"
        found.setdefault(row["format"], {})[key] = row
    print(f"\n**{name}**\n")
    print("| format | bytes a row | write, MB/s | look-up, µs | of it the call | scan 1 column | 10 columns | all doubles |")
    print("|---|---|---|---|---|---|---|---|")
    for format_, rows in found.items():
        if "write" not in rows:
            continue
        get = lambda what, field: rows.get(what, {}).get(field)
        cells = [
            number(get("write", "bytes_a_row")), number(get("write", "mb_s"), 0), number(get("look-up", "us")),
            number(get("look-up", "floor_us"))]
        cells += [number(get(f"scan {n}", "million_values_s"), 0) for n in ("1 column", "10 columns", "all doubles")]
        print(f"| {format_} | " + " | ".join(cells) + " |")
    for format_, rows in found.items():
        for what, row in rows.items():
            if what.startswith("reduce"):
                fields = ("part_ms", "part_statistics_ms", "plain_symbol_order_ms", "plain_time_order_hash_ms")
                print(f"{format_} | {what} | {row['rows']:,} | " + " | ".join(number(row[f], 2) for f in fields))
            elif what in ("open",) or what.startswith("decode"):
                print(f"{format_} | {what} | {row.get('us') or row.get('million_values_s')}")
