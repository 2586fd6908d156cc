"""Runs every example of the documentation and compares what it prints.

A page is one database: its ```sql blocks run in order, each as one `tickstone sql -c`. A ```text block
right after one is the result that a reader should see: a table, or, after ```sql error, the message.
Tables are compared cell by cell with the CSV of the same query, so that the look of tables is free.

    UPDATE_DOCS=1 .venv/bin/python -m pytest tests/docs

writes what the program prints into the text blocks instead; read the difference before committing it.
"""

import csv
import io
import os
import pathlib
import re
import dataclasses

import pytest

from conftest import REPOSITORY

PAGES = sorted((REPOSITORY / "docs" / "sql").glob("*.md"))
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
RULE = re.compile(r"^[\s\-=+|│┆─═┼╪├┤┌┐└┘┬┴╞╡╭╮╰╯:]*$")
TRAILER = re.compile(r"^\(?[\d,_]+ rows?\b")


@dataclasses.dataclass
class Example:
    """A SQL block and the text block that follows it, if any."""

    line: int
    sql: str
    fails: bool
    expected: str | None
    span: tuple[int, int] | None  # of the text block's body in the page


def examples(page: str) -> list[Example]:
    """The SQL blocks of a page in order."""
    found = []
    blocks = list(FENCE.finditer(page))
    for at, block in enumerate(blocks):
        language, *flags = block["info"].split() or [""]
        if language != "sql" or "skip" in flags:
            continue
        follower = blocks[at + 1] if at + 1 < len(blocks) else None
        adjacent = follower and follower["info"] == "text" and not page[block.end() : follower.start()].strip()
        found.append(
            Example(
                line=page.count("\n", 0, block.start()) + 2,
                sql=block["body"],
                fails="error" in flags,
                expected=follower["body"] if adjacent else None,
                span=follower.span("body") if adjacent else None,
            )
        )
    return found


def table_cells(text: str) -> list[list[str]]:
    """The cells of a printed table, header first; rules and the row count are left out."""
    rows = []
    for line in text.splitlines():
        if not line.strip() or RULE.match(line) or TRAILER.match(line.strip()):
            continue
        rows.append([cell.strip() for cell in re.split(r"[|│┆]", line.strip().strip("|│┆"))])
    return rows


def csv_cells(text: str) -> list[list[str]]:
    """The cells of CSV, header first."""
    return [row for row in csv.reader(io.StringIO(text)) if row]


def check(example: Example, page: pathlib.Path, tickstone) -> str | None:
    """Runs an example and asserts its result; returns what the page should show."""
    where = f"{page.relative_to(REPOSITORY)}:{example.line}"
    update = bool(os.environ.get("UPDATE_DOCS"))
    cwd = tickstone.data.parent
    shows_rows = example.expected is not None and not example.fails
    done = tickstone.run("sql", "--format", "csv", "-c", example.sql, check=False, cwd=cwd)
    if example.fails:
        assert done.returncode != 0, f"{where} should fail and does not:\n{example.sql}"
        message = done.stderr.strip()
        if example.expected is not None and not update:
            assert example.expected.strip() == message, f"{where}: another message:\n{message}"
        return message + "\n"
    assert done.returncode == 0, f"{where} failed:\n{example.sql}\n{done.stderr}"
    if not shows_rows:
        return None
    if update:
        shown = tickstone.run("sql", "--format", "table", "-c", example.sql, check=False, cwd=cwd)
        lines = shown.stdout.rstrip().splitlines()
        return "\n".join(line.rstrip() for line in lines if line.strip() and not TRAILER.match(line)) + "\n"
    assert table_cells(example.expected) == csv_cells(done.stdout), f"{where} prints:\n{done.stdout}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, tickstone):
    text = page.read_text()
    found = examples(text)
    assert found, f"{page} has no SQL example"
    replacements = [(example.span, check(example, page, tickstone)) for example in found]
    if os.environ.get("UPDATE_DOCS"):
        for span, shown in reversed(replacements):
            if span and shown is not None:
                text = text[: span[0]] + shown + text[span[1] :]
        page.write_text(text)


def test_the_reader_of_tables_understands_the_styles():
    plain = "+---+-----+\n| a | b   |\n+---+-----+\n| 1 | x y |\n+---+-----+\n1 row in 0.1 ms\n"
    assert table_cells(plain) == [["a", "b"], ["1", "x y"]]
    drawn = "┌───┬───┐\n│ a │ b │\n╞═══╪═══╡\n│ 1 │   │\n└───┴───┘\n"
    assert table_cells(drawn) == [["a", "b"], ["1", ""]]
