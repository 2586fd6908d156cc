#!/usr/bin/env python3
"""Long texts: seconds until a statement of so many bytes is answered or refused, and of twice as many.

usage: texts.py [--bytes N] [--form NAME…]

Each form is asked of Tickstone and of DuckDB in the same run, once, of N bytes (default 500,000) and of 2 N. A factor
well above 2 is a text whose time grows faster than its length. Needs the package `tickstone` and duckdb.
"""

import argparse
import time
from collections.abc import Callable

import duckdb
import tickstone

FORMS: dict[str, tuple[str, Callable[[int], str], str, str]] = {
    "OR": ("SELECT * FROM t WHERE ", lambda i: f"a = {i % 1000}", " OR ", ""),
    "AND": ("SELECT * FROM t WHERE ", lambda i: f"a <> {i % 1000 + 5}", " AND ", ""),
    "OR of two columns": ("SELECT * FROM t WHERE ", lambda i: f"a + {i % 1000} < d", " OR ", ""),
    "IN, numbers": ("SELECT * FROM t WHERE a IN (", str, ", ", ")"),
    "IN, texts": ("SELECT * FROM t WHERE s IN (", lambda i: f"'v{i}'", ", ", ")"),
    "1 + 1 + …": ("SELECT ", lambda i: "1", " + ", ""),
    "s || s || …": ("SELECT ", lambda i: "s", " || ", " FROM t"),
    "UNION ALL": ("", lambda i: "SELECT a FROM t", " UNION ALL ", ""),
    "expressions": ("SELECT ", lambda i: f"a + {i} AS c{i}", ", ", " FROM t"),
    "aggregates": ("SELECT ", lambda i: f"sum(a + {i}) AS c{i}", ", ", " FROM t"),
    "CASE": ("SELECT CASE ", lambda i: f"WHEN a = {i} THEN {i}", " ", " END FROM t"),
    "coalesce": ("SELECT coalesce(", lambda i: "a", ", ", ") FROM t"),
    "joins": ("SELECT 1 FROM t", lambda i: f" JOIN t t{i} ON true", "", ""),
    "VALUES": ("SELECT count(*) FROM (VALUES ", lambda i: f"({i}, {i}.5, 'a')", ", ", ") v"),
    "one text": ("SELECT length('", lambda i: "x" * 100, "", "')"),
    "brackets": ("SELECT ", lambda i: "(", "", ""),
    "no SQL": ("SELECT ", lambda i: "1 + )", " ", ""),
}


def text(form: str, size: int) -> str:
    """A statement of a form, of about so many bytes."""
    head, item, separator, tail = FORMS[form]
    parts, length, at = [], len(head) + len(tail), 0
    while length < size:
        parts.append(item(at))
        length += len(parts[-1]) + len(separator)
        at += 1
    return head + separator.join(parts) + tail


def ask(run: Callable[[], object], errors: tuple[type[Exception], ...]) -> tuple[float, str]:
    """Seconds, and what came of it."""
    begun = time.perf_counter()
    try:
        run()
        told = "answered"
    except errors as error:
        message = str(error).split("\n")[0]
        told = f"refused: {message[message.rfind('(') + 1 : -1]}" if message.endswith(")") else "refused"
    return time.perf_counter() - begun, told


def main() -> None:
    """Prints a table of forms."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--bytes", type=int, default=500_000)
    arguments.add_argument("--form", nargs="*")
    given = arguments.parse_args()
    ours, peer = tickstone.open(":memory:"), duckdb.connect()
    for system in (ours.sql, peer.execute):
        system("CREATE TABLE t (a BIGINT, d DOUBLE, s VARCHAR)")
        system("INSERT INTO t VALUES (1, 1.0, 'x')")
    print("| form | bytes | s | twice, s | what came of it | DuckDB, s | twice, s | |\n| --- " + "| --- " * 7 + "|")
    for form in given.form or FORMS:
        texts = [text(form, size) for size in (given.bytes, 2 * given.bytes)]
        mine = [ask(lambda sql=sql: ours.sql(sql).fetchall(), (tickstone.Error,)) for sql in texts]
        # A chain of half a million terms ends DuckDB's process.
        theirs = [(float("nan"), "not asked")] * 2
        if form not in ("1 + 1 + …", "s || s || …", "OR", "AND", "OR of two columns", "UNION ALL", "joins", "brackets"):
            theirs = [ask(lambda sql=sql: peer.execute(sql).fetchall(), (duckdb.Error,)) for sql in texts]
        told = mine[1][1] if mine[0][1] == mine[1][1] else f"{mine[0][1]}; {mine[1][1]}"
        print(
            f"| {form} | {len(texts[0]):,} | {mine[0][0]:.2f} | {mine[1][0]:.2f} | {told} "
            f"| {theirs[0][0]:.2f} | {theirs[1][0]:.2f} | {theirs[1][1].split(':')[0]} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
