"""Text files as programs of all kinds write them, and files that are none."""

import random
from pathlib import Path
from typing import Any

import pytest

import tickstone

ROWS = [(n, f"né☂{n}", n / 2) for n in range(500)]
CSV = "n,name,x\n" + "".join(f"{n},{name},{x}\n" for n, name, x in ROWS)


def rows(db: tickstone.Database, path: Path) -> list[tuple[Any, ...]]:
    """What an import of the file makes."""
    db.import_file(path, "t")
    return db.sql("SELECT n, name::VARCHAR, x FROM t ORDER BY n").fetchall()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_encodings_and_line_ends(db: tickstone.Database, tmp_path: Path, encoding: str, ending: str) -> None:
    path = tmp_path / "t.csv"
    text = CSV.replace("\n", ending)
    # Without a mark UTF-16 is known by the zeros of a text of ASCII.
    if encoding in ("utf-16-le", "utf-16-be"):
        text = text.replace("é☂", "-")
    path.write_bytes(text.encode(encoding))
    wanted = [(n, name.replace("é☂", "-") if "-" in text else name, x) for n, name, x in ROWS]
    assert rows(db, path) == wanted


def test_utf_32_is_refused_by_name(db: tickstone.Database, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(CSV.encode("utf-32"))
    with pytest.raises(tickstone.Error, match="is UTF-32, which is not read") as caught:
        db.import_file(path, "t")
    assert caught.value.kind == "fix request"


@pytest.mark.parametrize("size", [1 << 20, 3 << 20])
@pytest.mark.parametrize("header", [True, False])
def test_a_first_record_past_a_megabyte(db: tickstone.Database, tmp_path: Path, size: int, header: bool) -> None:
    long = "x" * size
    path = tmp_path / "t.csv"
    path.write_text(("n,name\n" if header else "") + f"1,{long}\n2,short\n")
    db.import_file(path, "t")
    first = db.table("t").columns[0]
    assert db.sql(f"SELECT * FROM t ORDER BY {first}").fetchall() == [(1, long), (2, "short")]


def test_a_line_in_single_quotes(db: tickstone.Database, tmp_path: Path) -> None:
    path = tmp_path / "t.ndjson"
    for text in ("{'n': 1}\n", "'{\"n\": 1}'\n", '{"n": \'a\'}\n'):
        path.write_text(text)
        with pytest.raises(tickstone.Error, match="line 1") as caught:
            db.import_file(path, "t")
        assert "double quotes" in str(caught.value) or "begin with '{'" in str(caught.value)
    assert db.tables() == []


@pytest.mark.parametrize("at", [0, 57, 100])
@pytest.mark.parametrize("ending", ["csv", "ndjson"])
def test_numbers_and_one_word(db: tickstone.Database, tmp_path: Path, at: int, ending: str) -> None:
    values = [str(n) for n in range(100)]
    values.insert(at, "abc")
    path = tmp_path / f"t.{ending}"
    if ending == "csv":
        path.write_text("k,n\n" + "".join(f"1,{value}\n" for value in values))
    else:
        path.write_text("".join(f'{{"k": 1, "n": "{value}"}}\n' for value in values))
    line = at + 1 + (ending == "csv")
    with pytest.raises(tickstone.Error, match=rf"line {line}, column 2 'n': 'abc' is not a BIGINT") as caught:
        db.import_file(path, "t")
    assert "VARCHAR" in (caught.value.hint or "")
    assert db.import_file(path, "t", types={"n": "VARCHAR"}).rows == 101


@pytest.mark.parametrize("ending", ["arrow", "parquet"])
def test_files_that_are_cut_or_flipped(db: tickstone.Database, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    db.export("SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t(n, s)", path)
    whole = path.read_bytes()
    for length in {*range(0, len(whole) - 1, max(len(whole) // 40, 1)), len(whole) - 1}:
        path.write_bytes(whole[:length])
        try:
            db.import_file(path, "t")
        except tickstone.Error as error:
            assert error.kind == "fix request", error
        else:
            db.sql("DROP TABLE t")


MISTAKES = [
    "SELECT s ~ '[' FROM t",
    "SELECT s ~ s FROM t",
    "SELECT 'a' ~ '(?P<'",
    "SELECT regexp_replace(s, '[', '') FROM t",
    "SELECT regexp_match(s, '*') FROM t",
    "SELECT regexp_count(s, '(') FROM t",
    "SELECT array_resize([1], -1, 1)",
    "SELECT array_slice([1, 2, 3], 1, 2, 0)",
    "SELECT chr(-1)",
    "SELECT chr(1114112)",
    "SELECT factorial(-1)",
    "SELECT factorial(30)",
    "SELECT nth_value(s, 0) OVER (ORDER BY s) FROM t",
    "SELECT to_timestamp('nonsense')",
    "SELECT to_date('nonsense')",
    "SELECT CAST('x' AS INT)",
    "SELECT CAST(300 AS TINYINT)",
    "SELECT 1 / 0",
    "SELECT date_trunc('nonsense', now())",
    "SELECT date_part('nonsense', now())",
    "SELECT encode('a', 'nonsense')",
    "SELECT decode('zz', 'hex')",
    "SELECT repeat('a', -1) || to_hex('x')",
    "SELECT power('a', 2)",
    "SELECT array_element('a', 1)",
    "SELECT sum(s) FROM t",
    "SELECT array_sum(['a'])",
    "SELECT now() ~ 'a'",
    "SELECT gcd(1.5, 2)",
    "SELECT overlay('abc' PLACING 'x' FROM -5)",
    "SELECT range(1, 5, 0)",
    "SELECT generate_series(1, 10, 0)",
    "SELECT approx_percentile_cont(n, 2.0) FROM t",
]


@pytest.mark.parametrize("sql", MISTAKES)
def test_a_users_mistake_is_no_defect(db: tickstone.Database, sql: str) -> None:
    db.sql("CREATE TABLE t (n BIGINT, s VARCHAR)")
    db.sql("INSERT INTO t VALUES (1, '['), (2, 'a')")
    try:
        db.sql(sql).fetchall()
    except tickstone.Error as error:
        assert error.kind == "fix request", error
        words = ("Int64", "Int32", "Utf8", "Float64", "PrimitiveArray", "StringArray", "Timestamp(")
        assert not any(word in str(error) for word in words), error


def test_a_name_of_an_arrow_type_that_is_none_is_no_defect(db: tickstone.Database) -> None:
    """`arrow_cast` takes Arrow's names of types, so that its message has them."""
    with pytest.raises(tickstone.Error, match="Nonsense") as raised:
        db.sql("SELECT arrow_cast(1, 'Nonsense')").fetchall()
    assert raised.value.kind == "fix request"


def test_random_calls_are_no_defects(db: tickstone.Database) -> None:
    """Every scalar function with arguments of all types: wrong ones are the user's mistake."""
    names = [row[0] for row in db.sql("SHOW FUNCTIONS").fetchall() if str(row[0]).isidentifier()]
    arguments = ["NULL", "-1", "0", "9223372036854775807", "1.5", "'a'", "'['", "''", "[1]", "now()", "true", "x'00'"]
    seed = random.randrange(1 << 32)
    chosen = random.Random(seed)
    for _ in range(400):
        call = f"{chosen.choice(names)}({', '.join(chosen.choices(arguments, k=chosen.randrange(4)))})"
        # A length of nearly any size is what they may be asked for.
        if "9223372036854775807" in call and call.startswith(("repeat", "lpad", "rpad", "range", "generate", "array_r")):
            continue
        try:
            db.sql(f"SELECT {call}").fetchall()
        except tickstone.Error as error:
            assert error.kind != "report", (seed, call, error)
        except OverflowError:
            pass
