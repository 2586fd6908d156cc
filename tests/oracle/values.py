"""Random expressions and conditions: scalar functions, casts, CASE, comparisons, queries within conditions.

What the two systems mean differently is left out: `sign(NaN)`, `substr` from the end, casts of fractions to whole
numbers (Tickstone cuts off, DuckDB rounds, and reads '2.5' as one), a division by zero (an error here, NULL there: hence `nullif`), text of
times ('T' or a space), an array of NULLs as text (here empty, NULL there), DECIMAL divided and averaged (a DECIMAL here, a DOUBLE there), a number with a point (a DOUBLE
here, a DECIMAL there: beside a DECIMAL it is cast).
"""

import random
from collections.abc import Callable, Sequence

from pieces import COLUMNS, KINDS, TABLES, Pieces, Word, joined, literal
from switches import ON

Choices = list[Callable[[], Pieces]]

# Fields of a time, whole numbers in both systems.
TIME_FIELDS = [
    "year", "quarter", "month", "week", "day", "hour", "minute", "second", "millisecond", "microsecond",
    "dow", "isodow", "doy", "isoyear",
]
DATE_FIELDS = ["year", "quarter", "month", "week", "day", "dow", "isodow", "doy", "isoyear"]
UNITS = ["year", "quarter", "month", "week", "day", "hour", "minute"]
SPANS = ["1 day", "3 hours", "1 month", "90 minutes", "1 month 2 days 3 hours", "1 week"]
DAY_SPANS = ["1 day", "1 month", "2 weeks", "1 year"]
PATTERNS = ["a%", "%b", "%b%", "_", "a_", "%", "", "_b", "%''%", "A%"]
REGEXES = ["a", "^a", "b$", "^[ab]+$", "[A-Z]", "a|7", "^.$", "a.?b"]


class Values:
    """Makes expressions."""

    def __init__(self, rng: random.Random):
        self.rng = rng
        #: What of the switches the statement at hand has.
        self.used: set[str] = set()
        #: Whether a condition may have queries: in WHERE and HAVING.
        self.queries = False
        #: How deep the condition at hand stands within others, NOT, CASE and comparisons.
        self.below = 0
        #: Whether rows of the statement at hand may have one time.
        self.tied = False
        #: Whether it has a string_agg.
        self.strung = False

    def may(self, name: str) -> bool:
        """Whether a switch is on; the statement is known to use it."""
        if name not in ON:
            return False
        self.used.add(name)
        return True

    def column(self, kind: str, names: Sequence[str]) -> str:
        """A column of a kind, of one of the tables."""
        of_kind = [column for column, of in COLUMNS.items() if of == kind]
        return f"{self.rng.choice(names)}.{self.rng.choice(of_kind)}"

    def value(self, kind: str, names: Sequence[str], depth: int = 2) -> Pieces:
        """An expression of a kind."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.5:
            return [self.column(kind, names)]

        def inner(of: str = kind) -> Pieces:
            return self.value(of, names, depth - 1)

        return rng.choice(self.common(kind, names, inner) + getattr(self, f"of_{kind}")(names, inner) * 2)()

    def common(self, kind: str, names: Sequence[str], inner: Callable[..., Pieces]) -> Choices:
        """What there is of every kind."""
        rng = self.rng
        return [
            lambda: ["coalesce(", *inner(), ", ", *inner(), ")"],
            lambda: ["coalesce(", *inner(), ", ", literal(rng, kind), ")"],
            lambda: ["nullif(", *inner(), ", ", *inner(), ")"],
            lambda: ["CASE WHEN ", *self.condition(names, 1), " THEN ", *inner(), " ELSE ", *inner(), " END"],
            lambda: ["CASE ", *inner("double"), " WHEN ", literal(rng, "double"), " THEN ", *inner(), " END"],
            lambda: [
                "CASE ", *inner("integer"), " WHEN ", literal(rng, "integer"), " THEN ", *inner(), " WHEN ", *inner("integer"),
                " THEN ", literal(rng, kind), " ELSE ", *inner(), " END",
            ],
            lambda: ["greatest(", *inner(), ", ", *inner(), ")"],
            lambda: ["least(", *inner(), ", ", *inner(), ", ", *inner(), ")"],
        ]

    def of_time(self, names: Sequence[str], inner: Callable[..., Pieces]) -> Choices:
        rng = self.rng
        return [
            lambda: [f"date_trunc('{rng.choice(UNITS)}', ", *inner(), ")"],
            lambda: ["(", *inner(), f"{rng.choice([' + ', ' - '])}INTERVAL '{rng.choice(SPANS)}')"],
            lambda: ["(", *inner(), " + (", *inner(), " - ", *inner(), "))"],
            lambda: ["CAST(", *inner("date"), " AS TIMESTAMP)"],
            lambda: [
                Word("time_bucket('2h', ", "time_bucket(INTERVAL '2 hours', "), *inner(),
                Word(")", ", TIMESTAMP '1970-01-01 00:00:00')"),
            ],
        ]

    def of_date(self, names: Sequence[str], inner: Callable[..., Pieces]) -> Choices:
        rng = self.rng
        return [
            lambda: ["CAST(", *inner("time"), " AS DATE)"],
            lambda: [f"CAST(date_trunc('{rng.choice(UNITS[:5])}', ", *inner(), ") AS DATE)"],
            lambda: ["CAST((", *inner(), f" {rng.choice('+-')} INTERVAL '{rng.choice(DAY_SPANS)}') AS DATE)"],
            lambda: ["(", *inner(), f" {rng.choice('+-')} {rng.randrange(5)})"],
            lambda: ["CAST(CAST(", *inner(), " AS VARCHAR) AS DATE)"],
        ]

    def of_text(self, names: Sequence[str], inner: Callable[..., Pieces]) -> Choices:
        rng = self.rng
        return [
            lambda: [rng.choice(["upper(", "lower(", "reverse(", "md5(", "trim(", "ltrim(", "rtrim("]), *inner(), ")"],
            lambda: ["concat(", *inner(), ", ", literal(rng, "text"), ", ", *inner("integer"), ")"],
            lambda: ["concat_ws('-', ", *inner(), ", ", *inner(), ")"],
            lambda: ["replace(", *inner(), ", ", rng.choice(["'a', 'bb'", "'b', ''"]), ")"],
            lambda: ["translate(", *inner(), ", 'ab', 'xy')"],
            lambda: ["substr(", *inner(), ", ", rng.choice(["2, 1", "1, 2", "2"]), ")"],
            lambda: ["substring(", *inner(), " FROM 1 FOR 2)"],
            lambda: ["(", *inner(), " || ", *inner(), ")"],
            lambda: [rng.choice(["left(", "right("]), *inner(), rng.choice([", 1)", ", 2)", ", -1)"])],
            lambda: [rng.choice(["lpad(", "rpad("]), *inner(), ", 4, 'xy')"],
            lambda: ["repeat(", *inner(), ", 2)"],
            lambda: ["split_part(", *inner(), ", 'b', ", rng.choice(["1", "2", "-1"]), ")"],
            lambda: [f"trim({rng.choice(['BOTH', 'LEADING', 'TRAILING'])} 'a' FROM ", *inner(), ")"],
            lambda: ["regexp_replace(", *inner(), rng.choice([", 'a', 'x')", ", '[ab]', 'x', 'g')", r", '(a)(b)', '\2\1')"])],
            lambda: ["array_to_string([", *inner(), ", 'z', ", *inner(), "], '/')"],
            lambda: ["array_to_string(array_append(['z', ", *inner(), "], ", *inner(), "), '/')"],
            lambda: ["chr(CAST(65 + abs(", *inner("integer"), " % 26) AS INT))"],
            lambda: ["CAST(", *inner(rng.choice(["integer", "date", "boolean"])), " AS VARCHAR)"],
            # Of as many digits in both: a quotient has others here.
            lambda: ["CAST(CAST(", *inner("decimal"), " AS DECIMAL(30, 4)) AS VARCHAR)"],
            # NaN has capitals here, and zero a sign.
            lambda: ["lower(CAST(", self.column("double", names), " + CAST(0 AS DOUBLE) AS VARCHAR))"],
        ]

    def of_integer(self, names: Sequence[str], inner: Callable[..., Pieces]) -> Choices:
        rng = self.rng
        return [
            lambda: ["(", *inner(), rng.choice([" + ", " - ", " * ", " & ", " | "]), *inner(), ")"],
            lambda: ["(", *inner(), Word(" / ", " // "), "nullif(", *inner(), ", 0))"],
            lambda: ["(", *inner(), " % nullif(", *inner(), ", 0))"],
            lambda: ["abs(", *inner(), ")"],
            lambda: ["(- ", *inner(), ")"],
            lambda: [rng.choice(["gcd(", "lcm("]), *inner(), ", ", literal(rng, "integer"), ")"],
            lambda: ["CAST(", Word("signum(", "sign("), *inner(), ") AS BIGINT)"],
            lambda: ["(abs(", *inner(), rng.choice([") << 2)", ") >> 1)"])],
            lambda: [rng.choice(["length(", "char_length(", "bit_length(", "ascii("]), "concat(", *inner("text"), ", ''))"],
            lambda: ["strpos(", *inner("text"), ", ", literal(rng, "text"), ")"],
            lambda: ["position(", literal(rng, "text"), " IN ", *inner("text"), ")"],
            # DuckDB counts bytes, where these are characters.
            lambda: ["levenshtein(translate(", *inner("text"), ", 'üÜ', 'uU'), 'ab')"],
            lambda: [f"CAST(extract({rng.choice(TIME_FIELDS)} FROM ", *inner("time"), ") AS BIGINT)"],
            lambda: [f"CAST(date_part('{rng.choice(DATE_FIELDS)}', ", *inner("date"), ") AS BIGINT)"],
            lambda: [
                f"extract({rng.choice(['day', 'hour', 'minute'])} FROM (", *inner("time"), " - ", *inner("time"), "))",
            ],
            lambda: [*self.days(), *inner("date"), " - ", *inner("date"), ")"],
            lambda: ["CAST(", *inner("boolean"), " AS BIGINT)"],
            lambda: [f"TRY_CAST({rng.choice(names)}.s AS BIGINT)"],
            lambda: ["TRY_CAST(floor(", self.column("double", names), f") AS {rng.choice(['BIGINT', 'INT', 'SMALLINT'])})"],
            lambda: ["CAST(CAST(", *inner(), " AS VARCHAR) AS BIGINT)"],
            lambda: ["[", *inner(), ", ", *inner(), rng.choice(["][1]", "][2]", "][-1]", "][3]"])],
            lambda: [
                Word("array_length(", "len("), "[", *inner(), ", ", *inner(), f", NULL][{rng.choice(['1:2', '2:3', '2:-1'])}])",
            ],
            lambda: [Word("array_max([", "list_max(["), *inner(), ", ", *inner(), "])"],
        ]

    def days(self) -> Pieces:
        """What stands before a difference of days."""
        return ["("] if self.may("differences of days compared") else ["abs("]

    def of_double(self, names: Sequence[str], inner: Callable[..., Pieces]) -> Choices:
        rng = self.rng
        return [
            lambda: ["(", *inner(), rng.choice([" + ", " - ", " * ", " / "]), *inner(), ")"],
            lambda: ["(", *inner(), rng.choice([" + ", " - ", " * "]), literal(rng, "double"), ")"],
            lambda: [rng.choice(["abs(", "floor(", "ceil(", "round(", "trunc(", "cbrt(", "(- "]), *inner(), ")"],
            lambda: ["round(", *inner(), ", 1)"],
            lambda: ["sqrt(abs(", *inner(), "))"],
            lambda: [rng.choice(["ln(", "log10(", "log2("]), "abs(", *inner(), ") + 1)"],
            lambda: ["power(", *inner(), rng.choice([", 2)", ", 3)"])],
            lambda: [rng.choice(["sin(", "cos(", "atan(", "exp(", "degrees(", "radians("]), *inner("integer"), ")"],
            lambda: ["(", *inner(), " % 2)"],
            lambda: ["CAST(", *inner(rng.choice(["integer", "real", "decimal", "boolean"])), " AS DOUBLE)"],
            lambda: ["TRY_CAST(", *inner("text"), " AS DOUBLE)"],
            lambda: ["extract(epoch FROM (", *inner("time"), " - ", *inner("time"), "))"],
            lambda: ["extract(epoch FROM ", *inner("time"), ")"],
            # Of whole numbers, reals and doubles together.
            lambda: ["coalesce(", *inner(rng.choice(["integer", "real"])), ", ", *inner(), ")"],
            lambda: ["CASE WHEN ", *inner("boolean"), " THEN ", *inner("integer"), " ELSE ", *inner(), " END"],
        ]

    def of_real(self, names: Sequence[str], inner: Callable[..., Pieces]) -> Choices:
        rng = self.rng
        return [
            lambda: ["(", *inner(), rng.choice([" + ", " - ", " * "]), *inner(), ")"],
            lambda: [rng.choice(["abs(", "(- "]), *inner(), ")"],
            lambda: ["CAST(", *inner("integer"), " AS REAL)"],
        ]

    def of_decimal(self, names: Sequence[str], inner: Callable[..., Pieces]) -> Choices:
        rng = self.rng
        return [
            lambda: ["(", *inner(), rng.choice([" + ", " - "]), *inner(), ")"],
            lambda: ["(", self.column("decimal", names), " * ", self.column("decimal", names), ")"],
            lambda: ["(", *inner(), " + ", *inner("integer"), ")"],
            lambda: [rng.choice(["abs(", "(- ", "floor(", "ceil("]), *inner(), ")"],
            lambda: self.rounded(inner()),
            lambda: ["CAST(", *inner(), " AS DECIMAL(20, 4))"],
            lambda: ["CAST(", *inner("integer"), " AS DECIMAL(18, 3))"],
            lambda: ["CAST(", *inner("real"), " AS DECIMAL(18, 2))"],
            lambda: ["coalesce(", *inner(), ", ", *inner("integer"), ")"],
        ]

    def rounded(self, decimal: Pieces) -> Pieces:
        """A DECIMAL of fewer digits."""
        if self.may("round of a DECIMAL"):
            return ["round(", *decimal, self.rng.choice([", 1)", ")"])]
        if self.may("conditions on a DECIMAL cast to fewer digits"):
            return ["CAST(", *decimal, " AS DECIMAL(18, 1))"]
        return ["floor(", *decimal, ")"]

    def of_boolean(self, names: Sequence[str], inner: Callable[..., Pieces]) -> Choices:
        return [lambda: ["(", *self.condition(names, 1), ")"]]

    # --- conditions

    def condition(self, names: Sequence[str], depth: int = 2) -> Pieces:
        """A condition on columns of these tables."""
        rng = self.rng
        if depth and rng.random() < 0.5:
            kind = rng.choice(["AND", "AND", "OR", "OR", "NOT", "IS", "CASE"])
            self.below += kind != "AND"
            left, right = (self.condition(names, depth - 1) for _ in range(2))
            self.below -= kind != "AND"
            if kind == "NOT":
                return ["NOT (", *left, ")"]
            if kind == "IS":
                return ["(", *left, f") IS {rng.choice(['', 'NOT '])}{rng.choice(['TRUE', 'FALSE', 'UNKNOWN'])}"]
            if kind == "CASE":
                return ["CASE WHEN ", *self.simple(names), " THEN ", *left, " ELSE ", *right, " END"]
            return ["(", *left, f" {kind} ", *right, ")"]
        if self.queries and rng.random() < 0.2:
            return self.with_query(names)
        return self.simple(names)

    def simple(self, names: Sequence[str]) -> Pieces:
        """A condition of one comparison."""
        rng = self.rng
        kind = rng.choice(["double", "integer", "integer", "text", "text", "time", "decimal", "date", "boolean", "real"])
        column: Pieces = [self.column(kind, names)] if rng.random() < 0.6 else self.value(kind, names, 1)
        compare = rng.choice([" = ", " <> ", " < ", " <= ", " > ", " >= "])
        between = rng.choice([" BETWEEN ", " BETWEEN ", " NOT BETWEEN "])
        choices: Choices = [
            lambda: [*column, compare, literal(rng, kind)],
            lambda: [*column, compare, literal(rng, kind)],
            lambda: [literal(rng, kind), compare, *column],
            lambda: [*column, compare, self.column(kind, names)],
            lambda: [*column, rng.choice([" IS NULL", " IS NOT NULL"])],
            lambda: [*column, rng.choice([" IS DISTINCT FROM ", " IS NOT DISTINCT FROM "]), self.column(kind, names)],
            lambda: [*column, rng.choice([" IN (", " NOT IN ("]), *self.literals(kind), ")"],
            lambda: [*column, rng.choice([" IN (", " NOT IN ("]), *self.member(kind, names), ", ", literal(rng, kind), ")"],
            lambda: [*column, between, literal(rng, kind), " AND ", *self.value(kind, names, 1)],
            lambda: [*column, between, literal(rng, kind), " AND ", literal(rng, kind)],
            lambda: ["NOT (", *self.condition(names, 0), ")"],
        ]
        return rng.choice(choices + self.conditions_of(kind, column, names))()

    def two_lists(self, names: Sequence[str]) -> Pieces:
        """Two lists about one column, long enough to stay lists: an optimizer makes one of them."""
        rng, kind = self.rng, self.rng.choice(["integer", "text", "text", "date"])
        column, of_null = self.column(kind, names), self.may("lists with nothing in common, of NULL")
        operator = rng.choice([" AND ", " AND ", " OR "])
        # Without either the answer for NULL shows.
        first = rng.choice([" IN (", " NOT IN ("]) if of_null else " IN ("
        second = rng.choice([" IN (", " NOT IN ("]) if of_null or operator == " AND " else " IN ("
        made: Pieces = ["("]
        for at, word in enumerate([first, second]):
            values = joined([[literal(rng, kind)] for _ in range(rng.choice([4, 4, 5]))], ", ")
            made += [operator] if at else []
            made += [column, word, *values, ")"]
        return [*made, ")"]

    def conditions_of(self, kind: str, column: Pieces, names: Sequence[str]) -> Choices:
        """Conditions that only some kinds have."""
        rng = self.rng
        compare = rng.choice([" = ", " < ", " >= "])
        if kind == "text":
            return [
                lambda: [*column, rng.choice([" LIKE ", " NOT LIKE ", " ILIKE ", " NOT ILIKE "]), f"'{rng.choice(PATTERNS)}'"],
                # A backslash escapes here as in PostgreSQL, in DuckDB only where that is said.
                lambda: [*column, r" LIKE 'a\_b' ESCAPE '\'"],
                lambda: self.like_a_column(column, names),
                lambda: [rng.choice(["starts_with(", "ends_with(", "contains("]), *column, ", ", literal(rng, "text"), ")"],
                lambda: [Word("regexp_like(", "regexp_matches("), *column, f", '{rng.choice(REGEXES)}')"],
                lambda: self.similar(column),
            ]
        if kind == "boolean":
            return [
                lambda: column,
                lambda: ["NOT ", *column],
                lambda: [*column, f" IS {rng.choice(['', 'NOT '])}{rng.choice(['TRUE', 'FALSE', 'UNKNOWN'])}"],
            ]
        if kind == "time":
            days = ["1 day", "2 days"] if self.may("lengths of days") else []
            length = rng.choice(["1 hour", "-90 minutes", "30 hours", *days])
            return [
                lambda: [*column, " - ", self.column("time", names), compare, f"INTERVAL '{length}'"],
                lambda: [*column, compare, self.column("date", names)],
                lambda: [*column, compare, rng.choice(["'2024-03-31'", "'2024-03-31 03:00:00'"])],
            ]
        if kind == "integer":
            return [lambda: [*column, compare, self.column(rng.choice(["double", "real", "decimal"]), names)]]
        if kind == "double":
            return [
                lambda: ["isnan(", *column, ")"],
                lambda: [*column, compare, self.column(rng.choice(["integer", "real"]), names)],
            ]
        if kind == "decimal" and self.may("DECIMAL beside DOUBLE"):
            return [lambda: [*column, compare, self.column(rng.choice(["double", "real"]), names)]]
        if kind == "date" and self.may("DATE and hours"):
            return [lambda: [*column, " + INTERVAL '3 hours'", compare, self.column("time", names)]]
        return []

    def like_a_column(self, column: Pieces, names: Sequence[str]) -> Pieces:
        """LIKE a pattern that is not the same for all rows."""
        if self.may("LIKE of two SYMBOLs"):
            return [*column, " LIKE concat(", self.column("text", names), ", '%')"]
        return [f"{self.rng.choice(names)}.s LIKE concat({self.rng.choice(names)}.s, '%')"]

    def similar(self, column: Pieces) -> Pieces:
        """SIMILAR TO a pattern that both systems read alike, or LIKE."""
        if self.may("SIMILAR TO"):
            return [*column, f" SIMILAR TO '{self.rng.choice(['a', 'a|b', '[A-Z]'])}'"]
        return [*column, " LIKE 'a'"]

    def member(self, kind: str, names: Sequence[str]) -> Pieces:
        """What is in a list after IN and no literal."""
        if kind == "decimal" and not self.may("IN of DECIMALs of several scales"):
            return [self.column(kind, names)]
        return self.value(kind, names, 1)

    def literals(self, kind: str) -> Pieces:
        """A list of literals."""
        return joined([[literal(self.rng, kind)] for _ in range(self.rng.randrange(1, 6))], ", ")

    # --- queries within conditions

    def with_query(self, names: Sequence[str]) -> Pieces:
        """A condition with a query in it."""
        rng = self.rng
        queries, self.queries = self.queries, False
        makers = [self.listed_in, self.listed_in, self.exists, self.exists, self.scalar, self.any_or_all, self.rows_in]
        made = rng.choice(makers)(names)
        self.queries = queries
        return made

    def inner(self, kind: str, correlated: Sequence[str] = ()) -> Pieces:
        """A query of one column, perhaps of the rows that are equal to one of the query around it."""
        rng, name = self.rng, self.rng.choice(TABLES)
        conditions = [self.condition(["i"], 0)] if rng.random() < 0.5 else []
        conditions += [self.equal("i", correlated)] if correlated else []
        where = [" WHERE ", *joined(conditions, " AND ")] if conditions else []
        query: Pieces = ["SELECT ", self.column(kind, ["i"]), f" FROM {name} i", *where]
        if not correlated and rng.random() < 0.15:
            other: Pieces = ["SELECT ", self.column(kind, ["j"]), f" FROM {rng.choice(TABLES)} j"]
            return [*query, rng.choice([" UNION ", " UNION ALL ", " EXCEPT ", " INTERSECT "]), *other]
        return query

    def equal(self, inner: str, names: Sequence[str], doubles: bool = True) -> Pieces:
        """Equality of a column of the query within and one of that around it."""
        key, other = self.rng.choice([("n", "n"), ("d", "d"), ("k", "k"), ("i", "n"), ("day", "day"), ("m", "m"), ("f", "f")])
        if key == "d" and not doubles:
            key = other = "n"
        return [f"{inner}.{key} = {self.rng.choice(names)}.{other}"]

    def listed_in(self, names: Sequence[str]) -> Pieces:
        """IN and NOT IN of a query."""
        rng = self.rng
        kind = rng.choice(["double", "integer", "text", "time", "decimal", "date", "boolean"])
        no = rng.random() < 0.5
        if no and self.below and not self.may("NOT IN below OR"):
            no = False
        column: Pieces = [self.column(kind, names)] if rng.random() < 0.7 else self.value(kind, names, 1)
        correlated = names if rng.random() < 0.3 else ()
        if correlated and kind == "time" and not self.may("correlated NOT IN without NULL"):
            correlated = ()
        return [*column, " NOT IN (" if no else " IN (", *self.inner(kind, correlated), ")"]

    def exists(self, names: Sequence[str]) -> Pieces:
        """Whether another table has such a row."""
        rng = self.rng
        no = rng.choice(["", "NOT "])
        conditions = [self.equal("e", names)] if rng.random() < 0.8 else []
        if rng.random() < 0.4 or not conditions:
            conditions.append(self.condition(["e"], 0))
        elif rng.random() < 0.4:
            # Not equality alone.
            conditions.append([f"e.{rng.choice(['n', 'd'])} {rng.choice(['<', '>=', '<>'])} {rng.choice(names)}.n"])
        if rng.random() < 0.2:
            # A query inside that reads both around it.
            further = f"f.{rng.choice(['n', 'i'])} {rng.choice(['=', '<', '>=', '<>'])} {rng.choice(names)}.n"
            inside = [f"EXISTS (SELECT 1 FROM {rng.choice(TABLES)} f WHERE ", *self.equal("f", ["e"]), f" AND {further})"]
            conditions.append([rng.choice(["", "NOT "]), *inside])
        listed = "max(e.n)" if rng.random() < 0.2 and self.may("EXISTS of an aggregate") else "1"
        return [f"{no}EXISTS (SELECT {listed} FROM {rng.choice(TABLES)} e WHERE ", *joined(conditions, " AND "), ")"]

    def scalar(self, names: Sequence[str]) -> Pieces:
        """A comparison with the one value of a query."""
        rng = self.rng
        kind = rng.choice(["integer", "double", "text", "time"])
        return [self.column(kind, names), rng.choice([" = ", " < ", " >= ", " <> "]), *self.scalar_query(kind, names)]

    def scalar_query(self, kind: str, names: Sequence[str]) -> Pieces:
        """A query of one row and column."""
        rng = self.rng
        value = self.column(kind, ["q"])
        aggregate = rng.choice([f"max({value})", f"min({value})"])
        if kind == "integer":
            aggregate = rng.choice([aggregate, "count(*)", f"sum({value})", f"coalesce(max({value}), 0)", "count(*) + 1"])
        conditions = [self.equal("q", names)] if rng.random() < 0.5 else []
        if conditions and rng.random() < 0.2 and self.may("correlated by less"):
            conditions = [[f"q.n < {rng.choice(names)}.n"]]
        if rng.random() < 0.4:
            conditions.append(self.condition(["q"], 0))
        where = [" WHERE ", *joined(conditions, " AND ")] if conditions else []
        return [f"(SELECT {aggregate} FROM {rng.choice(TABLES)} q", *where, ")"]

    def any_or_all(self, names: Sequence[str]) -> Pieces:
        """A comparison with any or all values of a query."""
        rng = self.rng
        kind = rng.choice(["integer", "double", "text", "time", "decimal", "date", "boolean", "real"])
        compare = f"{rng.choice(['=', '<>', '<', '<=', '>', '>='])} {rng.choice(['ANY', 'ALL', 'SOME'])}"
        # `<> ALL` is NOT IN.
        if compare == "<> ALL" and self.below and not self.may("NOT IN below OR"):
            compare = "= ANY"
        correlated = names if rng.random() < 0.3 else ()
        return [self.column(kind, names), f" {compare} (", *self.inner(kind, correlated), ")"]

    def rows_in(self, names: Sequence[str]) -> Pieces:
        """IN and NOT IN of rows of two values; DuckDB refuses correlated ones."""
        rng = self.rng
        kinds = [rng.choice(["double", "integer", "text", "time", "date", "boolean"]) for _ in range(2)]
        no = rng.random() < 0.4 and (not self.below or self.may("NOT IN below OR"))
        row = joined([[self.column(kind, names)] for kind in kinds], ", ")
        listed = ", ".join(f"{self.column(kind, ['i'])} AS v{at}" for at, kind in enumerate(kinds))
        conditions = [" WHERE ", *self.condition(["i"], 0)] if rng.random() < 0.5 else []
        query = [f"SELECT {listed} FROM {rng.choice(TABLES)} i", *conditions]
        return ["(", *row, ") NOT IN (" if no else ") IN (", *query, ")"]

    def where(self, names: Sequence[str]) -> Pieces:
        """A WHERE, mostly."""
        rng, conditions = self.rng, []
        queries, self.queries = self.queries, True
        if rng.random() < 0.7:
            conditions.append(self.condition(names))
        if rng.random() < 0.15:
            conditions.append(self.with_query(names))
        if rng.random() < 0.1 and self.may("two lists"):
            conditions.append(self.two_lists(names))
        self.queries = queries
        return [" WHERE ", *joined(conditions, " AND ")] if conditions else []

    def kind(self) -> str:
        """A kind, by chance."""
        return self.rng.choice([*KINDS, "integer", "double", "text"])
