"""Runs every example of the Python pages and compares what it prints.

A page is one program: its ```python blocks run in order, in a directory of their own. A ```text block right
after one is what it prints, and the value of its last line if that is an expression; after ```python error it
is the exception. UPDATE_DOCS=1 writes what is printed into the pages instead, and makes the reference anew.
"""

import ast
import contextlib
import difflib
import io
import json
import os
import pathlib

import pytest

from conftest import REPOSITORY
from test_examples import FENCE

pytest.importorskip("tickstone", reason="the package is not installed: make python")

PAGES = REPOSITORY / "docs" / "python"
PROGRAMS = [*sorted(PAGES.glob("[!r]*.md")), REPOSITORY / "docs" / "sql" / "user-functions.md"]
UPDATE = bool(os.environ.get("UPDATE_DOCS"))


def run(code: str, names: dict, where: str) -> str:
    """What a block prints, then the value of its last line as the prompt shows it."""
    body = ast.parse(code, where)
    last = body.body.pop() if body.body and isinstance(body.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(body, where, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), where, "eval"), names)
            if value is not None:
                print(repr(value))
    return printed.getvalue()


def shown(code: str, names: dict, where: str, fails: bool) -> str:
    """What the page shows of a block; asserts that it fails if it shall."""
    try:
        printed = run(code, names, where)
    except Exception as error:
        if not fails:
            raise
        printed = f"{type(error).__module__.partition('.')[0]}.{type(error).__name__}: {error}"
    else:
        assert not fails, f"{where} raised nothing:\n{code}"
    return "".join(f"{line.rstrip()}\n" for line in printed.rstrip().splitlines())


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: page.stem)
def test_page(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    names, replacements, ran = {"__name__": "__main__"}, [], 0
    blocks = list(FENCE.finditer(text))
    for at, block in enumerate(blocks):
        language, *flags = block["info"].split() or [""]
        if language != "python" or "skip" in flags:
            continue
        where = f"{page.relative_to(REPOSITORY)}:{text.count(chr(10), 0, block.start()) + 2}"
        printed = shown(block["body"], names, where, fails="error" in flags)
        ran += 1
        follower = blocks[at + 1] if at + 1 < len(blocks) else None
        if follower and follower["info"] == "text" and not text[block.end() : follower.start()].strip():
            assert UPDATE or printed == follower["body"], f"{where} prints:\n{printed}"
            replacements.append((follower.span("body"), printed))
    assert ran, f"{page} has no example"
    if UPDATE:
        for (start, end), printed in reversed(replacements):
            text = text[:start] + printed + text[end:]
        page.write_text(text)


def test_tutorial(tmp_path):
    """The notebook runs from top to bottom on generated data, and its stored outputs are small."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    path = PAGES / "tutorial.ipynb"
    notebook = nbformat.read(path, as_version=4)
    stored = [cell.get("outputs", []) for cell in notebook.cells]
    client = nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    environment = {**os.environ, "PLOTLY_RENDERER": "plotly_mimetype"}
    client.execute(env=environment)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
    if UPDATE:
        nbformat.write(notebook, path)
        return
    assert len(path.read_bytes()) < 150_000, "the outputs are too large to store"
    assert any(outputs for outputs in stored), "the notebook is stored without outputs"
    for cell, outputs in zip(notebook.cells, stored, strict=True):
        assert texts(cell.get("outputs", [])) == texts(outputs), cell.source


def texts(outputs: list) -> list[str]:
    """The plain text of a cell's outputs; what is printed may come in pieces, a line's end apart from its line."""
    found, printed = [], None
    for output in outputs:
        data = output.get("data", {})
        if "application/vnd.plotly.v1+json" in data:
            figure = data["application/vnd.plotly.v1+json"]
            found.append(json.dumps([trace["type"] for trace in figure["data"]]))
        else:
            text = "".join(data.get("text/plain", output.get("text", "")))
            if printed is not None and output.get("name") == printed:
                text = found.pop() + text
            found.append(text)
        printed = output.get("name")
    return [text.strip() for text in found]


def test_the_reference_is_true():
    """The page has every public name with the signature and docstring that the code has."""
    from python_reference import render

    path = pathlib.Path(PAGES / "reference.md")
    if UPDATE:
        path.write_text(render())
    changed = list(difflib.unified_diff(path.read_text().splitlines(), render().splitlines(), lineterm="", n=0))
    assert not changed, "UPDATE_DOCS=1 makes it anew:\n" + "\n".join(changed[:20])
