"""Random statements that Tickstone and DuckDB both understand, over tables with the same column names.

A statement is a list of pieces: text, words that the two spell differently, and literals, so that the same statement
is asked with its literals, with others and with parameters. All that is random comes from one `random.Random`.
"""

import datetime
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

# 2024-03-30T22:00:00Z, ns since the Unix epoch.
START = 1_711_836_000_000_000_000
HOUR = 3_600_000_000_000

# Few values, so that rows meet: both zeros, NaN, infinities; small multiples of a power of two, whose sums are exact.
DOUBLES = [0.0, -0.0, 1.0, 2.0, 2.5, -1.5, 50.0, float("nan"), float("inf"), float("-inf")]
INTEGERS = [-3, -1, 0, 1, 1, 2, 3, 7]
TEXTS = ["", "a", "b", "B", "ab", "it's", "ü"]
SYMBOLS = ["X", "Y", "Z"]
COLUMNS = {"ts": "time", "k": "text", "d": "double", "n": "integer", "s": "text", "id": "integer"}
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
        if self.kind == "text":
            return "'" + self.value.replace("'", "''") + "'"
        return repr(self.value)


Piece = str | Word | Literal
Pieces = list[Piece]


class Statement:
    """A statement, and whether the order of its rows counts."""

    def __init__(self, pieces: Pieces, ordered: bool):
        self.pieces, self.ordered = pieces, ordered

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
        return Statement(other, self.ordered)


def literal(rng: random.Random, kind: str) -> Literal:
    """A literal of a kind."""
    if kind == "time":
        moment = datetime.datetime(2024, 3, 30, 22) + datetime.timedelta(hours=rng.randrange(30))
        return Literal(kind, moment)
    values: dict[str, Sequence[Any]] = {
        "double": [value for value in DOUBLES if value - value == 0],
        "integer": [*INTEGERS, 5],
        "text": [*TEXTS, *SYMBOLS],
    }
    return Literal(kind, rng.choice(values[kind]))


def table(rng: random.Random) -> pa.Table:
    """Rows of a table, none to twelve: times unique, every other column with NULLs."""
    count = rng.choice([0, 1, 3, 6, 9, 12])

    def drawn(values: Sequence[Any]) -> list[Any]:
        return [None if rng.random() < 0.15 else rng.choice(values) for _ in range(count)]

    times = sorted(rng.sample(range(30 * 4), count))
    return pa.table(
        {
            "ts": pa.array([START + at * HOUR // 4 for at in times], pa.timestamp("ns")),
            "k": pa.array(drawn(SYMBOLS), pa.string()),
            "d": pa.array(drawn(DOUBLES), pa.float64()),
            "n": pa.array(drawn(INTEGERS), pa.int64()),
            "s": pa.array(drawn(TEXTS), pa.string()),
            "id": pa.array(range(count), pa.int64()),
        }
    )


def joined(parts: Sequence[Pieces | str], separator: str) -> Pieces:
    """Parts with a separator between them."""
    pieces: Pieces = []
    for at, part in enumerate(parts):
        pieces += [separator] if at else []
        pieces += [part] if isinstance(part, str) else part
    return pieces


class Making:
    """Makes statements."""

    def __init__(self, rng: random.Random):
        self.rng = rng

    def statement(self) -> Statement:
        """One statement: a query, perhaps of sets, perhaps ordered by all its columns and cut off."""
        rng = self.rng
        kinds = [rng.choice(list(COLUMNS.values())) for _ in range(rng.randrange(1, 5))]
        make = rng.choices([self.select, self.sets, self.grouped, self.windows, self.with_tables], [8, 3, 4, 2, 1])[0]
        pieces = make(kinds)
        if rng.random() < 0.4:
            pieces = ["SELECT * FROM (", *pieces, ") q ORDER BY ", *joined([self.order(at) for at in range(len(kinds))], ", ")]
            if rng.random() < 0.5:
                pieces.append(f" LIMIT {rng.randrange(1, 9)} OFFSET {rng.choice([0, 0, 2])}")
            return Statement(pieces, True)
        return Statement(pieces, False)

    def order(self, at: int) -> str:
        """An item of ORDER BY."""
        return f"c{at} {self.rng.choice(['ASC', 'DESC'])} NULLS {self.rng.choice(['FIRST', 'LAST'])}"

    # --- values

    def column(self, kind: str, names: Sequence[str]) -> str:
        """A column of a kind, of one of the tables."""
        of_kind = [column for column, of in COLUMNS.items() if of == kind]
        return f"{self.rng.choice(names)}.{self.rng.choice(of_kind)}"

    def value(self, kind: str, names: Sequence[str], depth: int = 2) -> Pieces:
        """An expression of a kind."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.55:
            return [self.column(kind, names)]

        def inner(of: str = kind) -> Pieces:
            return self.value(of, names, depth - 1)

        common = [
            lambda: ["coalesce(", *inner(), ", ", *inner(), ")"],
            lambda: ["nullif(", *inner(), ", ", *inner(), ")"],
            lambda: ["CASE WHEN ", *self.condition(names, 1), " THEN ", *inner(), " ELSE ", *inner(), " END"],
            lambda: ["CASE ", *inner("double"), " WHEN ", literal(rng, "double"), " THEN ", *inner(), " END"],
            lambda: ["greatest(", *inner(), ", ", *inner(), ")"],
            lambda: ["least(", *inner(), ", ", *inner(), ")"],
        ]
        of_kind: dict[str, list[Any]] = {
            "time": [lambda: ["date_trunc('day', ", *inner(), ")"], lambda: ["date_trunc('hour', ", *inner(), ")"]],
            "text": [
                lambda: ["upper(", *inner(), ")"],
                lambda: ["lower(", *inner(), ")"],
                lambda: ["concat(", *inner(), ", ", literal(rng, "text"), ")"],
                lambda: ["replace(", *inner(), ", 'a', 'bb')"],
                lambda: ["substr(", *inner(), ", 2, 1)"],
                lambda: ["(", *inner(), " || ", *inner(), ")"],
                lambda: ["reverse(", *inner(), ")"],
            ],
            "integer": [
                lambda: ["(", *inner(), rng.choice([" + ", " - ", " * "]), *inner(), ")"],
                lambda: ["abs(", *inner(), ")"],
                lambda: ["(- ", *inner(), ")"],
                lambda: ["length(concat(", *inner("text"), ", ''))"],
            ],
            "double": [
                lambda: ["(", *inner(), rng.choice([" + ", " - ", " * ", " / "]), *inner(), ")"],
                lambda: ["(", *inner(), rng.choice([" + ", " - ", " * "]), literal(rng, "double"), ")"],
                lambda: ["abs(", *inner(), ")"],
                lambda: ["(- ", *inner(), ")"],
                lambda: ["floor(", *inner(), ")"],
                lambda: ["ceil(", *inner(), ")"],
                lambda: ["sqrt(abs(", *inner(), "))"],
                lambda: ["CAST(", *inner("integer"), " AS DOUBLE)"],
            ],
        }
        return rng.choice(common + of_kind[kind] * 2)()

    # --- conditions

    def condition(self, names: Sequence[str], depth: int = 2) -> Pieces:
        """A condition on columns of these tables."""
        rng = self.rng
        if depth and rng.random() < 0.5:
            left, right = (self.condition(names, depth - 1) for _ in range(2))
            return ["(", *left, rng.choice([" AND ", " AND ", " OR "]), *right, ")"]
        kind = rng.choice(["double", "double", "integer", "integer", "text", "time"])
        column: Pieces = [self.column(kind, names)] if rng.random() < 0.7 else self.value(kind, names, 1)
        compare = rng.choice([" = ", " <> ", " < ", " <= ", " > ", " >= "])
        return rng.choice(
            [
                lambda: [*column, compare, literal(rng, kind)],
                lambda: [*column, compare, literal(rng, kind)],
                lambda: [literal(rng, kind), compare, *column],
                lambda: [*column, compare, self.column(kind, names)],
                lambda: [*column, rng.choice([" IS NULL", " IS NOT NULL"])],
                lambda: [*column, rng.choice([" IS DISTINCT FROM ", " IS NOT DISTINCT FROM "]), self.column(kind, names)],
                lambda: [*column, rng.choice([" IN (", " NOT IN ("]), *self.literals(kind), ")"],
                lambda: [*column, " BETWEEN ", literal(rng, kind), " AND ", literal(rng, kind)],
                lambda: ["NOT (", *self.condition(names, 0), ")"],
            ]
        )()

    def literals(self, kind: str) -> Pieces:
        """A list of literals."""
        return joined([[literal(self.rng, kind)] for _ in range(self.rng.randrange(1, 6))], ", ")

    def inner(self, kind: str) -> Pieces:
        """A query of one column."""
        name = self.rng.choice(TABLES)
        where = [" WHERE ", *self.condition(["i"], 0)] if self.rng.random() < 0.5 else []
        return ["SELECT ", self.column(kind, ["i"]), f" FROM {name} i", *where]

    def exists(self, names: Sequence[str]) -> Pieces:
        """Whether another table has such a row."""
        key = self.rng.choice(["n", "d", "k"])
        no = self.rng.choice(["", "NOT "])
        return [f"{no}EXISTS (SELECT 1 FROM {self.rng.choice(TABLES)} e WHERE e.{key} = {self.rng.choice(names)}.{key})"]

    def where(self, names: Sequence[str]) -> Pieces:
        """A WHERE, mostly; queries are in it beside other conditions, not within them."""
        rng, conditions = self.rng, []
        if rng.random() < 0.7:
            conditions.append(self.condition(names))
        if rng.random() < 0.2:
            kind = rng.choice(["double", "integer", "text", "time"])
            listed: Pieces = [self.column(kind, names), rng.choice([" IN (", " NOT IN ("]), *self.inner(kind), ")"]
            conditions.append(listed if rng.random() < 0.6 else self.exists(names))
        return [" WHERE ", *joined(conditions, " AND ")] if conditions else []

    # --- what is read

    def source(self) -> Pieces:
        """A table, or a query with the columns of one."""
        rng, name = self.rng, self.rng.choice(TABLES)
        columns = list(COLUMNS)
        if rng.random() < 0.4:
            rng.shuffle(columns)
        listed = ", ".join(f"x.{column}" for column in columns)
        return rng.choices(
            [
                lambda: [name],
                lambda: [f"(SELECT {listed} FROM {name} x", *self.where(["x"]), ")"],
                lambda: [f"(SELECT DISTINCT {listed} FROM {name} x", *self.where(["x"]), ")"],
                lambda: [
                    "(SELECT max(x.ts) AS ts, max(x.k) AS k, x.d, x.n, min(x.s) AS s, count(*) AS id ",
                    f"FROM {name} x", *self.where(["x"]), " GROUP BY x.d, x.n)",
                ],
            ],
            [6, 2, 1, 1],
        )[0]()

    def relation(self) -> tuple[Pieces, list[str]]:
        """What FROM has: its pieces, and the names in it."""
        rng = self.rng
        pieces, names = [*self.source(), " a"], ["a"]
        for name in ["b", "c"][: rng.choices([0, 1, 2], [2, 6, 2])[0]]:
            join = rng.choice(["INNER", "LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI", "USING", "COMMA"])
            if join == "COMMA" and name != "b":
                join = "INNER"
            if join == "COMMA":
                # What is joined after a comma sees only what stands after it.
                return [*pieces, ", ", *self.source(), f" {name}"], [*names, name]
            elif join == "CROSS":
                pieces += [" CROSS JOIN ", *self.source(), f" {name}"]
            elif join == "USING":
                kind = rng.choice(["", "LEFT ", "RIGHT ", "FULL "])
                keys = rng.choice(["n", "d", "n, k"])
                if name != "b":
                    pieces += [f" {kind}JOIN ", *self.source(), f" {name} ", *self.on(names, name)]
                elif rng.random() < 0.3:
                    columns = f"x.{keys[0]}, x.ts AS ts_{name}"
                    pieces += [f" NATURAL {kind}JOIN (SELECT {columns} FROM {rng.choice(TABLES)} x) {name}0"]
                    continue
                else:
                    pieces += [f" {kind}JOIN ", *self.source(), f" {name} USING ({keys})"]
            elif join in ("SEMI", "ANTI"):
                pieces += [Word(f" LEFT {join} JOIN ", f" {join} JOIN "), *self.source(), f" {name} ", *self.on(names, name)]
                continue
            else:
                pieces += [f" {join} JOIN ", *self.source(), f" {name} ", *self.on(names, name)]
            names.append(name)
        return pieces, names

    def on(self, names: Sequence[str], name: str, key: str | None = None) -> Pieces:
        """A condition of a join: equal keys, perhaps more, sometimes none."""
        rng = self.rng
        other = rng.choice(names)
        key = key or rng.choice(["d", "n", "k", "s", "id", "ts"])
        sides = [f"{other}.{key}", f"{name}.{key}"]
        rng.shuffle(sides)
        equal: Pieces = [f"ON {sides[0]} = {sides[1]}"]
        if rng.random() < 0.3:
            equal += [" AND ", *self.condition([other, name], 0 if rng.random() < 0.7 else 1)]
        return equal

    # --- queries

    def listed(self, kinds: Sequence[str], names: Sequence[str]) -> Pieces:
        """What SELECT lists."""
        return joined([[*self.value(kind, names), f" AS c{at}"] for at, kind in enumerate(kinds)], ", ")

    def select(self, kinds: Sequence[str]) -> Pieces:
        """A query of columns of these kinds."""
        relation, names = self.relation()
        distinct = "DISTINCT " if self.rng.random() < 0.15 else ""
        return [f"SELECT {distinct}", *self.listed(kinds, names), " FROM ", *relation, *self.where(names)]

    def sets(self, kinds: Sequence[str]) -> Pieces:
        """Two or three queries as sets."""
        operators = ["UNION", "EXCEPT", "INTERSECT", "UNION ALL", "EXCEPT ALL", "INTERSECT ALL"]
        pieces = ["(", *self.plain(kinds), f") {self.rng.choice(operators)} (", *self.plain(kinds), ")"]
        if self.rng.random() < 0.3:
            pieces = ["(", *pieces, f") {self.rng.choice(operators)} (", *self.plain(kinds), ")"]
        columns = ", ".join(f"c{at}" for at in range(len(kinds)))
        return [f"SELECT {columns} FROM (", *pieces, ") u"]

    def plain(self, kinds: Sequence[str]) -> Pieces:
        """A query with little between the table and its rows, so that rows come more than once."""
        if self.rng.random() < 0.3:
            return self.select(kinds)
        listed = joined([[*self.value(kind, ["x"], 1), f" AS c{at}"] for at, kind in enumerate(kinds)], ", ")
        return ["SELECT ", *listed, f" FROM {self.rng.choice(TABLES)} x", *self.where(["x"])]

    def grouped(self, kinds: Sequence[str]) -> Pieces:
        """Groups and their aggregates."""
        rng = self.rng
        relation, names = self.relation()
        keys = [self.value(kind, names, 1) for kind in kinds[: rng.randrange(0, len(kinds) + 1)]]
        items = [[*key, f" AS c{at}"] for at, key in enumerate(keys)]
        items += [[*self.aggregate(kind, names), f" AS c{at}"] for at, kind in list(enumerate(kinds))[len(keys) :]]
        pieces = ["SELECT ", *joined(items, ", "), " FROM ", *relation, *self.where(names)]
        if keys:
            pieces += [" GROUP BY ", *joined([str(at + 1) for at in range(len(keys))], ", ")]
        if rng.random() < 0.3:
            pieces += [" HAVING ", *self.aggregate("integer", names), rng.choice([" > ", " <= "]), literal(rng, "integer")]
        return pieces

    def aggregate(self, kind: str, names: Sequence[str]) -> Pieces:
        """An aggregate that gives this kind."""
        rng = self.rng

        def of(kind: str) -> Pieces:
            return self.value(kind, names, 1)

        extreme = [rng.choice(["min(", "max("]), *of(kind), ")"]
        if kind in ("time", "text"):
            return extreme
        if kind == "integer":
            return rng.choice(
                [
                    extreme,
                    ["count(*)"],
                    ["count(", *of(rng.choice(list(COLUMNS.values()))), ")"],
                    ["count(DISTINCT ", *of(rng.choice(["double", "integer", "text"])), ")"],
                    ["sum(", *of("integer"), ")"],
                    ["sum(DISTINCT ", *of("integer"), ")"],
                    ["count(*) FILTER (WHERE ", *self.condition(names, 0), ")"],
                ]
            )
        return rng.choice([extreme, ["sum(", *of("double"), ")"], ["avg(", *of("integer"), ")"], ["avg(", *of("double"), ")"]])

    def windows(self, kinds: Sequence[str]) -> Pieces:
        """Window functions over one table; ties are broken by its id."""
        rng = self.rng
        listed = [[*self.window(kind), f" AS c{at}"] for at, kind in enumerate(kinds)]
        return ["SELECT ", *joined(listed, ", "), f" FROM {rng.choice(TABLES)} a", *self.where(["a"])]

    def window(self, kind: str) -> Pieces:
        """A window function that gives this kind, or a column."""
        rng = self.rng
        parts = f"PARTITION BY a.{rng.choice(['k', 'd', 'n'])} " if rng.random() < 0.6 else ""
        key, nulls = rng.choice(["d", "n", "s"]), rng.choice(["FIRST", "LAST"])
        by_key = f"{parts}ORDER BY a.{key} {rng.choice(['ASC', 'DESC'])} NULLS {nulls}"
        total = f"{by_key}, a.id"
        frame = rng.choice(
            ["", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
             " ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING"]
        )
        value = self.value(kind, ["a"], 1)
        over = f" OVER ({total}{frame})"
        choices: list[Pieces] = [
            [rng.choice(["min(", "max("]), *value, ")", over],
            [rng.choice(["first_value(", "last_value("]), *value, ")", over],
            [rng.choice(["lag(", "lead("]), *value, ", 1)", f" OVER ({total})"],
        ]
        if kind == "integer" and key != "s":
            near, far = rng.choice(["2", "1", "9223372036854775806"]), rng.choice(["0", "1", "9223372036854775807"])
            frame = f"RANGE BETWEEN {near} PRECEDING AND {far} FOLLOWING"
            choices += [[rng.choice(["count(", "min(", "max("]), *self.value("integer", ["a"], 1), f") OVER ({by_key} {frame})"]]
        if kind == "integer":
            choices += [
                [rng.choice(["rank()", "dense_rank()"]), f" OVER ({by_key})"],
                [f"row_number() OVER ({total})"],
                ["count(", *value, ")", over],
                ["sum(", *value, ")", over],
            ]
        return rng.choice(choices)

    def with_tables(self, kinds: Sequence[str]) -> Pieces:
        """A query of a named one, read twice."""
        rng = self.rng
        join = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        listed = joined([f"{rng.choice('pq')}.c{at} AS c{at}" for at in range(len(kinds))], ", ")
        return ["WITH w AS (", *self.select(kinds), ") SELECT ", *listed, f" FROM w p {join} w q ON p.c0 = q.c0"]


def statements(rng: random.Random) -> Iterator[Statement]:
    """Statements without end."""
    making = Making(rng)
    while True:
        yield making.statement()
