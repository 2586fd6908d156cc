"""What an import did, and how far it is."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["FileReport", "ImportProgress", "ImportReport", "ProgressTeller"]

_BAR_WIDTH = 30


@dataclass(frozen=True)
class ImportProgress:
    """How far an import is."""

    #: The file under way, its place among the files from 0, and how many there are.
    path: str
    file: int
    files: int
    #: Bytes of it read, its size, and its rows taken so far.
    bytes_read: int
    bytes_total: int
    rows: int


@dataclass(frozen=True)
class FileReport:
    """What the import of one file did."""

    path: str
    format: str
    rows: int
    #: Its size on disk.
    bytes: int
    #: From opening to the end of its rows; of the last file of a commit, to its commit.
    seconds: float
    #: Rows left out, and the first of them: line and reason.
    bad_rows: int
    examples: list[tuple[int, str]]
    #: Keys of JSON that are no column of the table.
    ignored: list[str]
    #: Names and SQL types of the columns.
    columns: list[tuple[str, str]]
    #: The table's designated timestamp and series key.
    timestamp: str | None
    series: list[str]


@dataclass(frozen=True)
class ImportReport:
    """What an import did: whether it made the table, one report a file, and which files of patterns and folders the
    table had already."""

    table: str
    created: bool
    files: list[FileReport]
    known: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(file.rows for file in self.files)

    @property
    def bad_rows(self) -> int:
        """Rows left out, of all files."""
        return sum(file.bad_rows for file in self.files)

    @classmethod
    def of(cls, report: dict[str, Any]) -> ImportReport:
        """The report that the engine gave."""
        files = [FileReport(**{**file, "path": str(file["path"])}) for file in report["files"]]
        return cls(report["table"], report["created"], files, [str(path) for path in report["known"]])


class ProgressTeller:
    """The function that an import tells its progress, and the end of its line on the terminal."""

    def __init__(self, wish: bool | Callable[[ImportProgress], object] | None) -> None:
        self._wish = wish
        self._shown = False

    def __enter__(self) -> Callable[..., object] | None:
        wish = self._wish
        if wish is None:
            wish = sys.stderr is not None and sys.stderr.isatty()
        if callable(wish):
            tell = wish
            return lambda path, *numbers: tell(ImportProgress(str(path), *numbers))
        return self._show if wish else None

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print(file=sys.stderr)

    def _show(self, path: object, file: int, files: int, read: int, total: int, rows: int) -> None:
        share = min(read / total, 1.0) if total else 1.0
        bar = "#" * round(share * _BAR_WIDTH)
        name = os.path.basename(str(path))
        line = f"{name} ({file + 1} of {files}) [{bar:<{_BAR_WIDTH}}] {share:4.0%} {rows:,} rows"
        print(f"\r{line}", end="", file=sys.stderr, flush=True)
        self._shown = True
