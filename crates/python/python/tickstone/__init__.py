"""Tickstone, the time-series database for market data, inside this process.

    import tickstone

    with tickstone.open("ticks") as db:
        db.append("trades", frame, timestamp="ts", series="symbol", create=True)
        bars = db.sql("SELECT ts, vwap(price, size) FROM trades WHERE symbol = $1 SAMPLE BY 1m", ["BTC-USD"])
        bars.polars()

`tickstone.connect("tickstone://host")` gives the same for the database of a server.

Rows come and go as Arrow, without a copy where types agree: Polars, pandas, pyarrow, DuckDB and anything
else with the Arrow PyCapsule interface. Timestamps are nanoseconds since the Unix epoch, UTC; ranges of time
are half-open.
"""

from typing import Any

from tickstone._tickstone import __version__
from tickstone.database import (
    Database,
    FileReport,
    ImportProgress,
    ImportReport,
    RemoteDatabase,
    Transaction,
    connect,
    open,
)
from tickstone.errors import ClosedError, Error, ForkedError, SqlError, StorageError
from tickstone.nanoseconds import Time, Timestamp
from tickstone.relation import Relation
from tickstone.rows import Rows
from tickstone.scalars import Interval
from tickstone.subscription import Change, Subscription
from tickstone.table import Table

__all__ = [
    "Change",
    "ClosedError",
    "Database",
    "Error",
    "FileReport",
    "ForkedError",
    "ImportProgress",
    "ImportReport",
    "Interval",
    "Relation",
    "RemoteDatabase",
    "Rows",
    "SqlError",
    "StorageError",
    "Subscription",
    "Table",
    "Time",
    "Timestamp",
    "Transaction",
    "__version__",
    "connect",
    "open",
]


def load_ipython_extension(shell: Any) -> None:
    """Gives a notebook `%tick` and `%%tick`: `%load_ext tickstone`. See `tickstone.magics`."""
    from tickstone.magics import load_ipython_extension as load

    load(shell)
