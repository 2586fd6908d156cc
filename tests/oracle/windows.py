"""Random window functions: several of one query with partitions, orders and frames of their own, QUALIFY.

Left out are frames that Tickstone refuses (EXCLUDE of peers, bounds of other columns).
"""

from collections.abc import Sequence

from groups import Groups
from pieces import TABLES, Pieces, Word, joined, literal

ROWS = [
    "2 PRECEDING AND CURRENT ROW",
    "UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    "1 FOLLOWING AND 3 FOLLOWING",
    "3 PRECEDING AND 1 PRECEDING",
    "CURRENT ROW AND UNBOUNDED FOLLOWING",
    "UNBOUNDED PRECEDING AND 1 PRECEDING",
    "UNBOUNDED PRECEDING AND 1 FOLLOWING",
    "1 PRECEDING AND 1 FOLLOWING",
    "1 FOLLOWING AND UNBOUNDED FOLLOWING",
    "CURRENT ROW AND CURRENT ROW",
    "CURRENT ROW AND 2 FOLLOWING",
]
# Bounds of RANGE by the type of what it goes over.
NEAR = {
    "n": ["1", "2", "9223372036854775806"],
    "i": ["1", "2"],
    "h": ["1", "3"],
    "d": ["1", "1.5"],
    "m": ["1", "2"],
    "r": ["1", "0.5"],
    "ts": ["INTERVAL '2 hours'", "INTERVAL '1 day'"],
    "u": ["INTERVAL '45 minutes'", "INTERVAL '1 day'"],
    "day": ["INTERVAL '1 day'", "INTERVAL '40 days'"],
}
# Keys of partitions.
PARTITIONS = ["k", "d", "n", "f", "day", "k, a.f", "n, a.k", "m", "i"]
EXPRESSIONS = ["n % 2", "n IS NULL", "k IN ('X', 'Y')"]


class Windows(Groups):
    """Makes queries of window functions."""

    def windows(self, kinds: Sequence[str]) -> Pieces:
        """Window functions over one table; ties are broken by its id."""
        rng = self.rng
        listed = [[*self.window(kind), f" AS c{at}"] for at, kind in enumerate(kinds)]
        pieces: Pieces = ["SELECT ", *joined(listed, ", "), f" FROM {rng.choice(TABLES)} a", *self.where(["a"])]
        if rng.random() < 0.2:
            kept = [f"row_number() OVER ({self.partition()}ORDER BY a.id) <= 2", f"count(*) OVER ({self.partition()}) > 1"]
            pieces += [f" QUALIFY {rng.choice(kept)}"]
        return pieces

    def named_windows(self, kinds: Sequence[str]) -> Pieces:
        """Windows that have names."""
        rng = self.rng
        listed = [[*self.closed(self.reduced(kind), f" OVER {rng.choice('wv')}"), f" AS c{at}"] for at, kind in enumerate(kinds)]
        named = [f"{name} AS ({self.partition()}ORDER BY a.{rng.choice(['n', 'd', 's'])}, a.id)" for name in "wv"]
        source: Pieces = [f" FROM {rng.choice(TABLES)} a", *self.where(["a"])]
        return ["SELECT ", *joined(listed, ", "), *source, f" WINDOW {', '.join(named)}"]

    def windows_of_groups(self, kinds: Sequence[str]) -> Pieces:
        """Windows over the rows that groups are."""
        rng = self.rng
        key = rng.choice(["k", "n", "f", "day"])
        choices = [
            f"sum(sum(a.n)) OVER (ORDER BY a.{key} NULLS LAST)",
            f"rank() OVER (ORDER BY count(*) DESC, a.{key} NULLS FIRST)",
            f"lag(max(a.id)) OVER (ORDER BY a.{key} NULLS LAST)",
            "max(count(*)) OVER ()",
            "sum(a.i)",
            f"a.{key}",
        ]
        listed = [f"{rng.choice(choices)} AS c{at}" for at in range(len(kinds))]
        return [f"SELECT {', '.join(listed)} FROM {rng.choice(TABLES)} a", *self.where(["a"]), f" GROUP BY a.{key}"]

    def distinct_on(self, kinds: Sequence[str]) -> Pieces:
        """The first row of each key."""
        rng = self.rng
        keys = rng.choice([["a.k"], ["a.n"], ["a.f", "a.k"], ["a.n % 2"], ["a.m"], ["a.day"]])
        if rng.random() < 0.2 and self.may("DISTINCT ON of doubles"):
            keys = ["a.d"]
        order = ", ".join(f"{key} {rng.choice(['ASC', 'DESC'])} NULLS {rng.choice(['FIRST', 'LAST'])}" for key in keys)
        listed = joined([[*self.first_value(kind), f" AS c{at}"] for at, kind in enumerate(kinds)], ", ")
        return [
            f"SELECT DISTINCT ON ({', '.join(keys)}) ", *listed, f" FROM {rng.choice(TABLES)} a", *self.where(["a"]),
            f" ORDER BY {order}, a.id {rng.choice(['ASC', 'DESC'])}",
        ]

    def first_value(self, kind: str) -> Pieces:
        """What is selected of the first row."""
        if kind in ("double", "real") and not self.may("DISTINCT ON of doubles"):
            return [self.column(kind, ["a"])]
        return self.value(kind, ["a"], 1)

    def partition(self) -> str:
        """PARTITION BY, mostly."""
        keys = [*PARTITIONS, *EXPRESSIONS] if self.may("windows by expressions") else PARTITIONS
        return f"PARTITION BY a.{self.rng.choice(keys)} " if self.rng.random() < 0.6 else ""

    def reduced(self, kind: str) -> Pieces:
        """An aggregate that any frame takes."""
        rng = self.rng
        value = self.value(kind, ["a"], 1)
        choices: list[Pieces] = [[rng.choice(["min(", "max("]), *value, ")"]]
        if kind == "integer":
            choices.append(["sum(", *value, ")"])
        if kind == "decimal":
            # Of 38 digits there, beside one of more places, places are rounded away.
            choices.append(["CAST(sum(", *value, ")"])
        if kind == "integer":
            choices += [["count(", *value, ")"], ["count(*)"], ["count(*) FILTER (WHERE ", *self.condition(["a"], 0), ")"]]
            choices += [["sum(", *value, ") FILTER (WHERE ", *self.condition(["a"], 0), ")"]]
        if kind == "double":
            finite = rng.choice(["a.n", "a.r", "a.i"])
            choices += [["avg(", *self.value("integer", ["a"], 1), ")"], [f"sum(CAST({finite} AS DOUBLE))"]]
            choices.append([f"round({self.spread()}({finite})"])
            choices += [["sum(", *value, ")"], ["avg(", *value, ")"]]
            pair = f"({finite}, {rng.choice(['a.n', 'a.id', 'a.i'])})"
            choices.append([f"round({rng.choice(['covar_pop', 'covar_samp', 'regr_sxx', 'regr_avgy', 'regr_sxy'])}{pair}"])
        return rng.choice(choices)

    def frame(self) -> str:
        """A frame of rows, some without the current one where that is at an end of it."""
        frame = self.rng.choice(ROWS)
        at_an_end = frame.startswith("CURRENT ROW") != frame.endswith("CURRENT ROW")
        choices = ["", " EXCLUDE NO OTHERS", " EXCLUDE CURRENT ROW" if at_an_end else ""]
        return frame + self.rng.choice([*choices, "", ""])

    def beside(self, kind: str, total: str) -> Pieces:
        """What the rows on both sides of the current one make."""
        rng = self.rng
        frames = ["1 PRECEDING AND 1 FOLLOWING", "UNBOUNDED PRECEDING AND 2 FOLLOWING", "3 PRECEDING AND UNBOUNDED FOLLOWING"]
        over = f" OVER ({total} ROWS BETWEEN {rng.choice(frames)} EXCLUDE CURRENT ROW)"
        value = self.value(kind, ["a"], 1)
        choices: list[Pieces] = [[rng.choice(["min(", "max("]), *value, ")", over]]
        if kind == "integer":
            choices += [["count(", *value, ")", over], ["count(*) FILTER (WHERE ", *self.condition(["a"], 0), ")", over]]
        if kind == "double":
            choices.append(["avg(", *self.value("integer", ["a"], 1), ")", over])
        return rng.choice(choices)

    def window(self, kind: str) -> Pieces:
        """A window function that gives this kind."""
        rng = self.rng
        parts = self.partition()
        key = rng.choice(["d", "n", "s", "ts", "u", "day", "m", "r", "i", "h", "f"])
        by_key = f"{parts}ORDER BY a.{key} {rng.choice(['ASC', 'DESC'])} NULLS {rng.choice(['FIRST', 'LAST'])}"
        total = f"{by_key}, a.id"
        value = self.value(kind, ["a"], 1)
        rows = f" OVER ({total} ROWS BETWEEN {self.frame()})"
        framed = rng.choice([f" OVER ({total})", rows, rows, f" OVER ({parts})", self.by_peers(by_key, key)])
        ordered = rng.choice([f" OVER ({total})", rows])
        nulls = rng.choice(["", " IGNORE NULLS"])
        # Which row is the current one where its NULL is passed over, the two see differently.
        offset = rng.choice(["1", "2", "1" if nulls else "0"])
        default = rng.choice([[], [", ", literal(rng, kind)]])
        # DuckDB rounds the default to the digits of the values.
        shifted = ["CAST(", *value, " AS DECIMAL(18, 3))"] if default and kind == "decimal" else value
        choices: list[Pieces] = [
            [rng.choice(["min(", "max("]), *value, ")", framed],
            self.beside(kind, total),
            self.closed(self.reduced(kind), framed),
            self.picked(rng.choice(["first_value", "last_value"]), value, nulls, ordered),
            self.picked("nth_value", [*value, ", ", rng.choice(["1", "2", "3"])], nulls, ordered),
            self.picked(rng.choice(["lag", "lead"]), [*shifted, f", {offset}", *default], nulls, f" OVER ({total})"),
        ]
        if kind == "integer":
            choices += [
                [rng.choice(["rank()", "dense_rank()"]), f" OVER ({by_key})"],
                [f"row_number() OVER ({total})"],
                [f"ntile({rng.randrange(1, 5)}) OVER ({total})"],
                ["(", *self.reduced(kind), framed, " - ", *self.reduced(kind), rows, ")"],
                ["count(DISTINCT ", *value, ")", rng.choice([f" OVER ({parts})", f" OVER ({total})"])],
            ]
        if kind == "double":
            choices += [[rng.choice(["percent_rank()", "cume_dist()"]), f" OVER ({by_key})"]]
            choices += [["median(", *self.value("integer", ["a"], 1), ")", rng.choice([f" OVER ({parts})", rows])]]
        if kind == "boolean":
            over = rng.choice([f" OVER ({parts})", f" OVER ({total})"])
            choices += [[rng.choice(["bool_and(", "bool_or("]), *value, ")", over]]
        return rng.choice(choices)

    @staticmethod
    def closed(aggregate: Pieces, over: str) -> Pieces:
        """An aggregate over a window; one that is rounded or cast is so around it."""
        ends = {"round(": ", 6)", "CAST(": " AS DECIMAL(22, 4))"}
        end = [end for begin, end in ends.items() if str(aggregate[0]).startswith(begin)]
        return [*aggregate, over, *end]

    @staticmethod
    def picked(name: str, inside: Pieces, nulls: str, over: str) -> Pieces:
        """A function that picks a row; where it passes over NULLs is said outside or inside of the brackets."""
        return [f"{name}(", *inside, Word(f"){nulls}", f"{nulls})"), over]

    def by_peers(self, by_key: str, key: str) -> str:
        """A frame by values or groups of equal ones."""
        rng = self.rng
        if key not in NEAR or rng.random() < 0.3:
            return f" OVER ({by_key} GROUPS BETWEEN {rng.choice(ROWS)})"
        near, far = rng.choice(NEAR[key]), rng.choice(NEAR[key])
        if key == "day" and rng.random() < 0.2 and self.may("RANGE of whole days"):
            near = far = "40"
        bounds = [
            f"{near} PRECEDING AND {far} FOLLOWING",
            f"{near} PRECEDING AND CURRENT ROW",
            f"CURRENT ROW AND {far} FOLLOWING",
            f"UNBOUNDED PRECEDING AND {far} FOLLOWING",
            f"{near} PRECEDING AND UNBOUNDED FOLLOWING",
            "CURRENT ROW AND UNBOUNDED FOLLOWING",
        ]
        return f" OVER ({by_key} RANGE BETWEEN {rng.choice(bounds)})"
