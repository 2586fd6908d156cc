"""`%tick` and `%%tick` in a shell of IPython."""

import datetime
import pathlib
import re
import sys
import types
from collections.abc import Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import tickstone
from tickstone import magics

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "python" / "index.md"


class Shell:
    """A shell whose magics are called as a notebook calls them."""

    def __init__(self) -> None:
        self.shell: Any = InteractiveShell()  # type: ignore[no-untyped-call]
        history: Any = self.shell.history_manager
        history.enabled = False
        self.shell.run_line_magic("load_ext", "tickstone")

    @property
    def names(self) -> dict[str, Any]:
        """The variables."""
        names: dict[str, Any] = self.shell.user_ns
        return names

    def line(self, text: str) -> Any:
        """`%tick text`."""
        return self.shell.run_line_magic("tick", text)

    def cell(self, line: str, text: str) -> Any:
        """`%%tick line` over a text."""
        return self.shell.run_cell_magic("tick", line, text)

    @property
    def database(self) -> tickstone.Database | None:
        """What the magics ask."""
        found = self.shell.magics_manager.registry["TickMagics"]
        assert isinstance(found, magics.TickMagics)
        return found.database


@pytest.fixture
def shell() -> Iterator[Shell]:
    made = Shell()
    yield made
    made.line("--close")
    made.shell.history_manager.end_session()


@pytest.fixture
def market(shell: Shell) -> Shell:
    """A shell whose database has three trades."""
    shell.line(":memory:")
    shell.line("CREATE TABLE trades (ts TIMESTAMP, sym SYMBOL, px DOUBLE) TIMESTAMP(ts)")
    shell.cell("", "INSERT INTO trades VALUES\n ('2024-08-08T09:30', 'A', 1.5), ('2024-08-08T09:31', 'B', NULL),\n ('2024-08-08T09:32', 'A', 3.5)")
    return shell


def test_databases(shell: Shell, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell.line("")
    assert capsys.readouterr().out == "no database: %tick PATH opens one\n" and shell.database is None
    with pytest.raises(UsageError, match="no database: %tick PATH opens one"):
        shell.line("SELECT 1")
    shell.line(str(tmp_path / "ticks"))
    assert f"'{tmp_path / 'ticks'}', open" in capsys.readouterr().out
    first = shell.database
    assert first is not None and first.progress is True, "long queries tell how far they are"
    shell.line("CREATE TABLE t (a BIGINT)")
    shell.cell(str(tmp_path / "ticks"), "INSERT INTO t VALUES (1)")
    assert shell.database is first, "the same path is the same database"
    shell.line("CHECKPOINT")
    shell.line(f"'{tmp_path / 'two words'}'")
    assert first.closed and (tmp_path / "two words").is_dir()
    with tickstone.open(tmp_path / "ticks") as db:
        shell.names["db"] = db
        assert shell.cell("db", "SELECT * FROM t").fetchall() == [(1,)]
        assert shell.database is db
        shell.line("--close")
        assert not db.closed and shell.database is None, "whoever opened it closes it"
    shell.line("db")
    with pytest.raises(UsageError, match="closed"):
        shell.line("SELECT 1")
    with pytest.raises(UsageError, match="one database at a time: a, b"):
        shell.cell("a b", "SELECT 1")
    with pytest.raises(UsageError, match="no server answers|cannot|connect"):
        shell.line("tickstone://127.0.0.1:1")


def test_kinds(market: Shell) -> None:
    query = "SELECT ts, px FROM trades ORDER BY ts"
    relation = market.line(query)
    assert isinstance(relation, tickstone.Relation) and "1.5" in relation._repr_html_()
    assert isinstance(market.line(f"--df {query}"), pd.DataFrame)
    for flag, kind in (("--df", pd.DataFrame), ("--pl", pl.DataFrame), ("--arrow", pa.Table)):
        rows = market.cell(flag, query)
        assert isinstance(rows, kind) and len(rows) == 3
        assert market.cell(f"-o rows {flag}", query) is None
        assert isinstance(market.names["rows"], kind) and market.names["rows"].shape == (3, 2)
    assert market.line(f"-o rows {query}") is None and isinstance(market.names["rows"], pl.DataFrame)
    assert market.names["rows"]["px"].to_list() == [1.5, None, 3.5]
    assert market.line("--out=few --df SELECT -1 AS n, 'it''s --df' AS \"a b\"") is None
    assert market.names["few"].to_dict("list") == {"n": [-1], "a b": ["it's --df"]}
    assert market.line("(SELECT 1 AS a) UNION ALL (SELECT 2) ORDER BY a").fetchall() == [(1,), (2,)]
    empty = market.cell("--pl", "SELECT * FROM trades WHERE px > 99")
    assert empty.shape == (0, 3)
    with pytest.raises(UsageError, match="'a b.* is no name of a variable"):
        market.cell("-o 'a b'", query)
    with pytest.raises(UsageError, match="unrecognized arguments: --nope"):
        market.cell("--nope", query)


def test_statements(market: Shell) -> None:
    changed = market.line("INSERT INTO trades VALUES ('2024-08-08T09:33', 'C', 9.5)")
    assert changed.rowcount == 1
    assert market.line("CREATE TABLE other (a BIGINT)") is None
    counted = market.cell("", "INSERT INTO other VALUES (1), (2);\nSELECT count(*) FROM other;\n-- that is all\n")
    assert counted.fetchall() == [(2,)]


def test_names_are_variables(market: Shell) -> None:
    market.names.update(low=2, sym="A", words="it's", when=datetime.datetime(2024, 8, 8, 9, 31), syms=["A", "B"])
    assert market.cell("", "SELECT px FROM trades WHERE px > :low AND sym = $sym").fetchall() == [(3.5,)]
    assert market.line("SELECT px FROM trades WHERE px > $low").fetchall() == [(3.5,)], "not pasted into the line"
    assert market.line("SELECT $words AS words, '$low :low' AS kept").fetchall() == [("it's", "$low :low")]
    assert market.line("SELECT count(*) FROM trades WHERE ts >= :when").fetchall() == [(2,)]
    assert market.line("SELECT count(*) FROM trades WHERE sym IN (:syms)").fetchall() == [(3,)]
    with pytest.raises(UsageError, match="placeholder :nope has no value"):
        market.line("SELECT :nope")
    market.names["weights"] = pl.DataFrame({"sym": ["A"], "w": [2.0]})
    joined = market.cell("--pl", "SELECT t.px * w.w AS v FROM trades t JOIN weights w ON t.sym = w.sym ORDER BY v")
    assert joined["v"].to_list() == [3.0, 7.0]
    inside = "def f(low):\n    rows = %tick SELECT count(*) FROM trades WHERE px > :low\n    return rows.fetchone()[0]\n"
    assert market.shell.run_cell(inside + "found = f(1), f(3)").success and market.names["found"] == (2, 1), "locals come first"


def test_a_wrong_statement(market: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="column 'prize' does not exist") as raised:
        market.cell("-o rows", "SELECT prize FROM trades")
    assert isinstance(raised.value.__cause__, tickstone.SqlError) and "rows" not in market.names
    market.shell.run_cell("%%tick\nSELECT prize FROM trades")
    shown = "".join(capsys.readouterr())
    assert "1 | SELECT prize FROM trades" in shown and "Traceback" not in shown


def test_plots(market: Shell) -> None:
    figure = market.cell("--plot -o rows --df", "SELECT ts, sym, px FROM trades ORDER BY ts")
    assert [trace.name for trace in figure.data] == ["A", "B"] and isinstance(market.names["rows"], pd.DataFrame)
    assert list(figure.data[0].y) == [1.5, 3.5]


def test_plots_of_pandas(market: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without plotly pandas draws, where matplotlib is there."""
    drawn: list[dict[str, Any]] = []
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match="plots need plotly and NumPy.*, or matplotlib"):
        market.cell("--plot", "SELECT ts, px FROM trades")
    monkeypatch.setitem(sys.modules, "matplotlib", types.ModuleType("matplotlib"))

    def plot(frame: pd.DataFrame, **options: Any) -> pd.DataFrame:
        drawn.append(options)
        return frame

    monkeypatch.setattr(pd.DataFrame, "plot", plot)
    assert market.cell("--plot", "SELECT px, ts FROM trades").shape == (3, 2) and drawn == [{"x": "ts"}]


def test_frames_without_polars(market: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    market.cell("-o rows", "SELECT 1 AS one")
    assert isinstance(market.names["rows"], pd.DataFrame)


def test_help_names_the_options() -> None:
    text = magics.TickMagics.tick.__doc__ or ""
    assert "%tick [-o NAME] [--df] [--pl] [--arrow] [--plot] [--close]" in text


def test_the_examples_of_the_page(shell: Shell, db: tickstone.Database) -> None:
    """The cells of docs/python/index.md, in their order."""
    db.sql("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE) TIMESTAMP(ts)")
    db.sql("INSERT INTO trades VALUES ('2024-08-08T09:30', 'BTC', 1.5), ('2024-08-08T09:31', 'BTC', 2.5)")
    shell.names["db"] = db
    cells = re.findall(r"^```ipython\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert len(cells) >= 5
    for cell in cells:
        ran = shell.shell.run_cell(cell)
        assert ran.success, cell
    assert shell.names["bars"]["close"].to_list() == [1.5, 2.5] and len(ran.result.data) == 1
