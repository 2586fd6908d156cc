"""How far a long query is, on a terminal."""

from __future__ import annotations

import sys

__all__ = ["query_teller"]

#: Seconds before a query is called long.
_SHOWN_AFTER = 2.0


def query_teller(wish: bool | None) -> QueryLine | None:
    """What tells how far a query is; None where nobody is to be told (None: if standard error is no terminal)."""
    if wish is None:
        wish = sys.stderr is not None and sys.stderr.isatty()
    return QueryLine() if wish else None


class QueryLine:
    """One line on standard error that grows while rows are waited for and goes when they come."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, read: int, selected: int, seconds: float, came: bool) -> None:
        if came:
            if self._width:
                print(f"\r{'':{self._width}}\r", end="", file=sys.stderr, flush=True)
                self._width = 0
        elif selected and seconds >= _SHOWN_AFTER:
            line = f"{read / selected:4.0%} of {selected:,} rows read, {seconds:.0f} s"
            print(f"\r{line:<{self._width}}", end="", file=sys.stderr, flush=True)
            self._width = max(self._width, len(line))
