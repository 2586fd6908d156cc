"""Random groups: aggregates with DISTINCT, FILTER and ORDER BY, GROUPING SETS, ROLLUP, CUBE, HAVING.

Doubles that the two systems add up in another order are rounded. `corr` of equal values is NULL here, as in PostgreSQL,
and NaN there. `arg_min` and `first` take the row as it is here; DuckDB has `arg_min_null` for that. `first` and `last` go
by the designated timestamp here; `first_value` and `last_value` are those that take ORDER BY.
"""

from collections.abc import Sequence

from pieces import KINDS, Literal, Pieces, Word, joined, literal
from sources import Sources

Key = tuple[Pieces, str]


class Groups(Sources):
    """Makes queries of groups."""

    def grouped(self, kinds: Sequence[str]) -> Pieces:
        """Groups and their aggregates."""
        rng = self.rng
        relation, names = self.relation()
        keys = [self.value(kind, names, 1) for kind in kinds[: rng.randrange(0, len(kinds) + 1)]]
        items = [[*key, f" AS c{at}"] for at, key in enumerate(keys)]
        for at, kind in list(enumerate(kinds))[len(keys) :]:
            constant = rng.random() < 0.1 and self.may("constants beside aggregates")
            items.append([*([literal(rng, kind)] if constant else self.aggregate(kind, names)), f" AS c{at}"])
        pieces = ["SELECT ", *joined(items, ", "), " FROM ", *relation, *self.where(names)]
        if keys:
            by = [str(at + 1) for at in range(len(keys))]
            # An expression is written again only where it has no literal, which may be two parameters.
            if rng.random() < 0.3 and not any(isinstance(piece, Literal) for key in keys for piece in key):
                by = list(keys)
            pieces += [" GROUP BY ", *joined(by, ", ")]
        return [*pieces, *self.having(names)]

    def sets_of_groups(self, kinds: Sequence[str]) -> Pieces:
        """Several groupings at once, by columns and expressions without literals."""
        rng = self.rng
        relation, names = self.relation()
        count = rng.randrange(1, min(len(kinds), 3) + 1)
        keys: list[str] = []
        while len(keys) < count:
            key = self.key(kinds[len(keys)], names)
            # A key that is there twice is refused.
            if key in keys:
                return self.grouped(kinds)
            keys.append(key)
        items: list[Pieces] = [[f"{key} AS c{at}"] for at, key in enumerate(keys)]
        for at, kind in list(enumerate(kinds))[count:]:
            grouping = kind == "integer" and rng.random() < 0.4
            items.append([*([f"grouping({rng.choice(keys)})"] if grouping else self.aggregate(kind, names)), f" AS c{at}"])
        return [
            "SELECT ", *joined(items, ", "), " FROM ", *relation, *self.where(names), f" GROUP BY {self.grouping(keys)}",
            *self.having(names),
        ]

    def key(self, kind: str, names: Sequence[str]) -> str:
        """What rows are grouped by, as text."""
        column = self.column(kind, names)
        expressions = {
            "integer": [f"{column} % 2", f"abs({column})"],
            "text": [f"upper({column})"],
            "time": [f"date_trunc('day', {column})"],
            "boolean": [f"({column} IS NULL)"],
        }
        if kind == "double" and self.may("GROUPING SETS of doubles"):
            return f"floor({column})"
        return self.rng.choice([column, *expressions.get(kind, [])])

    def grouping(self, keys: Sequence[str]) -> str:
        """What follows GROUP BY."""
        rng = self.rng
        listed = ", ".join(keys)
        sets = [", ".join(key for key in keys if rng.random() < 0.6) for _ in range(rng.randrange(1, 4))]
        # A key that is in no set would be neither grouped nor aggregated.
        sets.append(listed)
        return rng.choice(
            [
                f"ROLLUP ({listed})",
                f"CUBE ({listed})",
                f"GROUPING SETS ({', '.join(f'({each})' for each in sets)})",
                f"{keys[0]}, ROLLUP ({', '.join(keys[1:])})" if len(keys) > 1 else f"ROLLUP ({listed})",
            ]
        )

    def having(self, names: Sequence[str]) -> Pieces:
        """A condition on the groups, sometimes."""
        rng = self.rng
        if rng.random() < 0.7:
            return []
        kind = rng.choice(["integer", "integer", "double", "text", "boolean"])
        made: Pieces = [*self.aggregate(kind, names), rng.choice([" > ", " <= ", " = "]), literal(rng, kind)]
        if rng.random() < 0.3:
            made += [rng.choice([" OR ", " AND "]), "count(*)", rng.choice([" > ", " <= "]), literal(rng, "integer")]
        elif rng.random() < 0.2:
            made += [rng.choice([" OR ", " AND "]), "count(*)", " IN (", *self.inner("integer"), ")"]
        return [" HAVING ", *made]

    def aggregate(self, kind: str, names: Sequence[str]) -> Pieces:
        """An aggregate that gives this kind, perhaps of some of the rows."""
        if self.rng.random() < 0.2:
            return self.aggregate_with(kind, names, [" FILTER (WHERE ", *self.condition(names, 0), ")"])
        return self.aggregate_with(kind, names, [])

    def aggregate_with(self, kind: str, names: Sequence[str], rows: Pieces) -> Pieces:
        """An aggregate of this kind over these rows."""
        rng = self.rng

        def of(kind: str) -> Pieces:
            return self.value(kind, names, 1)

        def call(name: str, *inside: Pieces) -> Pieces:
            return [f"{name}(", *joined(inside, ", "), ")", *rows]

        choices = [lambda: call(rng.choice(["min", "max"]), of(kind))]
        if kind in ("time", "text", "integer", "date", "decimal", "boolean") and len(names) == 1:
            choices.append(lambda: self.by_order(kind, names, rows))
        if kind == "text":
            choices += [lambda: self.strings(names, rows)] * 2
        elif kind == "boolean":
            choices += [lambda: call(rng.choice(["bool_and", "bool_or"]), of(kind))] * 2
        elif kind == "decimal":
            # Of 38 digits there, beside one of more places, places are rounded away.
            choices += [
                lambda: ["CAST(", *call("sum", [rng.choice(["", "", "DISTINCT "]), *of(kind)]), " AS DECIMAL(22, 4))"]
            ] * 3
        elif kind == "integer":
            choices += [
                lambda: ["count(*)", *rows],
                lambda: call("count", of(rng.choice(KINDS))),
                lambda: call("count", ["DISTINCT ", *of(rng.choice(KINDS))]),
                lambda: call("sum", of("integer")),
                lambda: call("sum", ["DISTINCT ", *of("integer")]),
                lambda: call(rng.choice(["bit_and", "bit_or", "bit_xor"]), of("integer")),
                lambda: call("CAST(regr_count", of("integer"), of("integer")) + [" AS BIGINT)"],
            ]
        elif kind == "double":
            choices += [
                lambda: call("sum", of("double")),
                lambda: call("sum", ["DISTINCT ", *of("real")]),
                lambda: call("avg", of(rng.choice(["integer", "double", "real"]))),
                lambda: ["round(", *call("avg", ["DISTINCT ", *of("integer")]), ", 6)"],
                # Four places are kept beside those of the argument, the rest is cut off: round() of one has none.
                lambda: [
                    "round(CAST(", *call("avg", ["CAST(", *of("decimal"), " AS DECIMAL(30, 4))"]), " AS DOUBLE), 4)"
                ],
                lambda: ["round(", *call(self.spread(), of(rng.choice(["integer", "real"]))), ", 6)"],
                lambda: ["round(", *call(rng.choice(["covar_pop", "covar_samp"]), of("integer"), of("integer")), ", 6)"],
                lambda: [
                    "round(", Word("", "nullif("), *call("corr", of("integer"), of("integer")),
                    Word("", ", 'NaN'::DOUBLE)"), ", 6)",
                ],
                lambda: call("median", of(rng.choice(["integer", "double", "real"]))),
                lambda: call(
                    "quantile_cont",
                    of("double" if self.may("quantiles between infinities") else "integer"),
                    [rng.choice(["0.25", "0.5", "0.9"])],
                ),
            ]
        return rng.choice(choices)()

    def spread(self) -> str:
        """How far values are apart."""
        return self.rng.choice(["stddev", "stddev_pop", "stddev_samp", "var_pop", "var_samp"])

    def total(self, names: Sequence[str]) -> str:
        """An order of the one table whose ties are equal rows."""
        rng = self.rng
        name = names[0]
        keys = rng.sample(["d", "n", "s", "m", "day", "f", "k", "u", "r", "i", "h", "id", "ts"], 13)
        if self.may("ORDER BY a key twice"):
            keys.append(keys[0])
        return ", ".join(f"{name}.{key} {rng.choice(['ASC', 'DESC'])} NULLS {rng.choice(['FIRST', 'LAST'])}" for key in keys)

    def by_order(self, kind: str, names: Sequence[str], rows: Pieces) -> Pieces:
        """The value of the first or last row in some order, or in order of time."""
        rng = self.rng
        column = self.column(kind, names)
        end = rng.choice(["first", "last"])
        if self.tied or rng.random() < 0.5:
            return [Word(f"{end}_value(", f"{end}("), column, f" ORDER BY {self.total(names)})", *rows]
        ends = {"first": "arg_min", "last": "arg_max"}[end]
        return [Word(f"{ends}(", f"{ends}_null("), column, f", {names[0]}.ts)", *rows]

    def strings(self, names: Sequence[str], rows: Pieces) -> Pieces:
        """Texts one after the other."""
        column = self.column("text", names)
        if self.strung and not self.may("string_agg of two orders"):
            return ["max(", column, ")", *rows]
        self.strung = True
        distinct = self.rng.random() < 0.3
        if distinct and not self.may("string_agg DISTINCT of a SYMBOL"):
            column = f"{self.rng.choice(names)}.s"
        if distinct:
            return [f"string_agg(DISTINCT {column}, ',' ORDER BY {column} {self.rng.choice(['ASC', 'DESC'])})", *rows]
        return [f"string_agg({column}, ',' ORDER BY {column} {self.rng.choice(['ASC', 'DESC'])} NULLS LAST)", *rows]
