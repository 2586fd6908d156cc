"""Two conditions about one value, of which planning makes one: each spelling in each clause, of values that are NULL too.

The planner takes NOT and CASE apart, works constants out and then makes one list of two, where it took NULL for FALSE:
`day NOT IN (DATE '2024-01-01') OR day NOT IN (DATE '2024-01-02')` was TRUE of a row without a day.
"""

import os
import random

import duckdb
import pytest
import tickstone

SEED = int(os.environ.get("TICKSTONE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
# Questions of each condition, or all of them in the long form.
ASKED = 2 if int(os.environ.get("TICKSTONE_STATEMENTS", "0")) < 1000 else 8

ROWS = """INSERT INTO t VALUES (1, '2024-01-01', 'a', 1.5, 1.5), (2, '2024-03-30', 'b', 2.5, 2.5),
    (7, '2024-04-30', 'z', 'NaN', 9.5), (NULL, NULL, NULL, NULL, NULL)"""

# The values of two lists about a column, written so that they are known at once, and only once they are worked out.
LISTS = {
    "plain": ("n", ("1", "2", "5", "8"), ("3", "4", "6", "9")),
    "worked out": ("n", ("1::BIGINT", "1 + 1", "5"), ("3", "abs(-4)", "6")),
    "dates": ("day", ("DATE '2024-01-01'", "DATE '2024-01-02'"), ("DATE '2024-03-30'", "DATE '2024-03-31'")),
    "texts": ("s", ("'a'", "lower('B')", "'c'"), ("'d'", "'e'", "upper('f')")),
    "doubles": ("x", ("1.5", "2.5", "'NaN'::DOUBLE"), ("4.5", "-0.0", "6.5")),
    "decimals": ("m", ("1.5", "2.5", "3.5"), ("4.5", "5.5", "6.5")),
    "calls": ("n % 5", ("1", "2"), ("3", "4")),
    "the same": ("n", ("1", "2", "5", "8"), ("1", "2", "5", "8")),
}
NULLS = ["", "NULL", "nullif({a1}, {a1})"]

CONDITIONS = [
    "{x} NOT IN {a} OR {x} NOT IN {b}",
    "NOT ({x} IN {a}) OR NOT ({x} IN {b})",
    "NOT ({x} IN {a} AND {x} IN {b})",
    "({x} IN {a}) = false OR ({x} IN {b}) = false",
    "({x} IN {a}) IS NOT TRUE OR {x} IN {b}",
    "CASE WHEN {x} NOT IN {a} THEN true ELSE {x} NOT IN {b} END",
    "{x} NOT IN {a} OR n = 99 OR {x} NOT IN {b}",
    "(n = 99 OR {x} NOT IN {a}) OR ({x} NOT IN {b} OR n = 98)",
    "NOT ({x} IN {a}) OR {x} <> {b1}",
    "{x} <> {a1} OR {x} <> {b1}",
    "{x} NOT IN {a} OR {x} <> {b1}",
    "coalesce({x} IN {a} AND {x} IN {b}, true)",
    "NOT ({x} = {a1} AND {x} = {b1})",
    "NOT ({x} IN {a} AND {x} = {b1})",
    "NOT ({x} BETWEEN {a1} AND {b1} AND {x} IN {b})",
    "{x} NOT IN {a} AND {x} IN {b}",
    "{x} IN {a} AND NOT ({x} IN {b}) AND n < 50",
    "{x} NOT IN {a} AND {x} IN {a}",
    "{x} NOT IN {a} OR {x} IN {a}",
    "{x} IN {a} OR {x} IN {b}",
    "({x} IN {a} OR {x} IN {b}) AND ({x} NOT IN {a} OR {x} NOT IN {b})",
    "{x} > {a1} OR {x} <= {a1}",
    "{x} > {a1} AND {x} < {a1}",
    "{x} = {x} AND {x} IN {a}",
]

QUESTIONS = [
    "SELECT n FROM t WHERE {c} ORDER BY n",
    "SELECT n FROM t WHERE NOT ({c}) ORDER BY n",
    "SELECT n FROM t WHERE ({c}) IS NULL ORDER BY n",
    "SELECT n, {c} AS v FROM t ORDER BY n",
    "SELECT count(*) FROM (SELECT {c} AS v FROM t) AS q WHERE v IS NULL",
    "SELECT n FROM (SELECT n, {x} AS y, NOT ({x} IN {a}) AS v FROM t) AS q WHERE v OR y NOT IN {b} ORDER BY n",
    "SELECT key FROM (SELECT n AS key FROM t) AS a LEFT JOIN t ON key = n AND ({c}) WHERE n IS NULL ORDER BY 1",
    "SELECT count(*) FILTER (WHERE {c}), max(n) FROM t HAVING count(*) > 0",
]


@pytest.fixture(scope="module")
def engines():
    with tickstone.open(":memory:") as db, duckdb.connect() as peer:
        for engine in (db, peer):
            engine.sql("CREATE TABLE t (n BIGINT, day DATE, s VARCHAR, x DOUBLE, m DECIMAL(10, 2))")
            engine.sql(ROWS)
        yield db, peer


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize("kind", LISTS)
def test_two_conditions_about_one_value(engines, kind, null):
    db, peer = engines
    x, *values = LISTS[kind]
    null = null.format(a1=values[0][0])
    first, second = (f"({', '.join([*each, null] if null else each)})" for each in values)
    rng, wrong = random.Random(f"{SEED} {kind} {null}"), []
    for a, b in ((first, second), (second, first)):
        words = {"x": x, "a": a, "b": b, "a1": values[0][0], "b1": values[1][0]}
        for condition in CONDITIONS:
            for question in rng.sample(QUESTIONS, ASKED):
                sql = question.format(c=condition.format(**words), **words)
                answers = [repr(engine.sql(sql).fetchall()) for engine in (peer, db)]
                if answers[0] != answers[1]:
                    wrong.append(f"{answers[1]} for {answers[0]}: {sql}")
    assert not wrong, f"TICKSTONE_SEED={SEED}: {len(wrong)} answers are wrong:\n" + "\n".join(wrong[:20])
