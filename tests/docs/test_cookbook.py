"""Runs the notebooks of the cookbook from top to bottom and compares what they show with what is stored.

The index lists fifty tasks, each leads to its heading, and each has its SQL and a check of its own that can fail.
UPDATE_DOCS=1 stores what the notebooks show instead.
"""

import importlib.util
import json
import os
import re
import shutil

import pytest

from conftest import REPOSITORY
from test_python import UPDATE, texts

nbformat = pytest.importorskip("nbformat")
pl = pytest.importorskip("polars")

FOLDER = REPOSITORY / "docs" / "cookbook"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
TASKS = 50
# Longest that one cell may take, in seconds, on a slow machine in the dev profile.
CELL_SECONDS = 120
# Most characters of the outputs that a notebook stores.
OUTPUTS_MAX = 60_000
HEADING = re.compile(r"^## (\d+\. .+)$", re.MULTILINE)


def sections(notebook) -> dict[str, list]:
    """The code cells of each task, by its heading."""
    found, current = {}, None
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            if heading := HEADING.search(cell.source):
                current = found.setdefault(heading[1], [])
        elif current is not None:
            current.append(cell)
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, tmp_path):
    nbclient = pytest.importorskip("nbclient")
    shutil.copy(FOLDER / "market.py", tmp_path)
    notebook = nbformat.read(path, as_version=4)
    stored = [cell.get("outputs", []) for cell in notebook.cells]
    client = nbclient.NotebookClient(notebook, timeout=CELL_SECONDS, resources={"metadata": {"path": str(tmp_path)}})
    client.execute(env={**os.environ, "PLOTLY_RENDERER": "plotly_mimetype"})
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        warnings = [output for output in cell.get("outputs", []) if output.get("name") == "stderr"]
        assert not warnings, f"{cell.source}\nwarns: {warnings}"
    if UPDATE:
        nbformat.write(notebook, path)
        return
    size = sum(len(json.dumps(outputs)) for outputs in stored)
    assert size < OUTPUTS_MAX, f"{size} characters of outputs are too many to store"
    assert any(stored), "the notebook is stored without outputs"
    for cell, outputs in zip(notebook.cells, stored, strict=True):
        assert texts(cell.get("outputs", [])) == texts(outputs), cell.source


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_task_has_its_sql_and_a_check(path):
    tasks = sections(nbformat.read(path, as_version=4))
    assert tasks, "the notebook has no task"
    for heading, cells in tasks.items():
        sources = [cell.source for cell in cells]
        names = [found[1] for source in sources if (found := re.match(r"%%sql (\w+)\n", source))]
        assert names, f"{heading}: no cell of SQL"
        python = [source for source in sources if "db." in source and not source.startswith("%%sql")]
        assert python, f"{heading}: nothing from Python"
        checks = [source for source in sources if re.search(r"^ *assert ", source, re.MULTILINE) and "pl." in source]
        assert checks, f"{heading}: no check by Polars"
        for name in names:
            assert any(re.search(rf"\b{name}\b", source) for source in checks), f"{heading}: no check of {name}"
        assert all("same(" in source for source in checks), f"{heading}: a check that compares no rows"


def test_the_index_is_true():
    """README.md has a row for each task, in order, that leads to its heading."""
    rows = re.findall(r"^\| (\d+) \| \[(.+?)\]\((\S+?\.ipynb)#(\S+?)\) \|", (FOLDER / "README.md").read_text(), re.MULTILINE)
    listed = [(f"{number}. {title}", notebook, anchor) for number, title, notebook, anchor in rows]
    there = [
        (heading, path.name, heading.replace(" ", "-"))
        for path in NOTEBOOKS
        for heading in sections(nbformat.read(path, as_version=4))
    ]
    assert listed == there
    assert [int(number) for number, *_ in rows] == list(range(1, TASKS + 1))


def test_what_differs_is_found(capsys):
    """`same` of market.py, by which the notebooks check: it would be of no use if it agreed to everything."""
    spec = importlib.util.spec_from_file_location("cookbook_market", FOLDER / "market.py")
    market = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(market)
    want = pl.DataFrame({"key": ["a", "b", "c"], "x": [1.0, None, 3e-7], "n": [1, 2, 3]})
    assert market.same(want.reverse().cast({"key": pl.Categorical}), want, by="key")
    assert market.same(want.with_columns(pl.col("x") * (1 + 1e-12)), want, by="key")
    others = [
        want.head(2),
        want.drop("n"),
        want.with_columns(pl.col("x") * (1 + 1e-8)),
        want.with_columns(pl.col("x").fill_null(0.0)),
        want.with_columns(x=float("nan")),
        want.with_columns(x=float("inf")),
        want.with_columns(n=pl.Series([1, 2, None])),
        want.with_columns(key=pl.Series(["a", "b", "d"])),
    ]
    for other in others:
        assert not market.same(other, want, by="key"), other
        assert not market.same(want, other, by="key"), other
        assert capsys.readouterr().out
