"""`%tick` and `%%tick` of IPython and notebooks.

    %load_ext tickstone
    %tick ticks                                     opens a directory; or ":memory:", "tickstone://host", a variable
    %tick SELECT count(*) FROM trades               a statement in a line

    %%tick -o bars --pl                             statements in a cell, the rows in a variable
    SELECT ts, last(price) AS price FROM trades WHERE symbol = :symbol SAMPLE BY 1m

Values of `:name` and `$name` are those of variables, and a name in FROM that is no table of the database is a frame
among them. Needs IPython.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, needs_local_scope, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments, parse_argstring

from tickstone.database import Database, connect, open
from tickstone.dbapi import first_keyword
from tickstone.errors import Error
from tickstone.parameters import parameters_of
from tickstone.texts import placeholders

if TYPE_CHECKING:
    from tickstone.relation import Relation

__all__ = ["TickMagics", "load_ipython_extension"]

# Statements of one word: any other word alone is a database.
_WORDS = {"BEGIN", "COMMIT", "ROLLBACK", "CHECKPOINT"}
# Options before the statement of a line.
_OPTIONS = re.compile(r"\s*(?:(?:-o\s*|--out[\s=]\s*)\w+\s+|--[a-z]+\s+)*")


def load_ipython_extension(shell: Any) -> None:
    """Gives a shell the magics. `%load_ext tickstone` calls it."""
    shell.register_magics(TickMagics(shell))


@magics_class
class TickMagics(Magics):
    """The magics and the database they ask."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        #: The database that was named last, None before.
        self.database: Database | None = None
        # Whether it was opened here, and is to be closed where another one takes its place.
        self._owned = False

    @magic_arguments()
    @argument("-o", "--out", metavar="NAME", help="assign the rows to a variable and show nothing")
    @argument("--df", dest="kind", action="store_const", const="df", help="as a pandas DataFrame")
    @argument("--pl", dest="kind", action="store_const", const="pl", help="as a Polars DataFrame")
    @argument("--arrow", dest="kind", action="store_const", const="arrow", help="as a pyarrow Table")
    @argument("--plot", action="store_true", help="draw the rows, as lines over time if nothing else fits")
    @argument("--close", action="store_true", help="close the database")
    @argument("rest", nargs="*", metavar="DATABASE", help="a path, an address or a variable; in a line also a statement")
    @no_var_expand
    @needs_local_scope
    @line_cell_magic
    def tick(self, line: str, cell: str | None = None, local_ns: Mapping[str, object] | None = None) -> Any:
        """Opens a database and runs statements."""
        assert self.shell is not None, "magics have a shell"
        variables: dict[str, object] = {**self.shell.user_ns, **(local_ns or {})}
        statement, options = cell, line
        after = _OPTIONS.sub("", line, count=1)
        if cell is None and _is_statement(after):
            statement, options = after, line[: len(line) - len(after)]
        try:
            given = parse_argstring(self.tick, options)
        except ValueError as error:
            raise UsageError(str(error)) from error
        named = [word.strip("\"'") for word in given.rest]
        if len(named) > 1:
            raise UsageError(f"one database at a time: {', '.join(named)}")
        if given.close:
            self._close()
            return None
        if named:
            self._use(named[0], variables)
        if statement is None:
            print(self.database if self.database is not None else "no database: %tick PATH opens one")
            return None
        return self._run(statement, variables, given.out, given.kind, given.plot)

    def _use(self, name: str, variables: Mapping[str, object]) -> None:
        """The database of a variable, of a server or of a directory from now on."""
        known = variables.get(name)
        if isinstance(known, Database):
            self._close(replaced=known)
            self.database, self._owned = known, False
            return
        if self.database is not None and self._owned and not self.database.closed and self.database.path == name:
            return
        self._close()
        is_server = name.startswith("tickstone://")
        self.database = _told(lambda: connect(name) if is_server else open(name, progress=True))
        self._owned = True

    def _close(self, replaced: Database | None = None) -> None:
        """Closes what was opened here."""
        if self.database is not None and self._owned and self.database is not replaced:
            self.database.close()
        self.database, self._owned = None, False

    def _run(
        self,
        sql: str,
        variables: Mapping[str, object],
        out: str | None = None,
        kind: str | None = None,
        plot: bool = False,
    ) -> Any:
        database = self.database
        if database is None:
            raise UsageError("no database: %tick PATH opens one")
        if out is not None and not out.isidentifier():
            raise UsageError(f"{out!r} is no name of a variable")
        names = [placeholder[1:] for placeholder in placeholders(sql)]
        # A placeholder without a variable is told of by the database, with its place.
        values = {name: variables[name] for name in names if name in variables}

        def ask() -> Any:
            params = parameters_of(values or None, {})
            relation = database._run(database._session(), sql, params, variables, {})
            if not relation.columns:
                return relation if out is None and relation.rowcount >= 0 else None
            if plot:
                relation.cache()
            if out is not None:
                assert self.shell is not None, "magics have a shell"
                self.shell.user_ns[out] = _frame(relation, kind)
            if plot:
                return _drawn(relation)
            return None if out is not None else relation if kind is None else _frame(relation, kind)

        return _told(ask)


def _told(what: Callable[[], Any]) -> Any:
    """What a call gives; an error of the database comes without the traceback of this package."""
    try:
        return what()
    except Error as error:
        raise UsageError(str(error)) from error


def _is_statement(text: str) -> bool:
    """Whether a line is one, not a path, an address or a variable."""
    words = text.split()
    return len(words) > 1 and bool(first_keyword(text.lstrip(" ("))) or text.strip(" ;").upper() in _WORDS


def _frame(relation: Relation, kind: str | None) -> Any:
    """The rows as a frame: of the kind that is asked for, or of the first library there is."""
    if kind is not None:
        return getattr(relation, kind)()
    for known in ("pl", "df"):
        try:
            return getattr(relation, known)()
        except ImportError:
            continue
    return relation.arrow()


def _drawn(relation: Relation) -> Any:
    """A figure of plotly, or else of pandas and matplotlib."""
    from tickstone.plot import imported

    try:
        imported()
    except ImportError as error:
        try:
            import matplotlib  # noqa: F401
        except ImportError:
            raise UsageError(f"{error}, or matplotlib") from error
        frame = relation.df()
        times = [name for name, dtype in frame.dtypes.items() if str(dtype).startswith("datetime64")]
        return frame.plot(x=times[0] if times else None)
    return relation.plot()
