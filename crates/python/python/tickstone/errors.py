"""What the package raises.

`KeyboardInterrupt` stays what it is: Ctrl-C cancels the statement under way, nothing of it is stored, and the
database goes on.
"""

from __future__ import annotations

__all__ = ["ClosedError", "Error", "ForkedError", "SqlError", "StorageError"]


class Error(Exception):
    """A request that failed. Unless it says otherwise, nothing of it was stored.

    Attributes:
        message: what went wrong, in one sentence.
        detail: more about it, or None.
        hint: what to do or write instead, or None.
        kind: what the caller can do: "retry" (the same may succeed later), "fix request" (it will fail
            again), "free space" (the disk or a memory budget is full) or "report" (files are damaged, or
            the engine is at fault).
    """

    def __init__(
        self,
        message: str = "",
        *,
        kind: str = "fix request",
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.detail = detail
        self.hint = hint

    def __str__(self) -> str:
        lines = [self.message]
        if self.detail:
            lines.append(self.detail)
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)


class SqlError(Error):
    """A statement that failed; `str()` shows the line of its text with a caret under the place.

    Attributes:
        line, column: the place in the text, in lines and characters from 1, or None where it is not known.
        sql: the text, or None.
    """

    def __init__(
        self,
        message: str = "",
        *,
        kind: str = "fix request",
        detail: str | None = None,
        hint: str | None = None,
        line: int | None = None,
        column: int | None = None,
        sql: str | None = None,
    ) -> None:
        super().__init__(message, kind=kind, detail=detail, hint=hint)
        self.line = line
        self.column = column
        self.sql = sql

    def __str__(self) -> str:
        first, *rest = super().__str__().split("\n")
        return "\n".join([first, *self._pointed(), *rest])

    def _pointed(self) -> list[str]:
        """The line in question and a caret under the column."""
        if self.sql is None or self.line is None or self.column is None:
            return []
        lines = self.sql.split("\n")
        if not 1 <= self.line <= len(lines):
            return []
        shown = lines[self.line - 1].rstrip("\r")
        # Tabs keep the caret below the character, however wide the terminal shows them.
        before = shown[: self.column - 1]
        pad = "".join("\t" if character == "\t" else " " for character in before)
        number = str(self.line)
        return [f" {number} | {shown}", f" {' ' * len(number)} | {pad}^"]


class StorageError(Error):
    """The disk, a memory budget or the files of the database: `kind` says what helps."""


class ClosedError(Error):
    """The database was closed, or the transaction has ended."""


class ForkedError(Error):
    """The process was forked from the one that opened the database, which cannot be used here."""
