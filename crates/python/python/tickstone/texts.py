"""Text of SQL: names and values as it has them, and what is a word of a statement and what is not."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

__all__ = [
    "Parameters",
    "StrPath",
    "Time",
    "bracketed",
    "by_place",
    "ended",
    "file_call",
    "fill_of",
    "last_statement",
    "placeholders",
    "precision_and_scale",
    "quoted",
    "renamed",
    "stride",
    "text_of",
    "time_of",
]

StrPath: TypeAlias = str | os.PathLike[str]
Time: TypeAlias = str | datetime.datetime | datetime.date | int
Parameters: TypeAlias = Sequence[Any] | Mapping[str, Any] | None

# What may stand in a statement: texts, quoted names and comments hold no words, brackets, semicolons or placeholders.
_TOKEN = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?\*/ )
  | (?P<kept> [eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "(?:[^"]|"")*" | \$\$.*?\$\$ | :: )
  | (?P<placeholder> \$\w+ | (?<![\w\])]):[A-Za-z_]\w* )
  | (?P<word> \w+ )
  | (?P<sign> [();] )
    """,
    re.VERBOSE | re.DOTALL,
)
# The first words of what can stand in brackets in the place of a table.
_NESTED = {"SELECT", "WITH", "VALUES"}


def quoted(name: str) -> str:
    """A name as SQL takes it exactly."""
    return '"' + name.replace('"', '""') + '"'


def text_of(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"


def file_call(function: str, path: StrPath | Iterable[StrPath], options: Mapping[str, Any]) -> str:
    """A query of all rows of files, by a function that reads such."""

    def value(given: Any) -> str:
        if isinstance(given, Mapping):
            return "{" + ", ".join(f"{text_of(str(key))}: {text_of(str(of))}" for key, of in given.items()) + "}"
        if isinstance(given, (list, tuple)):
            return "[" + ", ".join(text_of(os.fspath(each)) for each in given) + "]"
        return str(given).lower() if isinstance(given, bool) else text_of(os.fspath(given))

    named = "".join(f", {name} => {value(of)}" for name, of in options.items())
    paths = path if isinstance(path, (str, os.PathLike)) else list(path)
    return f"SELECT * FROM {function}({value(paths)}{named})"


def renamed(column: str, taken: set[str]) -> str:
    """What gives a column another name where its own is taken; the new one is taken then."""
    name = column
    while name.lower() in taken:
        name += "_right"
    taken.add(name.lower())
    return f" AS {quoted(name)}" if name != column else ""


def stride(text: str) -> str:
    """A length of time such as "5m": letters and digits only, so that it stays one word."""
    if not text.isalnum() or not text.isascii():
        raise ValueError(f"{text!r} is no length of time: write it as 100ms, 1s, 5m, 1h or 1d")
    return text


def fill_of(fill: str | float | Sequence[str | float]) -> str:
    """What FILL holds: one word or number for all aggregates, or one for each."""
    if not isinstance(fill, (str, int, float)):
        return ", ".join(map(fill_of, fill))
    words = {"prev": "PREV", "null": "NULL", "linear": "LINEAR", "none": "NONE"}
    word = words.get(str(fill).lower())
    if word is None:
        float(fill)
        word = str(fill)
    return word


def time_of(time: Time) -> str:
    """A time as SQL has it, to the nanosecond."""
    if isinstance(time, str):
        return text_of(time)
    if isinstance(time, datetime.datetime):
        nanoseconds = getattr(time, "nanosecond", 0)
        if time.tzinfo is not None:
            time = time.astimezone(datetime.timezone.utc)
        return text_of(f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond:06d}{nanoseconds:03d}Z")
    if isinstance(time, datetime.date):
        return text_of(f"{time:%Y-%m-%d}T00:00:00Z")
    if hasattr(time, "astype"):
        time = int(time.astype("datetime64[ns]").astype("int64"))
    seconds, nanoseconds = divmod(int(time), 1_000_000_000)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    return text_of(f"{moment:%Y-%m-%dT%H:%M:%S}.{nanoseconds:09d}Z")


def ended(text: str) -> str:
    """A text after which more may follow: a comment at its end does not swallow it."""
    return f"{text}\n" if "--" in text else text


def bracketed(query: str) -> str:
    """A query in brackets."""
    return f"({ended(query.rstrip().rstrip(';'))})"


def last_statement(sql: str) -> str | None:
    """The last statement of a text, if it can stand in brackets in the place of a table."""
    starts, depth, words = [0], 0, dict[int, list[str]]()
    for token in _TOKEN.finditer(sql):
        sign = token["sign"]
        depth += (sign == "(") - (sign == ")")
        if sign == ";":
            starts.append(token.end())
        elif token["word"] and (not depth or starts[-1] not in words):
            words.setdefault(starts[-1], []).append(token["word"].upper())
    start = next((start for start in reversed(starts) if start in words), None)
    if start is None:
        return None
    end = next((other - 1 for other in starts if other > start), len(sql))
    statement, of_it = sql[start:end].strip(), words[start]
    if of_it[0] == "FROM":
        # In brackets it needs to say which columns.
        return statement if "SELECT" in of_it else f"SELECT * {statement}"
    return statement if of_it[0] in _NESTED else None


def placeholders(sql: str) -> list[str]:
    """The placeholders of a text as they are written, each once: "$1", ":symbol"."""
    return list(dict.fromkeys(token[0] for token in _TOKEN.finditer(sql) if token["placeholder"]))


def by_place(sql: str, params: Parameters, before: int) -> tuple[str, list[Any]]:
    """A text whose placeholders count on after so many others, and its values in their order."""
    if params is None:
        return sql, []
    if not isinstance(params, Mapping):
        return _replaced(sql, lambda name: f"${int(name[1:]) + before}"), list(params)
    places = {name: before + at for at, name in enumerate(params, start=1)}
    return _replaced(sql, lambda name: f"${places[name[1:]]}"), list(params.values())


def _replaced(sql: str, other: Callable[[str], str]) -> str:
    """A text with other placeholders."""
    return _TOKEN.sub(lambda token: other(token[0]) if token["placeholder"] else token[0], sql)


def precision_and_scale(sql_type: str) -> tuple[int | None, int | None]:
    """Digits of a DECIMAL, and those after the point."""
    found = re.fullmatch(r"DECIMAL\s*\(\s*(\d+)\s*,\s*(-?\d+)\s*\)", sql_type.strip(), re.IGNORECASE)
    return (int(found[1]), int(found[2])) if found else (None, None)
