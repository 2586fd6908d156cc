"""Random expressions of Ibis, asked of Tickstone and of DuckDB: both have to give the same rows.

`TICKSTONE_SEED` says which expressions; what fails prints it. What the two mean otherwise by design is not asked:
casts of doubles to whole numbers, texts of times and of NaN, and what DuckDB refuses.
"""

import datetime
import math
import os
import random
from collections.abc import Iterable
from typing import Any

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pytest

from tickstone.ibis_backend import Backend

SEED = int(os.environ.get("TICKSTONE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
ROUNDS = int(os.environ.get("TICKSTONE_EXAMPLES", "8")) * 15
UNITS = ["Y", "Q", "M", "W", "D", "h", "m", "s", "ms"]
TEXTS = ["", "a", "abc", "ABC", "añb", " x ", "a,b", "it's", "%_", "foo12"]
DOUBLES = [0.0, 1.5, -2.25, 0.1, 1e10, 3.0, math.nan, math.inf, -math.inf]


def table(chance: random.Random, rows: int) -> pa.Table:
    """Rows with NULLs, NaN, empty texts, empty arrays and times around leap days and 1970."""

    def some(make: Any) -> list[Any]:
        return [None if chance.random() < 0.15 else make() for _ in range(rows)]

    def moment() -> datetime.datetime:
        start = chance.choice([datetime.datetime(1969, 12, 31, 23), datetime.datetime(2024, 2, 28), datetime.datetime(2024, 12, 30)])
        return start + datetime.timedelta(microseconds=chance.choice([1, 10**6, 3600 * 10**6]) * chance.randrange(72))

    def whole() -> int:
        return chance.randint(-9, 9)

    return pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "i": pa.array(some(whole), pa.int64()),
            "j": pa.array(some(whole), pa.int32()),
            "f": pa.array(some(lambda: chance.choice(DOUBLES)), pa.float64()),
            "g": pa.array(some(lambda: chance.randint(-40, 40) / 8), pa.float64()),
            "s": pa.array(some(lambda: chance.choice(TEXTS)), pa.string()),
            "u": pa.array(some(lambda: chance.choice("abx")), pa.string()),
            "b": pa.array(some(lambda: chance.random() < 0.5), pa.bool_()),
            "t": pa.array(some(moment), pa.timestamp("us")),
            "w": pa.array(some(moment), pa.timestamp("us")),
            "l": pa.array(some(lambda: [whole() for _ in range(chance.randrange(4))]), pa.list_(pa.int64())),
        }
    )


class Draw:
    """Draws expressions over a table. The same seed draws the same over the table of another backend."""

    def __init__(self, seed: str) -> None:
        self.chance = random.Random(seed)

    def pick(self, *makers: Any) -> Any:
        """What one of some functions makes."""
        return self.chance.choice(makers)()

    def whole(self, t: Any, depth: int = 2) -> Any:
        """A whole number."""
        if depth == 0:
            return self.pick(lambda: t.i, lambda: t.j.cast("int64"), lambda: ibis.literal(self.chance.randint(-3, 3), "int64"))
        a, b, text, time = (lambda: self.whole(t, depth - 1)), (lambda: self.whole(t, depth - 1)), self.text, self.time
        return self.pick(
            lambda: a() + b(), lambda: a() - b(), lambda: -a(), lambda: a() // b().nullif(0), lambda: a() % b().nullif(0),
            lambda: a().abs(), lambda: a().sign().cast("int64"), lambda: ibis.coalesce(a(), b()), lambda: a().fill_null(5),
            lambda: ibis.least(a(), b()), lambda: ibis.greatest(a(), b()), lambda: a() & b(), lambda: a() | b(), lambda: a() ^ b(),
            lambda: a().clip(-2, 2), lambda: self.truth(t, depth - 1).ifelse(a(), b()), lambda: self.truth(t, depth - 1).cast("int64"),
            lambda: text(t, depth - 1).length().cast("int64"), lambda: text(t, depth - 1).find("b").cast("int64"),
            lambda: time(t).year().cast("int64"), lambda: time(t).day_of_week.index().cast("int64"), lambda: time(t).hour().cast("int64"),
            lambda: time(t).week_of_year().cast("int64"), lambda: time(t).millisecond().cast("int64"),
            lambda: time(t).truncate("s").epoch_seconds().cast("int64"), lambda: time(t).delta(time(t), unit=self.chance.choice("YQMDhms")).cast("int64"),
            lambda: t.l.length().cast("int64"), lambda: t.l[self.chance.randint(-2, 2)], lambda: t.l.index(1).cast("int64"),
            lambda: ibis.cases((self.truth(t, 0), a()), (self.truth(t, 0), b())),
        )  # fmt: skip

    def double(self, t: Any, depth: int = 2) -> Any:
        """A double."""
        if depth == 0:
            return self.pick(lambda: t.f, lambda: t.g)
        a, b = (lambda: self.double(t, depth - 1)), (lambda: self.double(t, depth - 1))
        return self.pick(
            lambda: a() + b(), lambda: a() - b(), lambda: a() * b(), lambda: a() / b(), lambda: self.whole(t, depth - 1) / b(),
            lambda: self.whole(t, 1) / self.whole(t, 0), lambda: a().abs(), lambda: -a(), lambda: a().fill_null(1.0), lambda: a().nullif(b()),
            lambda: ibis.greatest(a(), b()), lambda: ibis.least(a(), b()), lambda: self.truth(t, depth - 1).ifelse(a(), b()),
            lambda: a().abs().sqrt(), lambda: t.g.round(1), lambda: t.g.floor().cast("float64"), lambda: t.g.ceil().cast("float64"),
            lambda: self.whole(t, depth - 1).cast("float64"), lambda: a() % b().nullif(0.0), lambda: t.l.means(),
        )  # fmt: skip

    def text(self, t: Any, depth: int = 2) -> Any:
        """A text."""
        if depth == 0:
            return self.pick(lambda: t.s, lambda: t.u, lambda: ibis.literal(self.chance.choice(TEXTS)))
        a, b, n = (lambda: self.text(t, depth - 1)), (lambda: self.text(t, depth - 1)), (lambda: self.chance.randint(0, 3))
        return self.pick(
            lambda: a() + b(), lambda: a().upper(), lambda: a().lower(), lambda: a().strip(), lambda: a().lstrip(), lambda: a().rstrip(),
            lambda: a().reverse(), lambda: a().capitalize(), lambda: a().left(n()), lambda: a().right(n()), lambda: a().substr(n(), n()),
            lambda: a()[n() : n() + 2], lambda: a()[n()], lambda: a().lpad(5, "*"), lambda: a().rpad(5, "ab"), lambda: a().replace("a", "<>"),
            lambda: a().repeat(n()), lambda: a().re_replace("[ab]+", "-"), lambda: a().re_extract(r"(\w)(\d)", n() % 3), lambda: a().nullif(""),
            lambda: a().fill_null("?"), lambda: self.whole(t, depth - 1).cast("string"), lambda: self.truth(t, depth - 1).ifelse(a(), b()),
            lambda: self.time(t).strftime("%Y-%m-%d %H:%M:%S"), lambda: ibis.literal("-").join([a(), b()]), lambda: a().translate("ab", "xy"),
            lambda: self.time(t).date().cast("string"), lambda: a().split(",")[0], lambda: self.time(t).day_of_week.full_name(),
        )  # fmt: skip

    def time(self, t: Any, depth: int = 1) -> Any:
        """An instant."""
        unit = self.chance.choice(UNITS)
        if depth == 0:
            return self.pick(lambda: t.t, lambda: t.w)
        a = self.time(t, depth - 1)
        return self.pick(
            lambda: a, lambda: a.truncate(unit), lambda: a + ibis.interval(self.chance.randint(-5, 5), unit=unit),
            lambda: a - ibis.interval(3, unit=unit), lambda: a + t.j.as_interval(self.chance.choice("YMDhms")),
            lambda: a.bucket(minutes=self.chance.choice([1, 5, 7])), lambda: a.bucket(hours=5, offset=ibis.interval(minutes=9)),
            lambda: a.bucket(days=3), lambda: a.bucket(weeks=1), lambda: a.bucket(months=5), lambda: a.date().cast("timestamp(6)"),
            lambda: ibis.coalesce(a, t.w), lambda: ibis.greatest(a, t.w), lambda: a.date().truncate("M").cast("timestamp(6)"),
        )  # fmt: skip

    def truth(self, t: Any, depth: int = 2) -> Any:
        """True, false or NULL."""
        if depth == 0:
            return self.pick(lambda: t.b, lambda: t.i > t.j, lambda: t.s.isnull())
        a, b = (lambda: self.truth(t, depth - 1)), (lambda: self.truth(t, depth - 1))
        sides = self.pick(lambda: (self.whole, self.whole), lambda: (self.double, self.double), lambda: (self.text, self.text), lambda: (self.time, self.time))
        compared = (sides[0](t, depth - 1), sides[1](t, depth - 1))
        return self.pick(
            lambda: a() & b(), lambda: a() | b(), lambda: ~a(), lambda: a() ^ b(), lambda: compared[0] == compared[1],
            lambda: compared[0] < compared[1], lambda: compared[0] >= compared[1], lambda: compared[0] != compared[1],
            lambda: compared[0].identical_to(compared[1]), lambda: compared[0].isnull(), lambda: compared[0].notnull(),
            lambda: self.whole(t, depth - 1).isin([1, 2]), lambda: self.whole(t, depth - 1).notin([1, 2]), lambda: t.i.between(t.j, 4),
            lambda: self.text(t, depth - 1).contains("a"), lambda: self.text(t, depth - 1).like("%a_"), lambda: t.s.re_search("[0-9]"),
            lambda: self.text(t, depth - 1).startswith("a"), lambda: self.text(t, depth - 1).ilike("A%"), lambda: t.s.endswith(t.u),
            lambda: t.f.isnan(), lambda: t.f.isinf(), lambda: t.l.contains(2), lambda: t.i.isin(t.j), lambda: t.t >= "2024-02-29",
        )  # fmt: skip

    def value(self, t: Any) -> Any:
        """A column of any type."""
        made = self.pick(*(lambda make=make: make(t) for make in (self.whole, self.double, self.text, self.time, self.truth)))
        return made if isinstance(made, ir.Column) else t.i

    def aggregate(self, t: Any) -> Any:
        """One value of many rows."""
        # Ibis writes an OR into DuckDB's FILTER without brackets.
        where = self.chance.choice([None, ibis.coalesce(self.truth(t, 1), False)])
        i, g, s = t.j + self.whole(t, 1), t.g, t.s + self.text(t, 1)
        return self.pick(
            lambda: i.sum(where=where), lambda: i.mean(where=where), lambda: i.min(where=where), lambda: s.max(where=where),
            lambda: i.count(where=where), lambda: s.nunique(where=where), lambda: g.std(where=where), lambda: g.var(how="pop", where=where),
            lambda: g.median(where=where), lambda: i.quantile(0.3, where=where), lambda: t.t.max(where=where), lambda: t.b.any(where=where),
            lambda: t.b.all(where=where), lambda: t.b.sum(where=where), lambda: t.count(where=where), lambda: t.f.max(where=where),
            lambda: i.first(order_by=t.id, where=where), lambda: s.last(order_by=t.id, where=where), lambda: t.s.argmax(t.id, where=where),
            lambda: t.u.group_concat("|", order_by=t.id, where=where), lambda: i.collect(order_by=t.id, where=where), lambda: i.bit_xor(where=where),
        )  # fmt: skip

    def over(self, t: Any) -> Any:
        """A window function."""
        order = [self.chance.choice([t.i, t.g.desc(), t.t, t.s.asc(nulls_first=True)]), t.id]
        group = self.chance.choice([[], ["b"], ["u", "b"]])
        before, after = self.chance.choice([(None, 0), (2, 0), (1, 1), (0, 2), (None, None)])
        frame = ibis.window(group_by=group, order_by=order, preceding=before, following=after)
        ranked = ibis.window(group_by=group, order_by=order)
        return self.pick(
            lambda: t.i.sum().over(frame), lambda: t.g.mean().over(frame), lambda: t.g.min().over(frame), lambda: t.i.count().over(frame),
            lambda: t.s.first(include_null=True).over(frame), lambda: t.i.last(include_null=True).over(frame), lambda: t.g.max().over(frame),
            lambda: t.g.lag(self.chance.randint(1, 2)).over(ranked), lambda: t.s.lead(1, "none").over(ranked), lambda: t.count().over(frame),
            lambda: ibis.row_number().over(ranked), lambda: ibis.rank().over(ranked), lambda: ibis.dense_rank().over(ranked),
            lambda: ibis.ntile(3).over(ranked), lambda: ibis.percent_rank().over(ranked), lambda: ibis.cume_dist().over(ranked),
        )  # fmt: skip

    def query(self, t: Any) -> Any:
        """A query of one of some shapes, whose rows are all different or all counted."""
        shape = self.chance.randrange(8)
        if shape == 0:
            return t.filter(self.truth(t)).select("id", x=self.value(t), y=self.value(t))
        if shape == 1:
            key = self.value(t)
            return t.group_by(k=key).agg(x=self.aggregate(t), n=t.count()).filter(lambda g: g.n > 0)
        if shape == 2:
            return t.agg(x=self.aggregate(t), n=t.count())
        if shape == 3:
            return t.mutate(x=self.over(t)).filter(lambda m: m.x.notnull() | m.b).select("id", "x")
        if shape == 4:
            key = ibis._.k.desc() if self.chance.random() < 0.5 else ibis._.k
            return t.select("id", k=self.value(t), x=self.value(t)).order_by(key, "id").limit(4, offset=1)
        if shape == 5:
            how = self.chance.choice(["inner", "left", "right", "outer", "semi", "anti"])
            other = t.select(k=self.whole(t, 1), rid="id", z="g")
            return t.select("id", k=self.whole(t, 1)).join(other, "k", how=how)
        if shape == 6:
            one, two = t.select(x=self.whole(t)), t.select(x=self.whole(t))
            kind = self.chance.choice(["union", "intersect", "difference"])
            return getattr(one, kind)(two, distinct=True if kind != "union" else self.chance.random() < 0.5)
        return t.select(x=self.text(t), y=self.truth(t)).distinct()


def told(rows: Iterable[Iterable[Any]]) -> list[tuple[str, ...]]:
    """Rows in an order of their own; doubles to 11 digits, as sums may be added up otherwise."""

    def text(value: Any) -> str:
        if isinstance(value, float):
            return f"{0.0 if abs(value) < 1e-11 else value:.11g}"
        return repr(value.to_pydatetime() if hasattr(value, "to_pydatetime") else value)

    return sorted(tuple(map(text, row)) for row in rows)


@pytest.mark.parametrize("rows", [60, 1, 0])
def test_expressions(rows: int) -> None:
    con = Backend().connect()
    given = table(random.Random(f"{SEED} {rows}"), rows)
    ours = con.create_table("t", given)
    duck = duckdb.connect()
    duck.register("t", given)
    theirs = ibis.table(ibis.schema(given.schema), name="t")
    refused = 0
    for round_ in range(ROUNDS):
        seed = f"{SEED} {rows} {round_}"
        expr, other = Draw(seed).query(ours), ibis.duckdb.compile(Draw(seed).query(theirs))
        where = f"TICKSTONE_SEED={SEED} rows={rows} round={round_}\n{con.compile(expr)}\n{other}"
        try:
            wanted = told(duck.execute(other).fetchall())
        except duckdb.Error:
            refused += 1
            continue
        try:
            got = told(row.values() for row in con.to_pyarrow(expr).to_pylist())
        except Exception as error:
            raise AssertionError(f"{where}\n{error}") from error
        differ = [row for row in got if row not in wanted][:5], [row for row in wanted if row not in got][:5]
        assert got == wanted, f"{where}\nours, theirs: {differ}"
    assert refused < ROUNDS // 3, f"TICKSTONE_SEED={SEED}: too few are compared"
    con.disconnect()
