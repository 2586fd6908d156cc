"""psql at the PostgreSQL port: scripts, its backslash commands, \\copy, how values are printed, Ctrl-C."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(shutil.which("psql") is None, reason="psql is missing: sh scripts/setup.sh clients")


def test_tables_rows_and_questions(server: Any) -> None:
    script = """
        CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts);
        INSERT INTO trades VALUES
          ('2024-08-08T09:30:05', 'BTC', 61500.5, 2),
          ('2024-08-08T09:30:40', 'BTC', 61503.5, 1),
          ('2024-08-08T09:31:10', 'ETH', 2650.25, 3);
        SELECT time_bucket('1 minute', ts) AS minute, symbol, vwap(price, size) AS vwap
        FROM trades GROUP BY minute, symbol ORDER BY minute, symbol;
        \\dt
    """
    command = ["psql", "-h", "127.0.0.1", "-p", str(server.ports["pg_port"]), "-U", "admin", "-d", "qdb"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, env=ENVIRONMENT, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(PRINTED)
    assert " public | trades | table | " in done.stdout


PRINTED = """\
CREATE TABLE
INSERT 0 3
       minute        | symbol |  vwap   
---------------------+--------+---------
 2024-08-08 09:30:00 | BTC    | 61501.5
 2024-08-08 09:31:00 | ETH    | 2650.25
(2 rows)

"""  # noqa: W291
# No settings of whoever runs the tests, English, and a password for servers that ask.
KEPT = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_", "LANG"))}
ENVIRONMENT = KEPT | {"PGPASSWORD": "quest", "LC_ALL": "C.UTF-8", "PSQLRC": "/dev/null", "PAGER": "cat"}
TRADES = """CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts);
    INSERT INTO trades VALUES ('2024-08-08T09:30:00', 'BTC', 61500.5, 2), ('2024-08-08T09:31:00', 'ETH', 2650.25, NULL)"""


def psql(server: Any, script: str, *flags: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
    command = [
        "psql",
        "-X",
        "-v",
        "ON_ERROR_STOP=1",
        "-h",
        "127.0.0.1",
        "-p",
        str(server.ports["pg_port"]),
        "-U",
        "admin",
    ]
    done = subprocess.run(
        [*command, *flags, "qdb"], input=script, capture_output=True, text=True, env=ENVIRONMENT, timeout=60
    )
    assert (done.returncode != 0) == fails, f"{script}\n{done.stdout}{done.stderr}"
    assert fails or "ERROR" not in done.stderr or "ON_ERROR_STOP 0" in script, f"{script}\n{done.stderr}"
    return done


def rows(server: Any, script: str) -> list[list[str]]:
    """What a command prints, without headers and blanks."""
    return [line.split("|") for line in psql(server, script, "-A", "-t", "-q").stdout.splitlines()]


COMMANDS = [
    "\\conninfo", "\\d", "\\d+", "\\dt", "\\dt+", "\\dt tra*", "\\dt public.*", "\\dv", "\\dv+", "\\di", "\\ds", "\\dm", "\\dE",
    "\\d trades", "\\d+ trades", "\\d public.trades", "\\d seen", "\\d+ seen", "\\d nosuch", "\\l", "\\l+", "\\l qdb",
    "\\df", "\\df vwap", "\\df+ vwap", "\\da", "\\dn", "\\dn+", "\\du", "\\dg", "\\dT", "\\dT+", "\\dx", "\\dp", "\\z trades",
    "\\db", "\\dD", "\\dS trades", "\\dtS", "\\dti", "\\dC", "\\do", "\\dP", "\\drds", "\\dy", "\\des", "\\dRp", "\\dc",
    "\\dl", "\\dL", "\\encoding", "\\timing", "\\set", "\\?", "\\h select", "\\gexec", "\\sv seen",
]  # fmt: skip


def test_every_backslash_command_has_an_answer(server: Any) -> None:
    psql(server, f"{TRADES}; CREATE VIEW seen AS SELECT ts, price FROM trades;")
    failed = []
    for command in COMMANDS:
        done = psql(server, f"\\set ON_ERROR_STOP 0\n{command}\nSELECT 'still there';\n")
        if "ERROR" in done.stderr or "still there" not in done.stdout:
            failed.append(f"{command}: {done.stderr}")
    assert not failed, "\n".join(failed)


def test_what_the_backslash_commands_say(server: Any) -> None:
    psql(server, f"{TRADES}; CREATE VIEW seen AS SELECT ts, price FROM trades;")
    assert [row[:3] for row in rows(server, "\\dt")] == [["public", "trades", "table"]]
    assert [row[:3] for row in rows(server, "\\dv")] == [["public", "seen", "view"]]
    assert [row[:3] for row in rows(server, "\\dt tr?des")] == [["public", "trades", "table"]]
    assert [row[1] for row in rows(server, "\\d")] == ["seen", "trades"]
    found = rows(server, "\\d trades")
    assert found[0] == ["ts", "timestamp without time zone", "", "not null", ""]
    assert found[1][0] == "symbol" and found[1][1] in ("text", "character varying") and found[1][3] == ""
    assert found[2:] == [["price", "double precision", "", "", ""], ["size", "bigint", "", "", ""]]
    assert [row[:2] for row in rows(server, "\\d seen")] == [
        ["ts", "timestamp without time zone"],
        ["price", "double precision"],
    ]
    assert "Did not find any relation" in psql(server, "\\set ON_ERROR_STOP 0\n\\d nosuch").stderr
    assert "qdb" in [row[0] for row in rows(server, "\\l")]
    assert [row[0] for row in rows(server, "\\dn")] == ["public"]
    assert "admin" in [row[0] for row in rows(server, "\\du")]
    assert ["public", "vwap"] in [row[:2] for row in rows(server, "\\df vwap")] or "vwap" in str(
        rows(server, "\\da vwap")
    )
    assert 'connected to database "qdb" as user "admin"' in psql(server, "\\conninfo").stdout


PRINTS = {
    "true": "t",
    "false": "f",
    "NULL": "",
    "CAST(0.1 AS DOUBLE PRECISION)": "0.1",
    "CAST(-1.5e300 AS DOUBLE PRECISION)": "-1.5e+300",
    "CAST(1e15 AS DOUBLE PRECISION)": "1e+15",
    "CAST(123456789012345 AS DOUBLE PRECISION)": "123456789012345",
    "CAST(0.00001 AS DOUBLE PRECISION)": "1e-05",
    "CAST(0.0001 AS DOUBLE PRECISION)": "0.0001",
    "CAST(5 AS DOUBLE PRECISION)": "5",
    "CAST('NaN' AS DOUBLE PRECISION)": "NaN",
    "CAST('-Infinity' AS DOUBLE PRECISION)": "-Infinity",
    "CAST(0.1 AS REAL)": "0.1",
    "CAST(16777216 AS REAL)": "1.6777216e+07",
    "CAST(-9223372036854775807 AS BIGINT)": "-9223372036854775807",
    "CAST('1.50' AS NUMERIC(10, 4))": "1.5000",
    "CAST('-0.001' AS NUMERIC(10, 3))": "-0.001",
    "CAST('2024-08-08T09:30:00' AS TIMESTAMP)": "2024-08-08 09:30:00",
    "CAST('2024-08-08T09:30:00.120' AS TIMESTAMP)": "2024-08-08 09:30:00.12",
    "CAST('1969-12-31T23:59:59.999999' AS TIMESTAMP)": "1969-12-31 23:59:59.999999",
    "CAST('1700-01-01' AS TIMESTAMP)": "1700-01-01 00:00:00",
    "CAST('2024-02-29' AS DATE)": "2024-02-29",
    "CAST('0001-01-01' AS DATE)": "0001-01-01",
    "CAST('09:30:00.5' AS TIME)": "09:30:00.5",
    "INTERVAL '1 day'": "1 day",
    "INTERVAL '90 minutes'": "01:30:00",
    "INTERVAL '-1 day'": "-1 days",
    "CAST('67e55044-10b1-426f-9247-bb680e5fe0c8' AS UUID)": "67e55044-10b1-426f-9247-bb680e5fe0c8",
    "ARRAY[1.5, NULL, 'NaN']::double precision[]": "{1.5,NULL,NaN}",
    "ARRAY['a', '', NULL, 'NULL', 'b c', 'd,e', 'f\"g', 'h\\i', '{}', 'Ω']": '{a,"",NULL,"NULL","b c","d,e","f\\"g","h\\\\i","{}",Ω}',
    "ARRAY[true, false]": "{t,f}",
    "ARRAY[CAST('2024-08-08T09:30:00' AS TIMESTAMP)]": '{"2024-08-08 09:30:00"}',
    "'zwölf 🚀'": "zwölf 🚀",
}  # fmt: skip


def test_values_are_printed_as_postgresql_prints_them(server: Any) -> None:
    script = "".join(f"SELECT {expression};\n" for expression in PRINTS)
    found = psql(server, script, "-A", "-t", "-q").stdout.split("\n")[:-1]
    wrong = [f"{e}: {f!r}, not {w!r}" for (e, w), f in zip(PRINTS.items(), found, strict=True) if f != w]
    assert not wrong, "\n".join(wrong)


def test_bytes_are_printed_in_hexadecimal(server: Any) -> None:
    psql(server, "CREATE TABLE t (ts TIMESTAMP, y BINARY) TIMESTAMP(ts)")
    with_bytes = "\\copy t from stdin\n2024-08-08\t\\\\x00ff\n\\.\nSELECT y FROM t;\n"
    assert psql(server, with_bytes, "-A", "-t", "-q").stdout == "\\x00ff\n"


def test_copy_to_and_from_files_of_the_client(server: Any, tmp_path: Path) -> None:
    psql(
        server, f"{TRADES}; CREATE TABLE again (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size BIGINT) TIMESTAMP(ts);"
    )
    written = {
        "csv header": "ts,symbol,price,size\n2024-08-08 09:30:00,BTC,61500.5,2\n2024-08-08 09:31:00,ETH,2650.25,\n",
        "(format csv, delimiter ';', null 'nil')": "2024-08-08 09:30:00;BTC;61500.5;2\n2024-08-08 09:31:00;ETH;2650.25;nil\n",
        "": "2024-08-08 09:30:00\tBTC\t61500.5\t2\n2024-08-08 09:31:00\tETH\t2650.25\t\\N\n",
        "(format binary)": None,
    }
    for options, wanted in written.items():
        file = tmp_path / "trades"
        script = f"""
            \\copy (SELECT * FROM trades ORDER BY ts) to '{file}' {options}
            TRUNCATE TABLE again;
            \\copy again from '{file}' {options}
            SELECT count(*) FROM (SELECT * FROM trades EXCEPT SELECT * FROM again) AS d;
            SELECT count(*) FROM again;
        """
        assert psql(server, script, "-A", "-t").stdout.split("\n") == [
            "COPY 2",
            "TRUNCATE TABLE",
            "COPY 2",
            "0",
            "2",
            "",
        ]
        assert wanted is None or file.read_text() == wanted
    done = psql(server, "COPY trades (symbol, size) TO STDOUT;\nCOPY (SELECT 1, 'a') TO STDOUT WITH CSV;", "-q")
    assert done.stdout == "BTC\t2\nETH\t\\N\n1,a\n"
    stdin = "COPY trades (ts, size) FROM STDIN;\n2024-08-08 10:00:00\t7\n2024-08-08 10:00:01\t8\n\\.\nSELECT sum(size) FROM trades;"
    assert psql(server, stdin, "-A", "-t", "-q").stdout == "17\n"
    bad = psql(server, "\\copy trades from stdin\n2024-08-08\tBTC\tdear\t1\n\\.\n", fails=True)
    assert "ERROR" in bad.stderr and ("line 1" in bad.stderr or "row 1" in bad.stderr)
    assert rows(server, "SELECT count(*) FROM trades") == [["4"]]


def test_formats_of_psql(server: Any) -> None:
    psql(server, TRADES)
    assert psql(server, "SELECT * FROM trades ORDER BY ts", "--csv").stdout == (
        "ts,symbol,price,size\n2024-08-08 09:30:00,BTC,61500.5,2\n2024-08-08 09:31:00,ETH,2650.25,\n"
    )
    gdesc = rows(server, "SELECT ts, price, size FROM trades \\gdesc")
    assert gdesc == [["ts", "timestamp without time zone"], ["price", "double precision"], ["size", "bigint"]]
    assert rows(server, "SELECT max(size) AS top FROM trades \\gset\n\\echo :top") == [["2"]]
    assert rows(server, "SELECT 'SELECT 42' \\gexec") == [["42"]]
    timed = psql(server, "\\timing on\nSELECT 1;").stdout
    assert "Time: " in timed
    # Numbers stand to the right: psql asks the types of columns for that.
    assert (
        psql(server, "SELECT size, symbol FROM trades WHERE size = 2", "-P", "border=1").stdout.split("\n")[2]
        == "    2 | BTC"
    )
    fetched = rows(server, "\\set FETCH_COUNT 2\nSELECT x FROM generate_series(1, 5) AS s(x);")
    assert fetched == [["1"], ["2"], ["3"], ["4"], ["5"]]


def test_errors(server: Any) -> None:
    psql(server, TRADES)
    shown = psql(server, "SELECT nosuch FROM trades;", fails=True).stderr
    assert "ERROR:  " in shown and "\nLINE 1: SELECT nosuch FROM trades;\n               ^" in shown
    verbose = psql(server, "\\set VERBOSITY verbose\nSELECT * FROM nosuch;", fails=True).stderr
    assert "ERROR:  42P01: " in verbose
    state = psql(
        server,
        "\\set ON_ERROR_STOP 0\nSELECT 1/0;\n\\echo :SQLSTATE :ERROR\nSELECT 1;\n\\echo :ERROR :ROW_COUNT",
        "-q",
        "-t",
    )
    assert "22012 true" in state.stdout and "false 1" in state.stdout
    # -1: the script is one transaction, of which nothing stays.
    insert = "INSERT INTO trades VALUES ('2024-08-08', 'x', 1, 1);"
    psql(server, f"{insert}\nSELECT * FROM nosuch;\n{insert}", "-1", fails=True)
    assert rows(server, "SELECT count(*) FROM trades") == [["2"]]
    psql(server, f"{insert}\n{insert}", "-1")
    assert rows(server, "SELECT count(*) FROM trades") == [["4"]]


def test_a_failed_transaction(server: Any) -> None:
    psql(server, TRADES)
    script = "BEGIN;\nINSERT INTO trades VALUES ('2024-08-08', 'x', 1, 1);\nSELEC;\nSELECT 1;\nCOMMIT;\nSELECT count(*) FROM trades;"
    command = ["psql", "-X", "-A", "-t", "-h", "127.0.0.1", "-p", str(server.ports["pg_port"]), "-U", "admin", "qdb"]
    done = subprocess.run(command, input=script, capture_output=True, text=True, env=ENVIRONMENT, timeout=30)
    assert done.stdout.split("\n") == ["BEGIN", "INSERT 0 1", "ROLLBACK", "2", ""]
    assert done.stderr.count("ERROR:") == 2, "the SELECT is refused too"


def test_ctrl_c(server: Any) -> None:
    endless = (
        "SELECT sum(a.x * b.x) FROM generate_series(1, 1000000) AS a(x) CROSS JOIN generate_series(1, 1000000) AS b(x)"
    )
    command = ["psql", "-X", "-A", "-t", "-h", "127.0.0.1", "-p", str(server.ports["pg_port"]), "-U", "admin", "qdb"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"SELECT 'begun';\n{endless};\n")
        process.stdin.flush()
        assert process.stdout.readline() == "begun\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=10)
    assert "Cancel request sent" in said and "ERROR:" in said and "cancel" in said.split("ERROR:")[1]
