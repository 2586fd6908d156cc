"""The page that lists every function is what `SHOW FUNCTIONS` says, with an example of each that runs here.

`UPDATE_DOCS=1` writes it anew.
"""

import os
import re
import tomllib
from pathlib import Path

import tickstone

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sql" / "function-list.md"
EXAMPLES = tomllib.loads(Path(__file__).with_name("function_examples.toml").read_text())
HEAD = """# All functions

What `SHOW FUNCTIONS` lists, from the same registry, most with an example that runs in the tests: an expression to put \
behind `SELECT`, or a whole query, and its value. Those of [time series and markets](functions.md), and those that \
users of other databases [look for](other-functions.md), are on pages of their own; a function without a line \
is on one of these pages, or DataFusion's and described [there](https://datafusion.apache.org/user-guide/sql/scalar_functions.html). Functions of \
[your own](user-functions.md) are listed beside them where they are. Those whose value is another one each time, such \
as `now`, have no example.
"""
KINDS = {"scalar": "Of one row", "aggregate": "Aggregates", "window": "Over windows only"}


def functions(database: tickstone.Database) -> list[dict[str, str | None]]:
    """The rows of `SHOW FUNCTIONS`, in order of their names."""
    return sorted(database.sql("SHOW FUNCTIONS").arrow().to_pylist(), key=lambda row: row["function"])


def value(database: tickstone.Database, example: str) -> str:
    """The one value of an example, as a table shows it."""
    query = example if example.startswith("SELECT ") else f"SELECT {example}"
    relation = database.sql(query)
    assert relation.shape == (1, 1), f"{query}\n{relation}"
    return str(relation).splitlines()[2].strip()


def cell(text: str) -> str:
    """A text as the cell of a table has it."""
    return text.replace("|", "\\|")


def page() -> str:
    parts = [HEAD]
    with tickstone.open() as database:
        found = functions(database)
        for kind, title in KINDS.items():
            parts.append(f"\n## {title}\n\n| function | what it gives | example |\n|---|---|---|\n")
            for row in (row for row in found if row["kind"] == kind):
                # DataFusion's own lines are sentences, and stay in its documentation.
                about = (row["description"] or "").strip()
                about = "" if about.endswith((".", ":")) else cell(about)
                example = EXAMPLES[kind].get(row["function"])
                shown = f"`{cell(example)}` → `{cell(value(database, example))}`" if example else ""
                parts.append(f"| `{row['function']}{row['arguments'] or ''}` | {about} | {shown} |\n")
    return "".join(parts)


def test_every_function_has_an_example() -> None:
    with tickstone.open() as database:
        listed = {(row["kind"], row["function"]) for row in functions(database)}
    shown = {(kind, name) for kind in KINDS for name in EXAMPLES[kind]}
    left_out = {*EXAMPLES["without"]}
    assert not shown - listed, "these are no functions of the page"
    assert left_out == {name for _, name in listed - shown}, "an example, or a name in `without`, for each function"


def test_an_example_calls_its_function() -> None:
    examples = [(name, example) for kind in KINDS for name, example in EXAMPLES[kind].items()]
    assert [name for name, example in examples if not re.search(rf"\b{name}\(", example)] == []


def test_the_page_lists_every_function() -> None:
    made = page()
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(made)
    assert PAGE.read_text() == made, "UPDATE_DOCS=1 writes docs/sql/function-list.md anew"
