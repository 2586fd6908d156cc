"""Random expressions and aggregates of DECIMALs against exact fractions: the right digits, or an error that says why.

What is drawn: the types of the columns, numbers of few and of all digits, operators, how they are nested, whether a cast
stands around them, which aggregate of which rows. `TICKSTONE_SEED` repeats a run.
"""

import os
import random
from fractions import Fraction

SEED = int(os.environ.get("TICKSTONE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
EXPRESSIONS = int(os.environ.get("TICKSTONE_STATEMENTS", "800")) // 8
MOST_DIGITS = 38


class Type:
    """DECIMAL(precision, scale)."""

    def __init__(self, precision: int, scale: int):
        self.precision, self.scale = min(precision, MOST_DIGITS), scale

    @property
    def whole(self) -> int:
        """Digits before the point."""
        return self.precision - self.scale

    def holds(self, value: Fraction) -> bool:
        """Whether a value has no more digits than the type."""
        return abs(value * 10**self.scale) < 10**self.precision

    def rounded(self, value: Fraction) -> Fraction:
        """The nearest value of the type's scale, halves away from zero."""
        units = abs(value) * 10**self.scale
        nearest = Fraction((2 * units.numerator + units.denominator) // (2 * units.denominator), 10**self.scale)
        return -nearest if value < 0 else nearest

    def written(self, value: Fraction) -> str:
        """A value of the type, as it is shown."""
        units = int(value * 10**self.scale)
        digits = str(abs(units)).rjust(self.scale + 1, "0")
        point = f"{digits[: -self.scale]}.{digits[-self.scale :]}" if self.scale else digits
        return f"-{point}" if units < 0 else point

    def __str__(self) -> str:
        return f"DECIMAL({self.precision},{self.scale})"


def result_of(operator: str, left: Type, right: Type) -> Type:
    """The type of an operator's result."""
    scale = max(left.scale, right.scale)
    match operator:
        case "+" | "-":
            return Type(scale + max(left.whole, right.whole) + 1, scale)
        case "*":
            return Type(left.precision + right.precision + 1, left.scale + right.scale)
        case "/":
            scale = min(left.scale + 4, MOST_DIGITS)
            return Type(left.precision + scale - left.scale + right.scale, scale)
        case _:
            return Type(scale + min(left.whole, right.whole), scale)


def computed(operator: str, left: Fraction, right: Fraction, result: Type) -> Fraction | None:
    """The exact result, a quotient rounded; None where there is none."""
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _ if right == 0:
            return None
        case "/":
            return result.rounded(left / right)
        case _:
            rest = abs(left) % abs(right)
            return -rest if left < 0 else rest


def a_type(rng: random.Random) -> Type:
    precision = rng.choice([4, 9, 18, 20, 38, 38, rng.randint(1, MOST_DIGITS)])
    return Type(precision, rng.choice([0, min(precision, 2), min(precision, 8), rng.randint(0, min(precision, 18))]))


def a_value(rng: random.Random, of: Type) -> Fraction:
    digits = rng.choice([1, of.precision, rng.randint(1, of.precision), min(of.precision, of.scale + 3)])
    return Fraction(rng.choice([-1, 1]) * rng.randrange(10**digits), 10**of.scale)


def literal(value: Fraction, of: Type) -> str:
    return f"'{of.written(value)}'::{of}"


def a_written_number(rng: random.Random) -> tuple[Fraction, Type]:
    """A number that the text says, of more digits than a double tells apart, and the type it then is of."""
    digits = rng.randint(16, MOST_DIGITS)
    of = Type(digits, rng.randint(1, min(digits, 18)))
    return Fraction(rng.choice([-1, 1]) * rng.randrange(10 ** (digits - 1), 10**digits), 10**of.scale), of


def an_expression(rng: random.Random) -> tuple[str, str]:
    """An expression, and what is to be found: its digits, or the beginning of an error."""
    types = [a_type(rng) for _ in range(rng.choice([2, 2, 3]))]
    values = [a_value(rng, of) for of in types]
    text, value, of = literal(values[0], types[0]), values[0], types[0]
    for other, beside in zip(values[1:], types[1:]):
        operator = rng.choice("+-*/%")
        written = None
        if rng.random() < 0.3:
            other, beside = a_written_number(rng)
            written = beside.written(other)
        if operator == "*" and of.scale + beside.scale > MOST_DIGITS:
            operator = "+"
        result = result_of(operator, of, beside)
        found = computed(operator, value, other, result)
        sides = [text, written or literal(other, beside)]
        if written and operator in "+*" and rng.random() < 0.5:
            sides.reverse()
        text = f"({f' {operator} '.join(sides)})"
        if found is None:
            return text, "by zero"
        value, of = found, result
    if rng.random() < 0.3:
        to = Type(MOST_DIGITS, rng.randint(0, of.scale))
        text, value, of = f"CAST({text} AS {to})", to.rounded(value), to
    return text, of.written(value) if of.holds(value) else "DECIMAL("


def test_operators_are_exact_or_refuse(tickstone):
    rng = random.Random(SEED)
    wrong = []
    for _ in range(EXPRESSIONS):
        text, expected = an_expression(rng)
        done = tickstone.run("sql", "--format", "csv", "-q", "-c", f"SELECT {text} AS x", check=False)
        found = done.stdout.split()[-1] if done.returncode == 0 else done.stderr
        if found != expected and not (done.returncode != 0 and not expected[-1].isdigit() and expected in found):
            wrong.append((text, expected, found))
    assert not wrong, f"TICKSTONE_SEED={SEED}: {wrong[:5]}"


def test_numbers_of_many_digits_stay_themselves_as_one_of_several_values(tickstone):
    rng = random.Random(SEED)
    forms = [
        "CASE WHEN x IS NULL THEN x ELSE {} END",
        "CASE WHEN x IS NOT NULL THEN {} WHEN x IS NULL THEN x END",
        "coalesce(nullif(x, x), {})",
        "ifnull(nullif(x, x), {})",
        "greatest(nullif(x, x), {}, -999999)",
        "least({}, nullif(x, x), 999999)",
    ]
    for _ in range(EXPRESSIONS // 10):
        places = rng.randint(1, 18)
        of = Type(MOST_DIGITS, 18)
        value = Fraction(rng.choice([-1, 1]) * rng.randrange(10**15, 10 ** min(16 + places, 20)), 10**places)
        number, form = Type(MOST_DIGITS, places).written(value), rng.choice(forms)
        if "99999" in form and abs(value) >= 999999:
            continue
        x = f"(SELECT 1::{of} AS x)"
        assert tickstone.value(f"SELECT {form.format(number)} FROM {x}") == of.written(value), (SEED, form, number)
        # Beside what is no DECIMAL it is the nearest double, as anywhere.
        for other in ("DOUBLE", "BIGINT"):
            found = tickstone.query(f"SELECT v, arrow_typeof(v) AS t FROM (SELECT {form.format(number)} AS v FROM (SELECT 1::{other} AS x))")
            assert found == [{"v": tickstone.value(f"SELECT {number}"), "t": "Float64"}], (SEED, form, number, other)
        assert tickstone.value(f"SELECT 3::BIGINT + {number} = 3 + ({number})::DOUBLE") == "true", (SEED, number)


def test_sums_and_averages_are_exact(tickstone):
    rng = random.Random(SEED)
    for round_ in range(4):
        of, size = Type(rng.choice([9, 18, 28, 38]), rng.choice([0, 2, 8])), Type(18, 8)
        few = Type(min(of.precision, 28), of.scale)
        rows = [(rng.randrange(5), a_value(rng, few), abs(a_value(rng, size))) for _ in range(60)]
        made = ", ".join(
            f"('2024-01-01'::TIMESTAMP + {at} * INTERVAL '1 second', {group}, {literal(x, of)}, {literal(w, size)})"
            for at, (group, x, w) in enumerate(rows)
        )
        table = f"t{round_}"
        columns = f"ts TIMESTAMP, g INT, x {of}, w {size}"
        tickstone.run("sql", "-c", f"CREATE TABLE {table} ({columns}) TIMESTAMP(ts); INSERT INTO {table} VALUES {made}")
        mean = Type(of.precision + 4, of.scale + 4)

        def average(values: list[Fraction], mean: Type = mean) -> str:
            return mean.written(mean.rounded(sum(values, Fraction(0)) / len(values)))

        by_group = {group: [row[1] for row in rows if row[0] == group] for group in {row[0] for row in rows}}
        expected = [
            {"g": str(g), "a": average(xs), "d": average(list(set(xs))), "s": of.written(sum(xs, Fraction(0)))}
            for g, xs in sorted(by_group.items())
        ]
        asked = f"SELECT g, avg(x) AS a, avg(DISTINCT x) AS d, sum(x) AS s FROM {table} GROUP BY g ORDER BY g"
        assert tickstone.query(asked) == expected, SEED
        expected = [{"a": average([row[1] for row in rows[at : at + 7]])} for at in range(0, 60, 7)]
        assert tickstone.query(f"SELECT avg(x) AS a FROM {table} SAMPLE BY 7s ALIGN TO FIRST OBSERVATION") == expected, SEED
        expected = [{"a": average([row[1] for row in rows[max(0, at - 4) : at + 1]])} for at in range(60)]
        frame = "ORDER BY ts ROWS 4 PRECEDING"
        assert tickstone.query(f"SELECT avg(x) OVER ({frame}) AS a FROM {table} ORDER BY ts") == expected, SEED
        if of.scale + size.scale + 4 <= MOST_DIGITS:
            weights = sum(row[2] for row in rows)
            products = sum(row[1] * row[2] for row in rows)
            share = Type(MOST_DIGITS, of.scale + size.scale + 4)
            if weights and share.holds(products / weights) and Type(MOST_DIGITS, of.scale + size.scale).holds(products):
                found = tickstone.value(f"SELECT sum(x * w) / sum(w) FROM {table}")
                assert found == share.written(share.rounded(products / weights)), SEED
