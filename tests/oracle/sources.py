"""What random statements read: tables, queries in their place, and joins of them."""

from collections.abc import Sequence

from pieces import COLUMNS, TABLES, Pieces, Word, joined
from values import Values

# One row of each group, with the columns of a table.
# Which of both zeros a group has, nobody says: 0.0 of either.
GROUPED = (
    "SELECT max(x.ts) AS ts, max(x.k) AS k, x.d + 0.0 AS d, x.n, min(x.s) AS s, count(*) AS id, max(x.u) AS u, bool_or(x.f) AS f, "
    "max(x.m) AS m, min(x.day) AS day, max(x.r) AS r, min(x.i) AS i, max(x.h) AS h "
)


class Sources(Values):
    """Makes what stands after FROM."""

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
                lambda: [f"(SELECT DISTINCT {self.distinct(listed)} FROM {name} x", *self.where(["x"]), ")"],
                lambda: [f"({GROUPED}FROM {name} x", *self.where(["x"]), " GROUP BY x.d, x.n)"],
                lambda: [f"(SELECT {listed} FROM {name} x ORDER BY x.id {rng.choice(['', 'DESC '])}LIMIT {rng.randrange(1, 9)})"],
                lambda: self.two(name),
                lambda: self.merged(name),
            ],
            [12, 4, 2, 2, 1, 1, 1],
        )[0]()

    def distinct(self, listed: str) -> str:
        """What is selected DISTINCT."""
        if self.may("date_trunc of what DISTINCT gives"):
            return listed
        return listed.replace("x.u", "coalesce(x.u, x.ts) AS u")

    def two(self, name: str) -> Pieces:
        """The rows of two tables."""
        self.tied = True
        listed = ", ".join(COLUMNS)
        return [f"(SELECT {listed} FROM {name} UNION ALL SELECT {listed} FROM {self.rng.choice(TABLES)})"]

    def merged(self, name: str) -> Pieces:
        """Joins by USING, whose keys have no table's name."""
        rng = self.rng
        keys = rng.choice([["n"], ["d"], ["k", "n"], ["m"], ["day", "f"], ["ts"], ["s", "u"], ["r"]])
        names, pieces = ["x"], [f" FROM {name} x"]
        for other in ["y", "z"][: rng.choice([1, 1, 2])]:
            kind = rng.choice(["", "LEFT ", "RIGHT ", "FULL "])
            pieces += [f" {kind}JOIN {rng.choice(TABLES)} {other} USING ({', '.join(keys)})"]
            names.append(other)
        listed = [column if column in keys else f"{rng.choice(names)}.{column}" for column in COLUMNS]
        if rng.random() < 0.4:
            pieces += [f" WHERE {keys[0]} {rng.choice(['IS NOT NULL', 'IS NULL', f'<= {rng.choice(names)}.{keys[0]}'])}"]
        self.tied = True
        return [f"(SELECT {', '.join(listed)}", *pieces, ")"]

    def relation(self) -> tuple[Pieces, list[str]]:
        """What FROM has: its pieces, and the names in it."""
        rng = self.rng
        pieces, names = [*self.source(), " a"], ["a"]
        for name in ["b", "c"][: rng.choices([0, 1, 2], [2, 6, 2])[0]]:
            join = rng.choice(["INNER", "LEFT", "RIGHT", "FULL", "CROSS", "SEMI", "ANTI", "USING", "COMMA", "LATERAL", "LESS"])
            if join == "COMMA" and name != "b":
                join = "INNER"
            if join == "COMMA":
                # What is joined after a comma sees only what stands after it.
                return [*pieces, ", ", *self.source(), f" {name}"], [*names, name]
            elif join == "CROSS":
                pieces += [" CROSS JOIN ", *self.source(), f" {name}"]
            elif join == "USING":
                kind = rng.choice(["", "LEFT ", "RIGHT ", "FULL "])
                keys = rng.choice(["n", "d", "n, k", "m", "day, f"])
                if name != "b":
                    pieces += [f" {kind}JOIN ", *self.source(), f" {name} ", *self.on(names, name)]
                elif rng.random() < 0.3:
                    columns = f"x.{keys.split(',')[0]}, x.ts AS ts_{name}"
                    pieces += [f" NATURAL {kind}JOIN (SELECT {columns} FROM {rng.choice(TABLES)} x) {name}0"]
                    continue
                else:
                    pieces += [f" {kind}JOIN ", *self.source(), f" {name} USING ({keys})"]
            elif join in ("SEMI", "ANTI"):
                pieces += [Word(f" LEFT {join} JOIN ", f" {join} JOIN "), *self.source(), f" {name} ", *self.on(names, name)]
                continue
            elif join == "LATERAL":
                lateral, comma = self.lateral(names, name)
                if comma:
                    return [*pieces, *lateral], [*names, name]
                pieces += lateral
            elif join == "LESS":
                kind, compare = rng.choice(["INNER", "LEFT", "RIGHT", "FULL"]), rng.choice(["<", ">=", "<>"])
                key = rng.choice(["n", "d", "ts", "m", "day", "s"])
                pieces += [f" {kind} JOIN ", *self.source(), f" {name} ON {rng.choice(names)}.{key} {compare} {name}.{key}"]
            else:
                pieces += [f" {join} JOIN ", *self.source(), f" {name} ", *self.on(names, name)]
            names.append(name)
        return pieces, names

    def on(self, names: Sequence[str], name: str) -> Pieces:
        """A condition of a join: equal keys, of one type or two, perhaps more."""
        rng = self.rng
        other = rng.choice(names)
        keys = [(each, each) for each in ("d", "n", "k", "s", "id", "ts", "m", "day", "f", "r", "u", "i")]
        key = rng.choice([*keys, ("n", "d"), ("i", "h"), ("n", "i"), ("r", "d"), ("m", "n"), ("s", "k"), ("day", "u")])
        sides = [f"{other}.{key[0]}", f"{name}.{key[1]}"]
        if rng.random() < 0.1:
            sides = [f"coalesce({sides[0]}, {other}.{key[0]})", f"greatest({sides[1]}, {name}.{key[1]})"]
        rng.shuffle(sides)
        compare = "IS NOT DISTINCT FROM" if rng.random() < 0.1 and self.may("joins by IS NOT DISTINCT FROM") else "="
        equal: Pieces = [f"ON {sides[0]} {compare} {sides[1]}"]
        if rng.random() < 0.3:
            equal += [" AND ", *self.condition([other, name], 0 if rng.random() < 0.7 else 1)]
        elif rng.random() < 0.15:
            # Of one side, as it must be in outer joins.
            equal += [" AND ", *self.with_query([rng.choice([other, name])])]
        return equal

    def lateral(self, names: Sequence[str], name: str) -> tuple[Pieces, bool]:
        """A join with a query that reads what stands before it and gives all columns of a table; whether by a comma."""
        rng = self.rng
        where: Pieces = [" WHERE ", *self.equal("x", names, self.may("LATERAL by doubles"))]
        if rng.random() < 0.4 and self.may("LATERAL of no row"):
            where += [" AND ", *self.condition(["x"], 0)]
        if rng.random() < 0.5 or not self.may("LATERAL that names its key"):
            listed = joined([f"x.{column}" for column in COLUMNS], ", ")
            query: Pieces = ["(SELECT ", *listed, f" FROM {rng.choice(TABLES)} x", *where, f") {name}"]
        else:
            grouped = GROUPED.replace("x.d + 0.0 AS d, x.n,", "max(x.d) AS d, sum(x.n) AS n,")
            query = [f"({grouped}FROM {rng.choice(TABLES)} x", *where, f") {name}"]
        if rng.random() < 0.3:
            return [", LATERAL ", *query], True
        return rng.choice([[" CROSS JOIN LATERAL ", *query], [" LEFT JOIN LATERAL ", *query, " ON TRUE"]]), False
