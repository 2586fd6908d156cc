"""What users of DuckDB type, asked of both: the same text, the same answer, over values that differ in every run.

`TICKSTONE_SEED` says which values; what fails prints it. Where the two differ by design it is not asked here but told
in docs/coming-from/duckdb.md.
"""

import math
import os
import random
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
import tickstone

SEED = int(os.environ.get("TICKSTONE_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
ROWS = 400

# Of each row: asked as `SELECT id, form FROM t ORDER BY id`.
OF_ROWS = """
sign(x)
sign(n)
isinf(x)
isfinite(x)
isnan(x)
bit_count(n)
if(n > 3, 'more', s)
ifnull(x, 1.5)
n // 3
-n // 3
x // 4
n ** 2
-n ** 2
2 * n ^ 2
~n
xor(n, 5)
mod(n, 7)
ceiling(x)
len(s)
len(s) + len('añb')
strlen(s)
prefix(s, 'a')
suffix(s, 'a')
ucase(s)
string_split(s, 'a')
regexp_extract(s, '[a-c]+')
regexp_extract(s, '([a-c])([d-z]*)', 2)
regexp_extract_all(s, '[a-c]')
regexp_matches(s, '^a')
regexp_full_match(s, '[a-m]*')
string_split_regex(s, '[ae]')
ord('ñ' || s)
split('abc', ''), string_split(s, 'an')
year(ts), month(ts), day(ts), hour(ts), minute(ts), second(ts), quarter(ts)
week(ts), weekofyear(ts), dayofweek(ts), weekday(ts), isodow(ts), dayofyear(ts), dayofmonth(ts)
isoyear(ts), yearweek(ts), century(ts), decade(ts), millennium(ts), era(ts)
date_part('isodow', ts), date_part('decade', ts), date_part('century', ts), extract(millennium FROM ts)
extract(isoyear FROM ts), date_part('dayofweek', ts), date_part('weekofyear', ts)
date_trunc('decade', ts)
date_trunc('century', ts)
date_trunc('isoyear', ts)
date_trunc('quarter', ts), date_trunc('week', ts)
dayname(ts)
monthname(ts)
last_day(ts)
epoch_ns(ts)
epoch_ms(n)
epoch(ts)
make_timestamp(2000 + n, 2, 3, 4, 5, 6.25)
make_timestamp(n * 1000000)
strftime(ts, '%Y-%m-%d %H:%M:%S.%f')
strftime(ts, '%a %A %b %B %d %j %p %I %y %U %W %w %u %V %G %-d %-m %g %n')
strftime('%x %X', ts)
strptime(strftime(ts, '%d/%m/%Y %H:%M:%S'), '%d/%m/%Y %H:%M:%S')
strptime(strftime(ts, '%Y%m%d'), '%Y%m%d')
try_strptime(s, '%Y')
date_diff('year', ts, later), date_diff('quarter', ts, later), date_diff('month', ts, later)
date_diff('day', ts, later), date_diff('hour', ts, later)
datediff('minute', ts, later), date_diff('second', ts, later), date_diff('millisecond', ts, later)
date_diff('decade', ts, later), date_diff('century', ts, later)
date_diff('day', later, ts), date_diff('month', later, ts)
date_sub('year', ts, later), date_sub('quarter', ts, later), date_sub('month', ts, later)
date_sub('week', ts, later), date_sub('day', ts, later), date_sub('hour', later, ts)
date_sub('month', later, ts)
ts + n * INTERVAL '1 hour'
ts + INTERVAL '1 month' * n
ts + to_days(n)
ts - to_hours(n)
date_add(ts, INTERVAL '3 days')
json_extract(j, '$.a')
json_extract(j, '$.l[1]')
json_extract(j, '/l/0')
json_extract(j, 'a')
json_extract(j, '$.l[#-1]')
j -> '$.o'
j ->> '$.t'
j ->> '$.o.k' = '1'
json_extract_string(j, '$.t')
json_array_length(j, '$.l'), json_array_length(j)
json_keys(j)
json_type(j, '$.a'), json_type(j, '$.t'), json_type(j, '$.l'), json_type(j, '$.o'), json_type(j, '$.no')
json_valid(j), json_valid(s)
json_exists(j, '$.o.k')
x BETWEEN 1 AND 2
typeof(j), typeof(ts IS NULL), typeof(x), typeof(n)
""".strip().splitlines()

# Of groups: asked as `SELECT s, form FROM t GROUP BY s ORDER BY s`, and of all rows.
OF_GROUPS = """
coalesce(count_if(x > 1), 0)
coalesce(countif(n > 3), 0)
sum(x > 1)
product(n + 0.5)
mad(n)
quantile_disc(n, 0.3)
quantile_disc(n, 0), quantile_disc(n, 1)
quantile_disc(later, 0.5)
quantile_disc(j, 0.5)
entropy(n)
histogram(n)
sem(n)
favg(n)
fsum(n)
geomean(n + 1)
bool_and(n > 0), bool_or(n > 3)
variance(n)
list(n ORDER BY n, id)
listagg(j, ',' ORDER BY id)
group_concat(j, '-' ORDER BY id)
argmax(id, id), argmin(id, id)
count_star()
coalesce(count_if(x > 1) FILTER (WHERE n > 2), 0)
""".strip().splitlines()

# Whole statements.
STATEMENTS = """
FROM t WHERE n > 3 ORDER BY id
FROM t ORDER BY id LIMIT 5
FROM t SELECT id, n WHERE n > 2 ORDER BY id
SELECT * FROM (FROM t WHERE n > 3) ORDER BY id
WITH w AS (FROM t WHERE n > 2) FROM w ORDER BY id
WITH w AS (SELECT id FROM t) FROM w WHERE id < 5 ORDER BY id
SELECT id, n FROM t ORDER BY ALL
SELECT s, sum(n) AS total FROM t GROUP BY ALL ORDER BY ALL DESC NULLS LAST
SELECT id, n * 2 AS d, d + 1 AS e, e * d AS f FROM t ORDER BY id
SELECT id, n * 2 AS d FROM t WHERE d > 6 ORDER BY id
SELECT id, n * 2 AS n, n + 1 AS e FROM t ORDER BY id
SELECT n % 3 AS g, count(*) AS c, c * 2 AS twice FROM t WHERE g > 0 GROUP BY g HAVING c > 1 ORDER BY g
SELECT upper(s) AS u, u || '!' AS k FROM t WHERE u > 'B' ORDER BY id
SELECT * RENAME (n AS number, x AS price) FROM t ORDER BY id
SELECT * EXCLUDE (j) RENAME (n AS number) FROM t ORDER BY id
SELECT t.* RENAME (n AS number) FROM t ORDER BY id
SELECT COLUMNS('^[nx]$') FROM t ORDER BY id
SELECT COLUMNS(['id', 'n']) FROM t ORDER BY 1
SELECT COLUMNS(* EXCLUDE (j, x)) FROM t ORDER BY id
SELECT id, COLUMNS('n|x') + 1 FROM t ORDER BY id
SELECT min(COLUMNS(['id', 'n'])), max(n) FROM t
SELECT id, n, FROM t ORDER BY id
SELECT s, sum(n), FROM t GROUP BY s, ORDER BY s
SELECT id FROM t SEMI JOIN (SELECT 3 AS n) o USING (n) ORDER BY id
SELECT id FROM t ANTI JOIN (SELECT 3 AS n) o USING (n) ORDER BY id
SELECT id FROM t ORDER BY id FETCH FIRST 3 ROWS ONLY
SELECT v.a, v.b FROM (VALUES (1, 'x'), (2, 'y')) v(a, b) ORDER BY 1
SELECT count(*) FROM t WHERE ts < 'infinity'::TIMESTAMP AND ts > '-infinity'::TIMESTAMP
SELECT id, coalesce(count_if(n > 2) OVER (PARTITION BY s ORDER BY id), 0) FROM t ORDER BY id
SELECT DISTINCT year(ts) AS y FROM t ORDER BY y
SELECT year(ts), month(ts), count(*) FROM t GROUP BY year(ts), month(ts) ORDER BY year(ts), month(ts)
SELECT struct_pack(a := n, b := s).a FROM t ORDER BY id
SELECT {'a': n, 'b': s}.b FROM t ORDER BY id
SELECT n FROM t WHERE n ** 2 > 4 AND NOT isnan(x) ORDER BY id
SELECT id FROM t WHERE x > 1 OR if(n > 2, true, false) ORDER BY id
INSERT INTO k BY NAME SELECT s AS c, n AS b, ts FROM t
FROM k ORDER BY ts, b, c
""".strip().splitlines()


def rows(rng: random.Random) -> pa.Table:
    base, day = 1_700_000_000_000_000_000, 86_400_000_000_000
    times = sorted(base + rng.randrange(-9_000 * day, 9_000 * day) // 1_000 * 1_000 for _ in range(ROWS))
    # DuckDB's parts of a TIMESTAMP_NS are rounded, ours are cut off: what is asked of parts has whole milliseconds.
    times = [ns // 1_000_000 * 1_000_000 for ns in times]
    later = [ns + rng.choice([1, 30, 366, 900]) * rng.randrange(day) // 1_000_000 * 1_000_000 for ns in times]
    doubles = [None, 0.0, math.inf, -math.inf, math.nan]
    json = [
        lambda: '{"a": 1, "l": [1, 2, "x"], "o": {"k": 1}, "t": "é\\n\\"q\\""}',
        lambda: '{"a": null, "l": [], "t": null, "o": {}}',
        lambda: "[1, {\"a\": 2}]",
        lambda: f'{{"a": {rng.randrange(-5, 5)}, "o": {{"k": {rng.randrange(3)}}}}}',
        lambda: None,
    ]
    instant = pa.timestamp("ns")
    return pa.table(
        {
            "ts": pa.array(times, instant),
            "id": pa.array(range(ROWS), pa.int64()),
            "n": pa.array([rng.choice([None, *range(8)]) for _ in range(ROWS)], pa.int64()),
            "x": pa.array([rng.choice([*doubles, rng.uniform(-3, 3)]) for _ in range(ROWS)], pa.float64()),
            "s": pa.array([rng.choice([None, "", "abc", "banana", "éa", "zz top"]) for _ in range(ROWS)]),
            "j": pa.array([rng.choice(json)() for _ in range(ROWS)], pa.string()),
            "later": pa.array(later, instant),
        }
    )


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[tickstone.Database, duckdb.DuckDBPyConnection]]:
    table = rows(random.Random(SEED))
    duck = duckdb.connect()
    duck.register("arrow_rows", table)
    # Microseconds are what DuckDB's functions of instants take.
    columns = "ts::TIMESTAMP AS ts, id, n, x, s, j, later::TIMESTAMP AS later"
    duck.sql(f"CREATE TABLE t AS SELECT {columns} FROM arrow_rows")
    duck.sql("CREATE TABLE k (ts TIMESTAMP, b BIGINT, c VARCHAR)")
    with tickstone.open(Path(tmp_path_factory.mktemp("forms")) / "d") as database:
        database.sql(
            "CREATE TABLE t (ts TIMESTAMP, id BIGINT, n BIGINT, x DOUBLE, s SYMBOL, j VARCHAR, later TIMESTAMP) "
            "TIMESTAMP(ts) PARTITION BY YEAR"
        )
        database.append("t", table)
        database.sql("CREATE TABLE k (ts TIMESTAMP, b BIGINT, c VARCHAR) TIMESTAMP(ts) PARTITION BY YEAR")
        yield database, duck
    duck.close()


def plain(value: object) -> object:
    """A value as both systems can give it."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, dict):
        return [plain(inner) for inner in value.values()]
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if hasattr(value, "as_tuple") or isinstance(value, (int, float)):
        number = float(value)  # type: ignore[arg-type]
        return "NaN" if math.isnan(number) else number
    return value


def answer(table: pa.Table) -> list[list[object]]:
    columns = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
            column = column.cast(pa.timestamp("ns")).cast(pa.int64())
        columns.append([plain(value) for value in column.to_pylist()])
    return [list(row) for row in zip(*columns, strict=True)]


def near(a: object, b: object) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(near(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)
    return a == b


def compare(both: tuple[tickstone.Database, duckdb.DuckDBPyConnection], sql: str) -> None:
    ours, theirs = both
    expected = theirs.execute(sql).to_arrow_table()
    found = ours.sql(sql)
    if sql.startswith("INSERT"):
        return
    found = found.arrow()
    a, b = answer(found), answer(expected)
    assert len(a) == len(b), f"seed {SEED}: {sql}: {len(a)} rows, {len(b)} of DuckDB's"
    for mine, other in zip(a, b, strict=True):
        assert near(mine, other), f"TICKSTONE_SEED={SEED}: {sql}\n{mine}\n{other} (DuckDB)"


@pytest.mark.parametrize("form", OF_ROWS)
def test_of_rows(both, form: str) -> None:
    compare(both, f"SELECT id, {form} FROM t ORDER BY id")


@pytest.mark.parametrize("form", OF_GROUPS)
def test_of_groups(both, form: str) -> None:
    compare(both, f"SELECT s, {form} FROM t GROUP BY s ORDER BY s")
    compare(both, f"SELECT {form} FROM t")
    compare(both, f"SELECT {form} FROM t WHERE id < 0")


@pytest.mark.parametrize("sql", STATEMENTS)
def test_statements(both, sql: str) -> None:
    compare(both, sql)


def test_names_are_those_that_were_typed(both) -> None:
    ours, _ = both
    names = ours.sql("SELECT year(ts), count_if(n > 2), n ^ 2, if(n > 2, 1, 0) AS f, n * 2 AS d, d + 1 FROM t "
                     "GROUP BY ts, n LIMIT 1").arrow().column_names
    assert names == ["year(ts)", "count_if(n > 2)", "n ^ 2", "f", "d", "d + 1"]


def test_summarize(both) -> None:
    ours, theirs = both
    ours = ours.sql("SUMMARIZE SELECT id, n, s FROM t").arrow().to_pylist()
    theirs = theirs.execute("SUMMARIZE SELECT id, n, s FROM t").to_arrow_table().to_pylist()
    for mine, other in zip(ours, theirs, strict=True):
        assert mine["column"] == other["column_name"]
        assert (mine["min"], mine["max"], mine["count"]) == (other["min"], other["max"], other["count"])
        assert near(mine["null_percentage"], float(other["null_percentage"])) or abs(
            mine["null_percentage"] - float(other["null_percentage"])
        ) < 0.01
        for name in ("avg", "std"):
            assert (mine[name] is None) == (other[name] is None)
            assert mine[name] is None or math.isclose(mine[name], float(other[name]), rel_tol=1e-6)
