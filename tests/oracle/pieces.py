"""What statements are made of: text, words that the two systems spell differently, and literals, so that the same
statement is asked with its literals, with others and with parameters; and the tables that they are about."""

import datetime
import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

# 2024-03-30T22:00:00Z, ns since the Unix epoch.
START = 1_711_836_000_000_000_000
QUARTER = 900_000_000_000

# Few values, so that rows meet: both zeros, NaN, infinities; small multiples of a power of two, whose sums are exact.
DOUBLES = [0.0, -0.0, 1.0, 2.0, 2.5, -1.5, 50.0, float("nan"), float("inf"), float("-inf")]
REALS = [0.0, 0.25, 1.0, 2.5, -1.5, 3.0]
INTEGERS = [-3, -1, 0, 1, 1, 2, 3, 7]
DECIMALS = [Decimal(each) for each in ("0.000", "1.000", "1.500", "-2.125", "3.000", "10.375")]
TEXTS = ["", "a", "b", "B", "ab", "it's", "ü", "a_b", "7"]
SYMBOLS = ["X", "Y", "Z"]
DAYS = [datetime.date(*each) for each in ((2024, 3, 30), (2024, 3, 31), (2024, 2, 29), (2023, 12, 31), (1969, 7, 20))]

#: The kind of each column; columns of one kind may differ in type. No column is called as a table is: in queries that are
#: correlated `b.f` would be the field f of a column b of theirs.
COLUMNS = {
    "ts": "time",
    "k": "text",
    "d": "double",
    "n": "integer",
    "s": "text",
    "id": "integer",
    "u": "time",
    "f": "boolean",
    "m": "decimal",
    "day": "date",
    "r": "real",
    "i": "integer",
    "h": "integer",
}
KINDS = sorted(set(COLUMNS.values()))
TABLES = ("t1", "t2", "t3")


@dataclass(frozen=True)
class Word:
    """What the two systems spell differently."""

    tick: str
    duck: str


@dataclass(frozen=True)
class Literal:
    """A literal that may be another of its kind, or a parameter."""

    kind: str
    value: Any

    def text(self) -> str:
        """As SQL writes it."""
        if self.kind == "time":
            return f"TIMESTAMP '{self.value.isoformat(sep=' ')}'"
        if self.kind == "date":
            return f"DATE '{self.value.isoformat()}'"
        if self.kind == "text":
            return "'" + self.value.replace("'", "''") + "'"
        if self.kind == "decimal":
            # A number with a point is a DOUBLE in one of the two systems.
            return f"CAST({self.value} AS DECIMAL(18, 3))"
        return str(self.value).upper() if self.kind == "boolean" else repr(self.value)


Piece = str | Word | Literal
Pieces = list[Piece]


class Statement:
    """A statement, whether the order of its rows counts, and what is in it that may be switched off."""

    def __init__(self, pieces: Pieces, ordered: bool, uses: frozenset[str] = frozenset()):
        self.pieces, self.ordered, self.uses = pieces, ordered, uses

    def tick(self) -> str:
        """As Tickstone has it."""
        return "".join(each.tick if isinstance(each, Word) else self.text(each) for each in self.pieces)

    def duck(self) -> str:
        """As DuckDB has it."""
        return "".join(each.duck if isinstance(each, Word) else self.text(each) for each in self.pieces)

    @staticmethod
    def text(piece: Piece) -> str:
        """A piece that both spell alike."""
        assert not isinstance(piece, Word)
        return piece.text() if isinstance(piece, Literal) else piece

    def with_parameters(self) -> tuple[str, list[Any]]:
        """As Tickstone has it with `$1`, `$2`, … for its literals, and these."""
        values: list[Any] = []
        texts = []
        for piece in self.pieces:
            if isinstance(piece, Literal):
                values.append(piece.value)
                texts.append(f"${len(values)}")
            else:
                texts.append(piece.tick if isinstance(piece, Word) else piece)
        return "".join(texts), values

    def with_other_literals(self, rng: random.Random) -> "Statement":
        """The same statement about other values."""
        other = [literal(rng, each.kind) if isinstance(each, Literal) else each for each in self.pieces]
        return Statement(other, self.ordered, self.uses)


def literal(rng: random.Random, kind: str) -> Literal:
    """A literal of a kind."""
    if kind == "time":
        moment = datetime.datetime(2024, 3, 30, 22) + datetime.timedelta(hours=rng.randrange(30))
        return Literal(kind, moment)
    values: dict[str, Sequence[Any]] = {
        "double": [value for value in DOUBLES if value - value == 0],
        "real": REALS,
        "integer": [*INTEGERS, 5],
        "decimal": DECIMALS,
        "text": [*TEXTS, *SYMBOLS],
        "boolean": [True, False],
        "date": [*DAYS, datetime.date(2024, 1, 1)],
    }
    return Literal(kind, rng.choice(values[kind]))


def table(rng: random.Random) -> pa.Table:
    """Rows of a table, none to twelve: times unique, every other column with NULLs."""
    count = rng.choice([0, 1, 3, 6, 9, 12])

    def drawn(values: Sequence[Any]) -> list[Any]:
        return [None if rng.random() < 0.15 else rng.choice(values) for _ in range(count)]

    def moments(quarters: Sequence[int | None]) -> pa.Array:
        return pa.array([None if at is None else START + at * QUARTER for at in quarters], pa.timestamp("ns"))

    return pa.table(
        {
            "ts": moments(sorted(rng.sample(range(30 * 4), count))),
            "k": pa.array(drawn(SYMBOLS), pa.string()),
            "d": pa.array(drawn(DOUBLES), pa.float64()),
            "n": pa.array(drawn(INTEGERS), pa.int64()),
            "s": pa.array(drawn(TEXTS), pa.string()),
            "id": pa.array(range(count), pa.int64()),
            "u": moments(drawn([-1000, 0, 0, 3, 4, 8, 30, 60])),
            "f": pa.array(drawn([True, False]), pa.bool_()),
            "m": pa.array(drawn(DECIMALS), pa.decimal128(18, 3)),
            "day": pa.array(drawn(DAYS), pa.date32()),
            "r": pa.array(drawn(REALS), pa.float32()),
            "i": pa.array(drawn(INTEGERS), pa.int32()),
            "h": pa.array(drawn(INTEGERS), pa.int16()),
        }
    )


def joined(parts: Sequence[Pieces | str], separator: str) -> Pieces:
    """Parts with a separator between them."""
    pieces: Pieces = []
    for at, part in enumerate(parts):
        pieces += [separator] if at else []
        pieces += [part] if isinstance(part, str) else part
    return pieces
