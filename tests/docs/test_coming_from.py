"""Runs both sides of the pages for users of pandas and DuckDB, and compares their answers.

In docs/coming-from/pandas.md a ```python block is pandas', in duckdb.md a ```sql duckdb block is DuckDB's; our
```sql block of the same section must give the same rows, in any order, doubles to 1e-9. Columns are compared by
their place.
"""

import ast
import re

import duckdb
import pandas as pd
import pyarrow as pa
import pytest

from conftest import REPOSITORY
from test_examples import FENCE

FOLDER = REPOSITORY / "docs" / "coming-from"
QUERY = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)


class Pandas:
    """Blocks of Python, run one after the other."""

    language = ("python",)

    def __init__(self):
        self.names = {"__name__": "__main__"}

    def rows(self, code: str) -> list[tuple] | None:
        """The rows of the value of a block's last line, None where that is none."""
        body = ast.parse(code)
        last = body.body.pop() if isinstance(body.body[-1], ast.Expr) else None
        exec(compile(body, "page", "exec"), self.names)
        value = last and eval(compile(ast.Expression(last.value), "page", "eval"), self.names)
        return None if value is None else self.of(value)

    def of(self, value) -> list[tuple]:
        if isinstance(value, pd.Series):
            value = value.to_frame(value.name or "value")
        if not isinstance(value, pd.DataFrame):
            return [(value,)]
        named = any(name is not None for name in value.index.names)
        return plain(pa.Table.from_pandas(value.reset_index() if named else value, preserve_index=False))


class DuckDB:
    """Blocks of SQL, run one after the other."""

    language = ("sql", "duckdb")

    def __init__(self):
        self.connection = duckdb.connect()
        self.connection.sql("SET timezone = 'UTC'")

    def rows(self, code: str) -> list[tuple] | None:
        """The rows of a query, None of another statement."""
        answer = self.connection.sql(code)
        return plain(answer.to_arrow_table()) if QUERY.match(code) else None


def plain(table: pa.Table) -> list[tuple]:
    """The rows of an Arrow table as Python values: times as ns, dictionaries as their values."""
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("s"))
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())
        columns.append(column.to_pylist())
    return list(zip(*columns, strict=True))


def same(ours, theirs) -> bool:
    """Whether two values are equal; a NaN of pandas is no value."""
    ours, theirs = (None if value is None or value != value else value for value in (ours, theirs))
    if isinstance(ours, (list, tuple)):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    numbers = (int, float)
    if isinstance(ours, numbers) and isinstance(theirs, numbers):
        return abs(ours - theirs) <= 1e-9 * max(abs(ours), abs(theirs))
    return ours == theirs


def same_rows(ours: list[tuple], theirs: list[tuple]) -> bool:
    """Whether two answers hold the same rows."""

    left = list(theirs)
    for our in ours:
        at = next((at for at, their in enumerate(left) if len(our) == len(their) and all(map(same, our, their))), None)
        if at is None:
            return False
        del left[at]
    return not left


@pytest.mark.parametrize(("page", "system"), [("pandas", Pandas), ("duckdb", DuckDB)])
def test_both_sides(page, system, tickstone, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (FOLDER / f"{page}.md").read_text()
    system, compared = system(), 0
    for section in re.split(r"^## ", text, flags=re.MULTILINE):
        theirs = None
        for block in FENCE.finditer(section):
            language = tuple(block["info"].split())
            if language == system.language:
                theirs = system.rows(block["body"])
            elif language == ("sql",):
                tickstone.run("sql", "--quiet", "-c", block["body"], cwd=tmp_path)
                if theirs is None or not QUERY.match(block["body"]):
                    continue
                ours = plain(tickstone.table(block["body"]))
                shown = "\n".join(map(str, ["ours:", *ours, "theirs:", *theirs]))
                assert same_rows(ours, theirs), f"{page}.md, {section.splitlines()[0]}\n{shown}"
                compared, theirs = compared + 1, None
        assert theirs is None, f"{page}.md, {section.splitlines()[0]}: their answer is compared with nothing"
    assert compared >= 18, f"{page}.md compares {compared} answers"
