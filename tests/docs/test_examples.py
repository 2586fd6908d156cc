"""Runs every example of the documentation and compares what it prints.

A page is one database: its ```sql blocks run in order, each as one `tickstone sql -c`. A ```text block
right after one is what the program prints, without row counts and times; after ```sql error it is the
message. Blocks of other systems, such as ```sql duckdb, and ```sql skip do not run here.

    UPDATE_DOCS=1 .venv/bin/python -m pytest tests/docs

writes what the program prints into the text blocks instead; read the difference before committing it.
"""

import dataclasses
import os
import pathlib
import re

import pytest

from conftest import REPOSITORY

FOLDERS = (REPOSITORY / "docs" / "sql", REPOSITORY / "docs" / "coming-from")
# Of pages without examples one is an index, and one a list.
WITHOUT = {"README", "function-list"}
PAGES = sorted(page for folder in FOLDERS for page in folder.glob("*.md") if page.stem not in WITHOUT)
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)


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
        if language != "sql" or set(flags) - {"error"}:
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


def check(example: Example, page: pathlib.Path, tickstone) -> str:
    """Runs an example and asserts its result; returns what the page should show."""
    where = f"{page.relative_to(REPOSITORY)}:{example.line}"
    done = tickstone.run("sql", "--quiet", "-c", example.sql, check=False, cwd=tickstone.data.parent)
    assert (done.returncode != 0) == example.fails, f"{where}:\n{example.sql}\n{done.stdout}{done.stderr}"
    printed = done.stderr if example.fails else done.stdout
    shown = "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines())
    if example.expected is not None and not os.environ.get("UPDATE_DOCS"):
        assert shown == example.expected, f"{where} prints:\n{shown}"
    return shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_page(page, tickstone):
    text = page.read_text()
    found = examples(text)
    assert found, f"{page} has no SQL example"
    replacements = [(example.span, check(example, page, tickstone)) for example in found]
    if os.environ.get("UPDATE_DOCS"):
        for span, shown in reversed(replacements):
            if span:
                text = text[: span[0]] + shown + text[span[1] :]
        page.write_text(text)
