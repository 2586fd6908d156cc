"""NBBO, spread and depth over the exchanges whose books are there, by the statements of questions.sql."""

from pathlib import Path

import backends
from backends import Server

# Levels of a book that the QuestDB back end writes, unless it is told another depth.
LEVELS = 10
STATEMENTS = Path(__file__).with_name("questions.sql")


def unite(server: Server) -> None:
    """Makes the views `books` and `fills` of the tables of all exchanges."""
    tables = sorted(backends.tables(server))
    for view, prefix, rows_of in (("books", "book-", books_of), ("fills", "trades-", fills_of)):
        parts = [rows_of(table.removeprefix(prefix)) for table in tables if table.startswith(prefix)]
        if not parts:
            raise RuntimeError(f"there is no table {prefix}…: the captures have no such channel")
        backends.ask(server, f"CREATE OR REPLACE VIEW {view} AS {' UNION ALL '.join(parts)}")


def books_of(exchange: str) -> str:
    def total(side: str) -> str:
        return " + ".join(f"{side}_{level}_size" for level in range(LEVELS))

    return (
        f"SELECT timestamp, symbol, '{exchange}' AS exchange, bid_0_price AS bid, bid_0_size AS bid_size, "
        f"ask_0_price AS ask, ask_0_size AS ask_size, {total('bid')} AS bid_depth, {total('ask')} AS ask_depth "
        f'FROM "book-{exchange}"'
    )


def fills_of(exchange: str) -> str:
    return f"SELECT timestamp, symbol, '{exchange}' AS exchange, side, price, amount FROM \"trades-{exchange}\""


def ask(server: Server) -> None:
    """Prints each question and its answer."""
    unite(server)
    for question in STATEMENTS.read_text().split(";\n"):
        if question.strip():
            title, statement = question.strip().split("\n", 1)
            print(f"\n{title}\n{backends.ask(server, statement, '/exp').strip()}")
