"""Random queries over wide tables with casts and functions in every clause, and the same queries blindfolded.

A query is text in which each column of a table stands in braces: `{a.ts}`. As it is asked, the braces go; blindfolded,
each becomes a call of an identity that no optimizer sees through, `seen_time(a.ts)`: of what such an expression is made
of nothing can be inferred, neither its order nor that it is constant, not null or equal to another. `⟦EXISTS (…)‖n > 0⟧` is
the one as it is asked and the other blindfolded, where the engine joins a sub-query by what it can see. Both are one
question, and have one answer.

All that is random comes from one `random.Random`; literals are values that rows have (`Data.value`), so that
conditions hold for some.
"""

import dataclasses
import datetime
import random
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

#: The kind of each column, and the type of SQL that its identity takes and gives.
COLUMNS = {
    "ts": "time", "u": "time", "day": "date", "k": "text", "s": "text", "x": "integer", "n": "integer", "id": "integer",
    "d": "double", "m": "decimal", "f": "boolean",
}
TYPES = {
    "time": "TIMESTAMP", "date": "DATE", "text": "VARCHAR", "integer": "BIGINT", "double": "DOUBLE",
    "decimal": "DECIMAL(18, 3)", "boolean": "BOOLEAN",
}
KINDS = [*TYPES, "clock"]
# What columns are cast to where they are grouped, joined and ordered by.
KEYS = ["date", "clock", "clock", "integer", "text", "boolean", "time", "decimal", "double"]
COMPARISONS = [" = ", " = ", " = ", " < ", " <= ", " > ", " >= ", " <> ", " IS NOT DISTINCT FROM "]

# Expressions of a kind: `<time>` stands for one of that kind.
EXPRESSIONS = {
    "time": [
        "date_trunc('minute', <time>)", "date_trunc('hour', <time>)", "date_trunc('day', <time>)", "date_trunc('week', <time>)",
        "date_bin(INTERVAL '6 hours', <time>)", "date_bin(INTERVAL '2 days', <time>)", "CAST(<date> AS TIMESTAMP)",
        "(<time> + INTERVAL '1 day')", "(<time> - INTERVAL '3 hours')", "(<time> + INTERVAL '1 month')",
    ],
    "date": ["CAST(<time> AS DATE)", "CAST(<time> AS DATE)", "(<date> + 1)"],
    "clock": ["CAST(<time> AS TIME)"],
    "integer": [
        "(<integer> % 7)", "abs(<integer>)", "(- <integer>)", "(<integer> / 3)", "(<integer> * 0)", "(<integer> * 2)",
        "extract(hour FROM <time>)", "extract(dow FROM <time>)", "extract(day FROM <time>)", "extract(week FROM <time>)",
        "CAST(<decimal> AS BIGINT)", "CAST(<boolean> AS BIGINT)", "length(<text>)", "TRY_CAST(<text> AS BIGINT)",
        "TRY_CAST(<double> AS INT)", "TRY_CAST(<integer> AS SMALLINT)",
    ],
    "double": [
        "abs(<double>)", "floor(<double>)", "(- <double>)", "(<double> * 0)", "CAST(<integer> AS DOUBLE)",
        "CAST(<decimal> AS DOUBLE)", "CAST(CAST(<double> AS FLOAT) AS DOUBLE)", "TRY_CAST(<text> AS DOUBLE)",
    ],
    "decimal": [
        "round(<decimal>, 1)", "CAST(<decimal> AS DECIMAL(18, 1))", "floor(<decimal>)", "CAST(<integer> AS DECIMAL(22, 2))",
        "abs(<decimal>)",
    ],
    "text": [
        "upper(<text>)", "left(<text>, 1)", "concat(<text>, '_')", "reverse(<text>)", "CAST(<integer> AS VARCHAR)",
        "CAST(<date> AS VARCHAR)", "CAST(<boolean> AS VARCHAR)", "CAST(<decimal> AS VARCHAR)",
    ],
    "boolean": [
        "CAST(<integer> AS BOOLEAN)", "(<integer> > 1)", "(<text> IS NULL)", "(NOT <boolean>)", "(<date> = <date>)",
    ],
}
# Of any kind; `random()` is below 1, which no optimizer knows.
ANY_KIND = [
    "coalesce(<>, <>)", "CASE WHEN <boolean> THEN <> ELSE <> END", "nullif(<>, <>)", "greatest(<>, <>)",
    "CASE WHEN random() < 2 THEN <> END",
]

DOUBLES = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, 1e20, float("nan"), float("inf"), float("-inf")]
NS = {"hour": 3_600_000_000_000, "minute": 60_000_000_000}
# 2024-03-30T22:00:00Z, ns since the Unix epoch.
START = 1_711_836_000_000_000_000


def rows(rng: random.Random, count: int) -> pa.Table:
    """Some days of rows, several a minute now and then; every column but `ts` and `id` with NULLs, times tied and not."""
    step = rng.choice([NS["minute"], 7 * NS["minute"], NS["hour"] // 4, NS["hour"]])

    def drawn(values: Sequence[object], nulls: float = 0.1) -> list[object]:
        return [None if rng.random() < nulls else rng.choice(values) for _ in range(count)]

    def moments(values: Sequence[object]) -> pa.Array:
        return pa.array(values, pa.timestamp("ns"))

    places = sorted(rng.choice([at, at, rng.randrange(max(count, 1))]) for at in range(count))
    half_days = [START + at * 12 * NS["hour"] for at in range(8)]
    return pa.table(
        {
            "ts": moments([START + place * step for place in places]),
            "u": moments(drawn([*half_days, *(START + at * step + 1 for at in range(40))])),
            "day": pa.array(drawn([datetime.date(2024, 3, 29) + datetime.timedelta(at) for at in range(9)]), pa.date32()),
            "k": pa.array(drawn(["A", "B", "C"], 0.02), pa.string()),
            "s": pa.array(drawn(["", "a", "B", "b", "10", "9", "1e3", "ü"]), pa.string()),
            "x": pa.array(drawn([0, 1, 1, 2, -3, 7, 100]), pa.int32()),
            "n": pa.array([at // 3 if rng.random() < 0.95 else None for at in range(count)], pa.int64()),
            "id": pa.array(range(count), pa.int64()),
            "d": pa.array(drawn(DOUBLES), pa.float64()),
            "m": pa.array(drawn([Decimal(at) / 8 for at in range(-8, 24)]), pa.decimal128(18, 3)),
            "f": pa.array(drawn([True, False]), pa.bool_()),
        }
    )


def plain(text: str) -> str:
    """A query as it is asked."""
    return re.sub(r"\{(\w+\.\w+)\}", r"\1", re.sub(r"⟦([^‖]*)‖[^⟧]*⟧", r"\1", text))


def blindfolded(text: str) -> str:
    """A query of whose columns nothing can be inferred."""
    text = re.sub(r"⟦[^‖]*‖([^⟧]*)⟧", r"\1", text)
    return re.sub(r"\{(\w+)\.(\w+)\}", lambda found: f"seen_{COLUMNS[found[2]]}({found[1]}.{found[2]})", text)


@dataclass(frozen=True)
class Query:
    """A query in its clauses, so that one that is answered wrongly can be made smaller."""

    items: tuple[str, ...]
    source: str
    where: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    having: tuple[str, ...] = ()
    qualify: tuple[str, ...] = ()
    order: tuple[str, ...] = ()
    limit: str = ""
    distinct: str = ""
    #: Around the list of groups: `ROLLUP (…)`.
    sets: str = ""
    #: Whether it is aggregates of all rows.
    totals: bool = False
    #: Whether each key of its order is needed to break ties.
    whole_order: bool = False

    def text(self) -> str:
        """As SQL, columns in braces."""
        listed = ", ".join(f"{item} AS c{at}" for at, item in enumerate(self.items))
        grouped = ", ".join(self.group)
        clauses = [
            f"SELECT {self.distinct}{listed} FROM {self.source}",
            " WHERE " + " AND ".join(self.where) if self.where else "",
            f" GROUP BY {f'{self.sets} ({grouped})' if self.sets else grouped}" if self.group else "",
            " HAVING " + " AND ".join(self.having) if self.having else "",
            " QUALIFY " + " AND ".join(self.qualify) if self.qualify else "",
            " ORDER BY " + ", ".join(self.order) if self.order else "",
            self.limit,
        ]
        return "".join(clauses)

    @property
    def ordered(self) -> bool:
        """Whether the order of its rows counts."""
        return bool(self.order)

    def smaller(self) -> Iterator["Query"]:
        """Queries with a little less in them; some of them are none. The last key of an order, which breaks ties, stays."""
        for name in ("where", "having", "qualify", "order", "items", "group"):
            if self.whole_order and name in ("order", "items"):
                continue
            parts = getattr(self, name)
            for at in range(len(parts) - (name == "order")):
                less = parts[:at] + parts[at + 1 :]
                if less or name != "items":
                    yield dataclasses.replace(self, **{name: less})
        for name in ("limit", "sets"):
            if getattr(self, name):
                yield dataclasses.replace(self, **{name: ""})


class Making:
    """Makes queries. `value` gives an expression's value in some row as text, None where it is NULL."""

    def __init__(self, rng: random.Random, value: Callable[[str], str | None]):
        self.rng, self.value_of = rng, value

    # --- expressions

    def column(self, kind: str, name: str) -> str:
        """A column of a kind."""
        # What is known of the designated timestamp is most.
        columns = ["ts", "ts", "u"] if kind == "time" else [column for column, of in COLUMNS.items() if of == kind]
        return f"{{{name}.{self.rng.choice(columns)}}}"

    def expression(self, kind: str, name: str, depth: int = 2) -> str:
        """An expression of a kind over the columns of one table."""
        rng = self.rng
        if depth <= 0 or (kind != "clock" and rng.random() < 0.3):
            return f"CAST({self.column('time', name)} AS TIME)" if kind == "clock" else self.column(kind, name)
        form = rng.choice([*EXPRESSIONS[kind] * 3, *(each.replace("<>", f"<{kind}>") for each in ANY_KIND)])
        return re.sub(r"<(\w+)>", lambda found: self.expression(found[1], name, depth - 1), form)

    def literal(self, kind: str, expression: str) -> str:
        """A value of the expression in some row, as SQL writes it."""
        text = self.value_of(expression)
        if text is None:
            return "NULL"
        if kind in ("integer", "boolean"):
            return text
        types = {**TYPES, "clock": "TIME", "decimal": "DECIMAL(22, 3)"}
        quoted = "'" + text.replace("'", "''") + "'"
        return quoted if kind in ("text", "time", "date") else f"CAST({quoted} AS {types[kind]})"

    # --- conditions

    def condition(self, name: str, depth: int = 1) -> str:
        """A condition over the columns of one table."""
        rng = self.rng
        if depth and rng.random() < 0.35:
            made = [self.condition(name, depth - 1) for _ in range(2)]
            one, other = made
            return rng.choice([f"({one} AND {other})", f"({one} OR {other})", f"NOT ({one})", f"({one}) IS NOT TRUE"])
        kind = rng.choice(KINDS)
        left = self.expression(kind, name)
        compared = left if kind != "boolean" else f"({left})"
        one, other = self.literal(kind, left), self.literal(kind, left)
        return rng.choice(
            [
                *[f"{compared}{rng.choice(COMPARISONS)}{one}"] * 5,
                f"{compared} IN ({one}, {other})",
                f"{compared} IN ({one})",
                f"{compared} NOT IN ({one}, NULL)",
                f"{compared} BETWEEN {one} AND {other}",
                f"{compared} BETWEEN {one} AND {one}",
                f"{compared} IS {rng.choice(['', 'NOT '])}NULL",
                f"{compared}{rng.choice(COMPARISONS)}{self.column(kind, name)}" if kind != "clock" else f"{compared} = {one}",
            ]
        )

    def conditions(self, name: str) -> tuple[str, ...]:
        """What stands in a WHERE."""
        return tuple(self.condition(name) for _ in range(self.rng.choice([0, 1, 1, 2])))

    def key(self, name: str) -> str:
        """What is grouped, joined or parted by."""
        return self.expression(self.rng.choice(KEYS), name, self.rng.choice([1, 1, 2]))

    def ways(self, expressions: Sequence[str]) -> tuple[str, ...]:
        """Each with a direction."""
        rng = self.rng
        return tuple(f"{each} {rng.choice(['ASC', 'DESC'])} NULLS {rng.choice(['FIRST', 'LAST'])}" for each in expressions)

    def limit(self) -> str:
        """How many rows, sometimes."""
        return self.rng.choice(["", f" LIMIT {self.rng.randrange(1, 6)}", f" LIMIT {self.rng.randrange(1, 6)} OFFSET 2"])

    def aggregate(self, name: str) -> str:
        """An aggregate whose value no order of the rows changes."""
        rng = self.rng
        return rng.choice(
            [
                "count(*)", f"count({self.expression('text', name)})", f"count(DISTINCT {self.key(name)})",
                f"{rng.choice(['min', 'max'])}({self.expression(rng.choice(KINDS[:6]), name)})",
                f"sum({self.column('integer', name)})", f"sum(DISTINCT {self.column('integer', name)})",
                f"count(*) FILTER (WHERE {self.condition(name, 0)})",
                f"{rng.choice(['first_value', 'last_value'])}({{{name}.id}} ORDER BY {self.key(name)}, {{{name}.id}})",
                f"bool_or({self.expression('boolean', name)})",
            ]
        )

    # --- queries

    def query(self) -> Query:
        """A query of some shape."""
        shapes = {
            self.selected: 4, self.latest: 2, self.grouped: 6, self.totals: 2, self.distinct: 3, self.first_of_each: 2,
            self.windowed: 5, self.joined: 5, self.nested: 4, self.correlated: 3, self.united: 3, self.sampled: 3,
            self.newest: 2, self.as_of: 4, self.around: 2, self.unnested: 2,
        }
        return self.rng.choices(list(shapes), list(shapes.values()))[0]()

    def selected(self) -> Query:
        """Rows in some order."""
        items = ("{a.id}", *(self.expression(self.rng.choice(KINDS), "a") for _ in range(2)))
        order = self.ways([self.key("a") for _ in range(self.rng.choice([1, 1, 2]))])
        return Query(items, "wide a", self.conditions("a"), order=(*order, "{a.id}"), limit=self.limit())

    def latest(self) -> Query:
        """The last row of those for which a cast has a value."""
        rng = self.rng
        column = rng.choice(["ts", "u", "d", "m", "n", "x"])
        kind, target = COLUMNS[column], f"{{a.{column}}}"
        casts = {
            "time": [("date", "DATE"), ("clock", "TIME")], "double": [("integer", "INT"), ("text", "VARCHAR")],
            "decimal": [("integer", "BIGINT"), ("decimal", "DECIMAL(18, 1)")], "integer": [("boolean", "BOOLEAN"), ("double", "DOUBLE")],
        }
        of, type_ = rng.choice(casts[kind])
        cast = f"TRY_CAST({target} AS {type_})" if kind == "double" else f"CAST({target} AS {type_})"
        one = self.literal(of, cast)
        condition = rng.choice([f"{cast} = {one}", f"{cast} IN ({one})", f"{cast} BETWEEN {one} AND {one}"])
        order = (f"{target} {rng.choice(['ASC', 'DESC'])} NULLS LAST", "{a.id} DESC")
        items = ("{a.id}", f"lag({{a.id}}) OVER (ORDER BY {target}, {{a.id}})") if rng.random() < 0.3 else ("{a.id}", target)
        return Query(items, "wide a", (condition,), order=order, limit=f" LIMIT {rng.randrange(1, 4)}")

    def grouped(self) -> Query:
        """Groups by expressions, in some order."""
        rng = self.rng
        keys = tuple(self.key("a") for _ in range(rng.choice([1, 1, 2])))
        items = (*keys, *(self.aggregate("a") for _ in range(rng.choice([1, 2]))))
        having = (f"count(*){rng.choice([' > ', ' <= '])}{rng.randrange(1, 9)}",) if rng.random() < 0.3 else ()
        if rng.random() < 0.2:
            having = (*having, f"max({self.column('integer', 'a')}) IS NOT NULL")
        sets = rng.choice(["", "", "", "ROLLUP", "CUBE"])
        order = tuple(f"{at + 1} {rng.choice(['ASC', 'DESC'])}" for at in range(len(items))) if rng.random() < 0.5 else ()
        limit = self.limit() if order else ""
        return Query(items, "wide a", self.conditions("a"), keys, having, order=order, limit=limit, sets=sets)

    def totals(self) -> Query:
        """Aggregates of all rows."""
        items = tuple(self.aggregate("a") for _ in range(self.rng.choice([1, 2, 3])))
        return Query(items, "wide a", self.conditions("a"), totals=True)

    def distinct(self) -> Query:
        """Rows, each once."""
        items = tuple(self.key("a") for _ in range(self.rng.choice([1, 2])))
        order = self.ways([str(at + 1) for at in range(len(items))]) if self.rng.random() < 0.6 else ()
        limit = self.limit() if order else ""
        return Query(items, "wide a", self.conditions("a"), order=order, limit=limit, distinct="DISTINCT ")

    def first_of_each(self) -> Query:
        """The first row of each key."""
        key = self.key("a")
        order = (*self.ways([key, self.key("a")]), "{a.id}")
        return Query((key, "{a.id}"), "wide a", self.conditions("a"), order=order, distinct=f"DISTINCT ON ({key}) ")

    def windowed(self) -> Query:
        """Window functions over parts by one expression, in the order of another."""
        rng = self.rng

        def over(frame: str = "") -> str:
            parts = f"PARTITION BY {self.key('a')} " if rng.random() < 0.7 else ""
            return f" OVER ({parts}ORDER BY {', '.join(self.ways([self.key('a')]))}, {{a.id}}{frame})"

        def function() -> str:
            value = self.expression(rng.choice(KINDS), "a", 1)
            frame = rng.choice(["", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", " ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING"])
            return rng.choice(
                [
                    f"lag({value}){over()}", f"lead({value}){over()}", f"row_number(){over()}", f"count({value}){over(frame)}",
                    f"{rng.choice(['min', 'max'])}({self.column('integer', 'a')}){over(frame)}",
                    f"sum({self.column('integer', 'a')}){over(frame)}", f"first_value({value}){over(frame)}",
                    f"rank() OVER (PARTITION BY {self.key('a')} ORDER BY {self.key('a')})",
                    f"count(*) OVER (PARTITION BY {self.key('a')})",
                ]
            )

        items = ("{a.id}", *(function() for _ in range(rng.choice([1, 1, 2]))))
        qualify = (f"row_number(){over()} <= {rng.randrange(1, 4)}",) if rng.random() < 0.3 else ()
        order = (*self.ways([self.key("a")]), "{a.id}") if rng.random() < 0.3 else ()
        limit = self.limit() if order else ""
        return Query(items, "wide a", self.conditions("a"), qualify=qualify, order=order, limit=limit)

    def joined(self) -> Query:
        """Two tables whose rows meet where expressions are equal."""
        rng = self.rng
        kind = rng.choice(KEYS)
        left, right = self.expression(kind, "a"), self.expression(kind, "b")
        on = [f"{left} = {right}"]
        if rng.random() < 0.3:
            on.append(rng.choice([self.condition("a", 0), self.condition("b", 0)]))
        join = rng.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        source = f"wide a {join} small b ON {' AND '.join(on)}"
        where = rng.choice([(), (self.condition("a"),), (self.condition("b"),)])
        if rng.random() < 0.4:
            key = self.key(rng.choice("ab"))
            return Query((key, "count(*)", "max({b.id})"), source, where, (key,))
        order = (*self.ways([self.key(rng.choice("ab"))]), "{a.id}", "{b.id}") if rng.random() < 0.5 else ()
        return Query(("{a.id}", "{b.id}"), source, where, order=order, limit=self.limit() if order else "")

    def nested(self) -> Query:
        """A query of a query, whose columns are expressions."""
        rng = self.rng
        kinds = [rng.choice(KEYS) for _ in range(2)]
        inner = [self.expression(kind, "a") for kind in kinds]
        first = f" ORDER BY {self.ways([self.key('a')])[0]}, {{a.id}} LIMIT {rng.randrange(1, 900)}"
        ordered = first if rng.random() < 0.4 else ""
        where = f" WHERE {self.condition('a')}" if rng.random() < 0.4 else ""
        source = f"(SELECT {{a.id}} AS i, {inner[0]} AS p, {inner[1]} AS q FROM wide a{where}{ordered}) v"
        one = self.literal(kinds[0], inner[0])
        above = rng.choice([(), (f"v.p = {one}",), (f"v.p{rng.choice(COMPARISONS)}{one}",), ("v.q IS NOT NULL",)])
        if rng.random() < 0.5:
            order = ("1", "2") if rng.random() < 0.4 else ()
            limit = self.limit() if order else ""
            return Query(("v.p", "count(*)", "min(v.q)"), source, above, ("v.p",), order=order, limit=limit)
        return Query(("v.i", "v.p"), source, above, order=(*self.ways(["v.q"]), "v.i"), limit=self.limit())

    def correlated(self) -> Query:
        """Queries within a query, that read its rows; blindfolded a join with their groups."""
        rng = self.rng
        kind, column = rng.choice(KEYS), rng.choice(list(COLUMNS))
        outer, inner = self.expression(kind, "a", 1), self.expression(kind, "b", 1)
        also = f" AND {self.condition('b', 0)}" if rng.random() < 0.4 else ""
        within = f"FROM small b WHERE {inner} = {outer}{also}"
        counted = f"SELECT {inner} AS key, count(*) AS n, max({{b.{column}}}) AS m FROM small b WHERE TRUE{also} GROUP BY {inner}"
        source = f"wide a⟦‖ LEFT JOIN ({counted}) g ON g.key = {outer}⟧"
        if rng.random() < 0.4:
            number, greatest = f"(SELECT count(*) {within})", f"(SELECT max({{b.{column}}}) {within})"
            item = rng.choice([f"⟦{number}‖coalesce(g.n, 0)⟧", f"⟦{greatest}‖g.m⟧"])
            return Query(("{a.id}", item), source, self.conditions("a"))
        alone = f"FROM small b WHERE {self.condition('b', 0)}"
        none = f"(SELECT {{b.{column}}} FROM small b WHERE {{b.id}} = {rng.choice([0, -1])})"
        condition = rng.choice(
            [
                f"⟦EXISTS (SELECT 1 {within})‖g.n > 0⟧", f"⟦NOT EXISTS (SELECT 1 {within})‖g.n IS NULL⟧",
                f"⟦(SELECT count(*) {within}) > 1‖g.n > 1⟧", f"⟦(SELECT max({{b.{column}}}) {within}) IS NULL‖g.m IS NULL⟧",
                f"⟦{outer} IN (SELECT {inner} FROM small b WHERE TRUE{also})‖g.n > 0⟧",
                f"{outer} NOT IN (SELECT {inner} {alone})", f"{none} IS NULL", f"coalesce({none}, {none}) IS NOT NULL",
            ]
        )
        return Query(("{a.id}",), source, (condition, *self.conditions("a")))

    def united(self) -> Query:
        """Queries as sets."""
        rng = self.rng
        kinds = [rng.choice(KINDS) for _ in range(rng.choice([1, 2]))]
        sides = []
        for _ in range(2):
            name, table = rng.choice([("a", "wide"), ("b", "small")])
            listed = ", ".join(f"{self.expression(kind, name)} AS c{at}" for at, kind in enumerate(kinds))
            where = f" WHERE {self.condition(name, 0)}" if rng.random() < 0.5 else ""
            sides.append(f"SELECT {listed} FROM {table} {name}{where}")
        word = rng.choice(["UNION", "UNION", "UNION ALL", "EXCEPT", "INTERSECT", "EXCEPT ALL"])
        order = self.ways([f"v.c{at}" for at in range(len(kinds))]) if rng.random() < 0.6 else ()
        items = tuple(f"v.c{at}" for at in range(len(kinds)))
        return Query(items, f"({sides[0]} {word} {sides[1]}) v", order=order, limit=self.limit() if order else "")

    # --- queries of time series, blindfolded in words that are not of time

    def above(self, source: str, kinds: Sequence[str]) -> Query:
        """A query of the query `v` with columns `c0`, `c1`, … of these kinds."""
        rng = self.rng
        columns = tuple(f"v.c{at}" for at in range(len(kinds)))
        where: tuple[str, ...] = ()
        if rng.random() < 0.5:
            at = rng.randrange(len(kinds))
            one = self.literal(kinds[at], self.column(kinds[at], "a"))
            where = (rng.choice([f"{columns[at]}{rng.choice(COMPARISONS)}{one}", f"{columns[at]} IS NOT NULL"]),)
        if rng.random() < 0.25:
            return Query((columns[0], "count(*)", f"count({columns[-1]})"), source, where, (columns[0],))
        distinct = rng.choice(["", "", "DISTINCT "])
        # Rows that are the same in all of them are one row as good as another.
        order = self.ways(rng.sample(columns, len(columns))) if rng.random() < 0.7 else ()
        listed = columns if rng.random() < 0.7 or order else rng.sample(columns, 1)
        limit = self.limit() if order else ""
        return Query(tuple(listed), source, where, order=order, limit=limit, distinct=distinct, whole_order=bool(order))

    def sampled(self) -> Query:
        """Bars; blindfolded the groups of a rounded time."""
        rng = self.rng
        stride, bucket = rng.choice(
            [
                ("1h", "date_trunc('hour', {a.ts})"), ("1d", "date_trunc('day', {a.ts})"), ("1w", "date_trunc('week', {a.ts})"),
                ("1M", "date_trunc('month', {a.ts})"), ("15m", "date_bin(INTERVAL '15 minutes', {a.ts})"),
                ("6h", "date_bin(INTERVAL '6 hours', {a.ts})"),
            ]
        )
        kinds = ["time", "integer", "integer"]
        aggregates = [f"count({self.expression(rng.choice(KINDS), 'a', 1)})", f"max({self.column('integer', 'a')})"]
        key = []
        if rng.random() < 0.6:
            kind = rng.choice(["text", "text", "integer", "date", "double"])
            expression = self.expression(kind, "a", rng.choice([0, 1]))
            # Outside of aggregates the time is that of the bar.
            key, kinds = [expression.replace("{a.ts}", f"⟦{{a.ts}}‖{bucket}⟧")], [*kinds, kind]
        if rng.random() < 0.5:
            # Rows of one time are in order within a series.
            end, value = rng.choice(["first", "last"]), self.column("text", "a")
            key += ["{a.k}", f"⟦{end}({value})‖{end}_value({value} ORDER BY {{a.ts}}, {{a.id}})⟧"]
            kinds += ["text", "text"]
        where = f" WHERE {' AND '.join(self.conditions('a') or ('TRUE',))}"
        listed = ", ".join(f"{item} AS c{at + 1}" for at, item in enumerate([*aggregates, *key]))
        groups = ", ".join([bucket, *(blindfolded(each) for each in key if "_value(" not in each)])
        source = f"(SELECT ⟦{{a.ts}}‖{bucket}⟧ AS c0, {listed} FROM wide a{where} ⟦SAMPLE BY {stride}‖GROUP BY {groups}⟧) v"
        return self.above(source, kinds)

    def newest(self) -> Query:
        """The last row of each key by time; blindfolded the first of its numbered rows."""
        rng = self.rng
        keys = ", ".join(f"{{a.{name}}}" for name in rng.choice([["k"], ["k"], ["s", "k"], ["k", "x"], ["k", "day"]]))
        kinds = ["integer", rng.choice(list(TYPES)), rng.choice(list(TYPES))]
        listed = f"{{a.id}} AS c0, {self.expression(kinds[1], 'a')} AS c1, {self.expression(kinds[2], 'a')} AS c2"
        where = f" WHERE {' AND '.join(self.conditions('a') or ('TRUE',))}"
        number = f"row_number() OVER (PARTITION BY {keys} ORDER BY {{a.ts}} DESC, {{a.id}} DESC)"
        asked = f"SELECT {listed} FROM wide a{where} LATEST ON {{a.ts}} PARTITION BY {keys}"
        numbered = f"SELECT c0, c1, c2 FROM (SELECT {listed}, {number} AS place FROM wide a{where}) z WHERE place = 1"
        return self.above(f"(⟦{asked}‖{numbered}⟧) v", kinds)

    def as_of(self) -> Query:
        """Rows beside the one that stood at their time; blindfolded the first of those at or before it, numbered."""
        rng = self.rng
        # Rows of one time are in order within a series.
        keys = rng.choice([["k"], ["k"], ["k", "s"], ["x", "k"]])
        join, before = rng.choice([("ASOF", "<="), ("ASOF", "<="), ("LT", "<")])
        kind = rng.choice(["", "", "INNER "]) if join == "ASOF" else ""
        equal = " AND ".join(f"{{c.{key}}} = {{d.{key}}}" for key in keys)
        on = " ON " + " AND ".join(f"{{a.{key}}} = {{b.{key}}}" for key in keys)
        within = ""
        if rng.random() < 0.3:
            on, within = f"{on} TOLERANCE 6h", " AND {d.ts} >= {c.ts} - INTERVAL '6 hours'"
        number = "row_number() OVER (PARTITION BY {c.id} ORDER BY {d.ts} DESC, {d.id} DESC)"
        pairs = f"SELECT {{c.id}} AS l, {{d.id}} AS r, {number} AS place FROM wide c JOIN small d ON {equal}"
        pairs = f"SELECT l, r FROM ({pairs} WHERE {{d.ts}} {before} {{c.ts}}{within}) z WHERE place = 1"
        keeps = kind or "LEFT "
        standing = f" {keeps}JOIN ({pairs}) m ON m.l = {{a.id}} {keeps}JOIN small b ON {{b.id}} = m.r"
        source = f"wide a⟦ {join} {kind}JOIN small b{on}‖{standing}⟧"
        where = rng.choice([(), (), (self.condition("a"),), (self.condition("b"),), ("{b.id} IS NULL",)])
        if rng.random() < 0.4:
            group = self.key(rng.choice("ab"))
            return Query((group, "count(*)", "count({b.id})", "max({b.x})"), source, where, (group,))
        item = self.expression(rng.choice(KINDS), rng.choice("ab"))
        order = (*self.ways([self.key(rng.choice("ab"))]), "{a.id}") if rng.random() < 0.5 else ()
        return Query(("{a.id}", "{b.id}", item), source, where, order=order, limit=self.limit() if order else "")

    def around(self) -> Query:
        """Aggregates of what happened around each row; blindfolded groups of a join by a range of times."""
        rng = self.rng
        key = rng.choice(["k", "k", "s"])
        ends = rng.choice([("6h PRECEDING", "- 6", "CURRENT ROW", "+ 0"), ("1h PRECEDING", "- 1", "12h FOLLOWING", "+ 12")])
        condition = self.condition("a") if rng.random() < 0.5 else "TRUE"
        columns = f"{{a.id}} AS c0, count({{b.id}}) AS c1, max({self.column('integer', 'b')}) AS c2"
        equal = f"{{a.{key}}} = {{b.{key}}}"
        asked = f"wide a WINDOW JOIN small b ON {equal} RANGE BETWEEN {ends[0]} AND {ends[2]} EXCLUDE PREVAILING"
        from_, to = (f"{{a.ts}} {of[0]} INTERVAL '{of[2:]} hours'" for of in (ends[1], ends[3]))
        joined = f"wide a LEFT JOIN small b ON {equal} AND {{b.ts}} BETWEEN {from_} AND {to}"
        source = f"(SELECT {columns} FROM ⟦{asked}‖{joined}⟧ WHERE {condition}⟦‖ GROUP BY {{a.id}}⟧) v"
        return self.above(source, ["integer", "integer", "integer"])

    def unnested(self) -> Query:
        """Rows of arrays beside columns, of groups too; blindfolded a join with rows."""
        rng = self.rng
        kind = rng.choice(KEYS[4:])
        key = self.expression(kind, "a", 1)
        where = f" WHERE {self.condition('a')}" if rng.random() < 0.4 else ""
        elements = [rng.randrange(-3, 8) for _ in range(rng.choice([1, 2, 3]))]
        array, rows = ", ".join(map(str, elements)), ", ".join(f"({each})" for each in elements)
        if rng.random() < 0.5:
            group = rng.choice([f"SELECT {key} AS g FROM wide a{where} GROUP BY 1", f"SELECT DISTINCT {key} AS g FROM wide a{where}"])
            asked = f"SELECT g AS c0, unnest([{array}]) AS c1 FROM ({group}) z"
            if "DISTINCT" not in group and rng.random() < 0.5:
                asked = f"SELECT {key} AS c0, unnest([{array}]) AS c1 FROM wide a{where} GROUP BY {key}"
        else:
            group = f"SELECT {key} AS g FROM wide a{where}"
            asked = f"SELECT {key} AS c0, unnest([{array}]) AS c1 FROM wide a{where}"
        source = f"(⟦{asked}‖SELECT g AS c0, w.e AS c1 FROM ({group}) z CROSS JOIN (VALUES {rows}) w(e)⟧) v"
        return self.above(source, [kind, "integer"])
