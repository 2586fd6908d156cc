"""The page that lists every function is what `SHOW FUNCTIONS` says; `UPDATE_DOCS=1` writes it anew."""

import os
from pathlib import Path

import tickstone

PAGE = Path(__file__).resolve().parents[2] / "docs" / "sql" / "function-list.md"
HEAD = """# All functions

What `SHOW FUNCTIONS` lists, from the same registry. Those of [time series and markets](functions.md), and those that \
users of other databases [look for](other-functions.md), have examples on pages of their own; a function without a line \
is on one of these pages, or DataFusion's and described [there](https://datafusion.apache.org/user-guide/sql/scalar_functions.html). Functions of \
[your own](user-functions.md) are listed beside them where they are.
"""
KINDS = {"scalar": "Of one row", "aggregate": "Aggregates", "window": "Over windows only"}


def page() -> str:
    with tickstone.open() as database:
        found = database.sql("SHOW FUNCTIONS").arrow().to_pylist()
    parts = [HEAD]
    for kind, title in KINDS.items():
        parts.append(f"\n## {title}\n\n| function | what it gives |\n|---|---|\n")
        for row in sorted((row for row in found if row["kind"] == kind), key=lambda row: row["function"]):
            # DataFusion's own lines are sentences, and stay in its documentation.
            about = (row["description"] or "").strip()
            about = "" if about.endswith((".", ":")) else about.replace("|", "\\|")
            parts.append(f"| `{row['function']}{row['arguments'] or ''}` | {about} |\n")
    return "".join(parts)


def test_the_page_lists_every_function() -> None:
    made = page()
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(made)
    assert PAGE.read_text() == made, "UPDATE_DOCS=1 writes docs/sql/function-list.md anew"
