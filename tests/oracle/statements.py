"""Random statements that Tickstone and DuckDB both understand, over tables with the same column names.

All that is random comes from one `random.Random`. Modules build on one another: `pieces` (what a statement is made
of), `values` (expressions and conditions), `sources` (FROM), `groups`, `windows`, and here whole queries.
"""

import random
from collections.abc import Iterator, Sequence

from pieces import TABLES, Literal, Pieces, Statement, joined, literal
from windows import Windows

OPERATORS = ["UNION", "EXCEPT", "INTERSECT", "UNION ALL", "EXCEPT ALL", "INTERSECT ALL"]


class Making(Windows):
    """Makes statements."""

    def statement(self) -> Statement:
        """One statement: a query, perhaps of sets, perhaps ordered by all its columns and cut off."""
        rng = self.rng
        self.used, self.queries, self.below, self.tied, self.strung = set(), False, 0, False, False
        kinds = [self.kind() for _ in range(rng.randrange(1, 5))]
        makers = {
            self.select: 8,
            self.sets: 3,
            self.grouped: 4,
            self.sets_of_groups: 2,
            self.windows: 4,
            self.named_windows: 1,
            self.windows_of_groups: 1,
            self.distinct_on: 1,
            self.with_tables: 2,
            self.recursive: 1,
            self.beside_queries: 1,
            self.arrays: 1,
        }
        make = rng.choices(list(makers), list(makers.values()))[0]
        pieces = make(kinds)
        if make in (self.windows_of_groups, self.recursive):
            # Whole numbers and texts, whatever was asked for.
            kinds = [""] * len(kinds)
        ordered = rng.random() < 0.4
        around: Pieces = [" WHERE ", *self.around(kinds)] if rng.random() < 0.2 else []
        if ordered or around:
            pieces = ["SELECT * FROM (", *pieces, ") q", *around]
        if ordered:
            pieces += [" ORDER BY ", *joined(self.orders(kinds), ", ")]
            if rng.random() < 0.5:
                limit = f" LIMIT {rng.randrange(1, 9)} OFFSET {rng.choice([0, 0, 2])}"
                pieces.append(rng.choice([limit, " LIMIT 3", " OFFSET 1"]))
        return Statement(pieces, ordered, frozenset(self.used))

    def around(self, kinds: Sequence[str]) -> Pieces:
        """A condition on the columns of a query, which may be looked at before it is whole."""
        rng = self.rng
        at = rng.randrange(len(kinds))
        column, kind = f"q.c{at}", kinds[at]
        made: Pieces = [column, rng.choice([" IS NULL", " IS NOT NULL"])]
        if kind and rng.random() < 0.7:
            compare = rng.choice([" = ", " < ", " >= ", " <> ", " IS DISTINCT FROM "])
            made = rng.choice([[column, compare, literal(rng, kind)], [column, " IN (", *self.literals(kind), ")"]])
        if rng.random() < 0.3:
            return [*made, rng.choice([" OR ", " AND "]), *self.around(kinds)]
        return made

    def orders(self, kinds: Sequence[str]) -> list[str]:
        """What is ordered by: all columns, sometimes an expression before them."""
        rng = self.rng
        columns = [f"c{at}" for at in range(len(kinds))]
        rng.shuffle(columns)
        if rng.random() < 0.3:
            at = rng.randrange(len(kinds))
            expressions = {"integer": f"abs(c{at})", "double": f"floor(c{at})", "text": f"lower(c{at})", "boolean": f"NOT c{at}"}
            columns.insert(0, expressions.get(kinds[at], f"c{at} IS NULL"))
        return [f"{each} {rng.choice(['ASC', 'DESC'])} NULLS {rng.choice(['FIRST', 'LAST'])}" for each in columns]

    def listed(self, kinds: Sequence[str], names: Sequence[str]) -> Pieces:
        """What SELECT lists."""
        return joined([[*self.value(kind, names), f" AS c{at}"] for at, kind in enumerate(kinds)], ", ")

    def select(self, kinds: Sequence[str]) -> Pieces:
        """A query of columns of these kinds."""
        relation, names = self.relation()
        distinct = "DISTINCT " if self.rng.random() < 0.15 else ""
        return [f"SELECT {distinct}", *self.listed(kinds, names), " FROM ", *relation, *self.where(names)]

    def beside_queries(self, kinds: Sequence[str]) -> Pieces:
        """A query whose columns are queries of one value, and conditions with queries where that is switched on."""
        rng = self.rng
        relation, names = self.relation()
        items: list[Pieces] = []
        for kind in kinds:
            if kind in ("integer", "double", "text", "time") and rng.random() < 0.6:
                items.append(self.scalar_query(kind, names))
            elif kind == "boolean" and self.may("queries beside columns"):
                items.append(["(", *self.with_query(names), ")"])
            else:
                items.append(self.value(kind, names, 1))
        listed = joined([[*item, f" AS c{at}"] for at, item in enumerate(items)], ", ")
        return ["SELECT ", *listed, " FROM ", *relation, *self.where(names)]

    def arrays(self, kinds: Sequence[str]) -> Pieces:
        """Arrays of the rows of groups, and rows of them again; all of one order, as they are side by side."""
        rng = self.rng
        order = self.total(["a"])
        columns = [self.column(kind, ["a"]) for kind in kinds]
        made = [f"array_agg({column} ORDER BY {order}) AS g{at}" for at, column in enumerate(columns)]
        listed = ", ".join(f"unnest(g{at}{rng.choice(['', '', '[1:2]'])}) AS c{at}" for at in range(len(kinds)))
        groups = f" GROUP BY a.{rng.choice(['k', 'n', 'f'])}" if rng.random() < 0.7 else ""
        grouped = [f"SELECT {', '.join(made)} FROM {rng.choice(TABLES)} a", *self.where(["a"]), groups]
        return [f"SELECT {listed} FROM (", *grouped, ") g"]

    # --- sets

    def sets(self, kinds: Sequence[str], depth: int = 2) -> Pieces:
        """Queries as sets, nested."""
        rng = self.rng
        left, right = (
            self.sets(kinds, depth - 1) if depth and rng.random() < 0.25 else self.plain(kinds) for _ in range(2)
        )
        columns = ", ".join(f"c{at}" for at in range(len(kinds)))
        return [f"SELECT {columns} FROM ((", *left, f") {rng.choice(OPERATORS)} (", *right, ")) u"]

    def plain(self, kinds: Sequence[str]) -> Pieces:
        """A query with little between the table and its rows, so that rows come more than once."""
        rng = self.rng
        if rng.random() < 0.2:
            return self.select(kinds)
        if rng.random() < 0.15:
            return self.rows(kinds)
        # Numbers of another type than the other side has.
        others = {"double": ["double", "integer", "real"], "decimal": ["decimal", "integer"]}
        kinds = [rng.choice(others.get(kind, [kind])) if rng.random() < 0.3 else kind for kind in kinds]
        listed = joined([[*self.value(kind, ["x"], 1), f" AS c{at}"] for at, kind in enumerate(kinds)], ", ")
        return ["SELECT ", *listed, f" FROM {rng.choice(TABLES)} x", *self.where(["x"])]

    def rows(self, kinds: Sequence[str]) -> Pieces:
        """Rows that are written out."""
        rng = self.rng

        def row(nulls: bool) -> Pieces:
            values = [["NULL"] if nulls and rng.random() < 0.2 else self.typed(literal(rng, kind)) for kind in kinds]
            return ["(", *joined(values, ", "), ")"]

        columns = ", ".join(f"c{at}" for at in range(len(kinds)))
        listed = joined([row(at > 0) for at in range(rng.randrange(1, 4))], ", ")
        return [f"SELECT {columns} FROM (VALUES ", *listed, f") v({columns})"]

    @staticmethod
    def typed(value: Literal) -> Pieces:
        """A literal of one type in both systems."""
        types = {"double": "DOUBLE", "real": "REAL"}
        return ["CAST(", value, f" AS {types[value.kind]})"] if value.kind in types else [value]

    # --- WITH

    def with_tables(self, kinds: Sequence[str]) -> Pieces:
        """Queries with names, read twice and by one another."""
        rng = self.rng
        join = rng.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        columns = ", ".join(f"c{at}" for at in range(len(kinds)))
        named: Pieces = ["WITH w AS (", *rng.choice([self.select, self.grouped, self.plain])(kinds), ")"]
        right = "w"
        if rng.random() < 0.5:
            named += [f", x({columns}) AS (SELECT {columns} FROM w {rng.choice(OPERATORS)} ", *self.plain(kinds), ")"]
            right = "x"
        listed = joined([f"{rng.choice('pq')}.c{at} AS c{at}" for at in range(len(kinds))], ", ")
        return [*named, " SELECT ", *listed, f" FROM w p {join} {right} q ON p.c0 = q.c0"]

    def recursive(self, kinds: Sequence[str]) -> Pieces:
        """A query that reads itself: numbers that grow, with a text that does, or the ids that rows lead to."""
        rng = self.rng
        name, other = rng.choice(TABLES), rng.choice(TABLES)
        union, end = rng.choice(["UNION", "UNION ALL"]), rng.randrange(3, 6)
        made: Pieces = rng.choice(
            [
                [
                    f"SELECT n AS x, CAST('' AS VARCHAR) AS p FROM {name} a", *self.where(["a"]),
                    f" {union} SELECT x + 1, p || 'a' FROM r WHERE x < {end} AND length(p) < 6",
                ],
                [
                    f"SELECT a.id AS x, a.s AS p FROM {name} a", *self.where(["a"]),
                    f" {union} SELECT b.n, r.p FROM r JOIN {other} b ON b.id = r.x WHERE b.n > r.x",
                ],
                ["SELECT ", literal(rng, "integer"), f" AS x, 'a' AS p {union} SELECT x + 1, p || 'b' FROM r WHERE x < 8"],
            ]
        )
        texts = [("r.x", "r.p")[kind == "text"] for kind in kinds]
        if rng.random() < 0.3:
            texts = [f"max({each})" for each in texts]
        listed = ", ".join(f"{each} AS c{at}" for at, each in enumerate(texts))
        return ["WITH RECURSIVE r(x, p) AS (", *made, f") SELECT {listed} FROM r"]


def statements(rng: random.Random) -> Iterator[Statement]:
    """Statements without end."""
    making = Making(rng)
    while True:
        yield making.statement()
