"""Subscription: the changes of a table as they are committed."""

from __future__ import annotations

import contextlib
import json
import operator
import threading
import weakref
from concurrent import futures
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from tickstone.relation import Relation

if TYPE_CHECKING:
    import asyncio
    from typing import Self

    import pyarrow

    from tickstone import _tickstone
    from tickstone.database import Database

__all__ = ["Change", "Events", "Slow", "Subscription"]

Events: TypeAlias = Literal["changes", "inserts"]
Slow: TypeAlias = Literal["cut", "conflate"]

# What `since` is for the rows there are.
_BEGINNING = "beginning"
# How long the end of a thread may take that was told of it, in seconds.
_END_PATIENCE_S = 1.0
# What is not given out: it says where the subscription is, and nothing of the table.
_SILENT = ("subscribed", "heartbeat")


class Change:
    """Something that happened to the table of a subscription.

    | event | rows | detail |
    |---|---|---|
    | "insert" | rows that came, bars that closed | of bars "from" and "to" |
    | "update" | rows that have other values, as they are now; bars of a stretch told anew | of bars "from" and "to" |
    | "delete" | rows that are gone, as they were; of bars none: all of a stretch are gone | of bars "from" and "to" |
    | "truncate" | none: all rows of the table are gone | |
    | "drop_partitions" | none: all rows of these partitions are gone | "from" and "to" |
    | "caught_up" | none: the rows there were are all told | |
    | "end_of_day" | none: the next rows are the first of a later day (UTC) | "began" |
    | "sealed" | none: rows of a partition went from memory into a part | "from", "to" and "rows" |
    | "conflated" | none: rows that waited are left out | "rows": how many |
    """

    __slots__ = ("_detail", "_event", "_position", "_rows")

    def __init__(self, event: str, position: str | None, detail: dict[str, Any] | None, rows: Relation) -> None:
        self._event = event
        self._position = position
        self._detail = detail
        self._rows = rows

    @property
    def event(self) -> str:
        """What happened."""
        return self._event

    @property
    def position(self) -> str | None:
        """All up to here is told, for `since`; None for rows of `since="beginning"`, which can only be begun anew."""
        return self._position

    @property
    def detail(self) -> dict[str, Any] | None:
        """More about it, None where there is no more."""
        return self._detail

    @property
    def rows(self) -> Relation:
        """Its rows, in the columns of the subscription; they are in memory, `rowcount` says how many. None are there
        where the event has none."""
        return self._rows

    def __repr__(self) -> str:
        more = f", {self._detail}" if self._detail else ""
        return f"<Change {self._event!r} at {self._position}: {self._rows.rowcount} rows{more}>"


class Subscription:
    """The changes of a table, once each, in the order in which they are committed. `Table.subscribe` and
    `Relation.subscribe` begin one.

    It is an iterator of `Change`, also an asynchronous one, that waits for the next change and ends when it is closed,
    and a context manager that closes it. One thread or task reads it; any other may close it. Nothing is read ahead:
    what is not asked for waits in the database or its server, as `queue` and `slow` say.

    Ctrl-C, and a task that is cancelled, end the wait and not the subscription: the next change is there for who asks
    then. A heartbeat is no change, and moves `position`.
    """

    def __init__(self, database: Database, sql: str, messages: _tickstone.Messages, since: str | None) -> None:
        self._sql = sql
        self._reader = _Reader(database, sql, messages, since)
        # What a task asked for, until somebody has it.
        self._asked: futures.Future[Change | None] | None = None
        self._awaited = False
        # Also at the end of the process: a thread that waits must not outlive the interpreter.
        weakref.finalize(self, self._reader.end)

    # What it is.

    @property
    def sql(self) -> str:
        """The text of the statement."""
        return self._sql

    @property
    def position(self) -> str:
        """Up to where all was given out, for `since`: who subscribes anew from there misses and repeats nothing. Of a
        subscription from the "beginning" it is that until all rows there were are given out."""
        return self._reader.position

    @property
    def columns(self) -> list[str]:
        """Names of the columns of its rows."""
        return [name for name, _ in self._reader.messages.columns()]

    @property
    def types(self) -> list[str]:
        """SQL types of the columns: "TIMESTAMP", "SYMBOL", "DOUBLE", …."""
        return [type_ for _, type_ in self._reader.messages.columns()]

    @property
    def schema(self) -> pyarrow.Schema:
        """The Arrow schema of its rows. Needs pyarrow."""
        import pyarrow

        return pyarrow.schema(self._reader.messages)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._reader.closed

    def __repr__(self) -> str:
        return f"<Subscription {self._sql!r}, {'closed' if self.closed else 'open'}>"

    # Hearing it.

    def __iter__(self) -> Self:
        """The changes, as they come."""
        return self

    def __next__(self) -> Change:
        """The next change, once it comes.

        Raises:
            StopIteration: where it was closed.
            SqlError: where it ends: the table or a column was dropped, it was cancelled, or its reader is too slow.
            ClosedError: where the database was closed.
            KeyboardInterrupt: on Ctrl-C.
        """
        self._check_free()
        if self._asked is None:
            change = self._reader.read()
        else:
            futures.wait([self._asked])
            change = self._answer()
        if change is None:
            raise StopIteration
        return self._reader.given(change)

    def __aiter__(self) -> Self:
        """The changes, as they come; a thread of the subscription's own waits for them."""
        return self

    async def __anext__(self) -> Change:
        """As `next()`, for a task."""
        import asyncio

        self._check_free()
        if self._asked is None:
            self._asked = self._reader.ask()
        loop, came = asyncio.get_running_loop(), asyncio.Event()
        self._asked.add_done_callback(lambda _: _tell(loop, came))
        self._awaited = True
        try:
            await came.wait()
        finally:
            self._awaited = False
        change = self._answer()
        if change is None:
            raise StopAsyncIteration
        return self._reader.given(change)

    def _check_free(self) -> None:
        if self._awaited:
            raise RuntimeError("a task waits for this subscription already")

    def _answer(self) -> Change | None:
        """What a task asked for, which has come."""
        asked, self._asked = self._asked, None
        return asked.result() if asked is not None else None

    def close(self) -> None:
        """Ends it, from any thread: whoever waits for a change stops waiting. A second call does nothing."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Reader:
    """Reads a subscription, on the thread that asks or, for tasks, on one of its own."""

    def __init__(self, database: Database, sql: str, messages: _tickstone.Messages, since: str | None) -> None:
        self.messages = messages
        self._database = database
        self._sql = sql
        self._told = since != _BEGINNING
        self.position = _BEGINNING
        self.closed = False
        self._wishes: SimpleQueue[futures.Future[Change | None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        begun = messages.next()
        if begun is not None and self._told:
            self.position = begun[0] or self.position

    def read(self) -> Change | None:
        """The next change; None once it is closed."""
        while (message := self.messages.next()) is not None:
            position, event, detail, rows = message
            if event not in _SILENT:
                held = Relation(self._database, self._sql, rows, len(rows))
                return Change(event, position, None if detail is None else json.loads(detail), held)
            self._reached(position)
        return None

    def given(self, change: Change) -> Change:
        """Notes that a change is given out."""
        # Before, a position says where the rows there were end, not how many of them were told.
        self._told = self._told or change.event == "caught_up"
        self._reached(change.position)
        return change

    def _reached(self, position: str | None) -> None:
        if position is not None and self._told:
            self.position = position

    def ask(self) -> futures.Future[Change | None]:
        """What will be the next change."""
        if self._thread is None:
            # Nothing it holds keeps the subscription, so that one that is dropped ends it.
            self._thread = threading.Thread(target=self._serve, name="tickstone-subscription", daemon=True)
            self._thread.start()
        wish: futures.Future[Change | None] = futures.Future()
        self._wishes.put(wish)
        return wish

    def _serve(self) -> None:
        while (wish := self._wishes.get()) is not None:
            try:
                wish.set_result(self.read())
            except BaseException as error:
                wish.set_exception(error)
            del wish

    def close(self) -> None:
        """Ends the wait for a change; there is none any more."""
        self.closed = True
        self.messages.close()

    def end(self) -> None:
        """Closes it when nobody can ask any more, its thread too."""
        self.close()
        self._wishes.put(None)
        # Memory is tidied up on any thread, this one too.
        if self._thread not in (None, threading.current_thread()):
            self._thread.join(_END_PATIENCE_S)


def _tell(loop: asyncio.AbstractEventLoop, came: asyncio.Event) -> None:
    """Tells a task that something has come, if its loop still runs."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(came.set)


def statement(
    what: str,
    since: str | None,
    events: Events,
    slow: Slow,
    queue: int | None,
    heartbeat: str | None,
) -> str:
    """SUBSCRIBE of a table or of a query in brackets.

    Raises:
        TypeError, ValueError: where an argument is none.
    """
    options = []
    for name, word, words in (("events", events, get_args(Events)), ("slow", slow, get_args(Slow))):
        if word not in words:
            raise ValueError(f"{name} is {' or '.join(map(repr, words))}, not {word!r}")
        if word != words[0]:
            options.append(f"{name} = {_text(name, word)}")
    if queue is not None:
        if operator.index(queue) < 1:
            raise ValueError(f"queue is 1 or more, not {queue}")
        options.append(f"queue = {operator.index(queue)}")
    if heartbeat is not None:
        options.append(f"heartbeat = {_text('heartbeat', heartbeat)}")
    parts = [f"SUBSCRIBE TO {what}"]
    if since == _BEGINNING:
        parts.append("FROM BEGINNING")
    elif since is not None:
        parts.append(f"AFTER {_text('since', since)}")
    if options:
        parts.append(f"WITH ({', '.join(options)})")
    return " ".join(parts)


def _text(name: str, value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is a text, not {type(value).__name__}")
    return "'" + value.replace("'", "''") + "'"
