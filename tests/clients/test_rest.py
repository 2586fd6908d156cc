"""REST: QuestDB's clients and paths, rows as Arrow, Parquet and NDJSON in the libraries that read them, uploads, and the
description at /openapi.json against what the server answers."""

import io
import json
import urllib.parse
from typing import Any

import jsonschema
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.json
import pyarrow.parquet
import pytest
import requests
from openapi_spec_validator import validate
from questdb_rest import QuestDBAPIError, QuestDBClient

TIMEOUT_S = 60
ROWS = 50_000


def url(server: Any, path: str, port: str = "http_port") -> str:
    return f"http://127.0.0.1:{server.ports[port]}{path}"


@pytest.fixture
def filled(server: Any) -> Any:
    """A server with a table of every kind of column."""
    columns = "ts TIMESTAMP, s SYMBOL, x DOUBLE, n BIGINT, note VARCHAR, up BOOLEAN, l DOUBLE[], d DECIMAL(9,2)"
    server.ask("/exec", query=f"CREATE TABLE t ({columns}) TIMESTAMP(ts) PARTITION BY DAY")
    rows = "to_timestamp(value), 'S' || (value % 7), value / 8.0, value, 'note \"' || value || '\"', value % 2 = 0"
    rows += ", [value, 0.5], 1.25"
    done = server.ask("/exec", query=f"INSERT INTO t SELECT {rows} FROM range(0, {ROWS})")
    assert done == {"dml": "OK", "updated": ROWS}
    return server


def check_table(table: pa.Table) -> None:
    assert table.num_rows == ROWS
    frame = table.select(["s", "x", "n", "up", "note"]).to_pandas().sort_values("n")
    assert frame["n"].sum() == ROWS * (ROWS - 1) // 2
    assert (frame["x"] * 8 == frame["n"]).all()
    assert (frame["s"].astype(str) == "S" + (frame["n"] % 7).astype(str)).all()
    assert (frame["note"] == 'note "' + frame["n"].astype(str) + '"').all()
    assert (frame["up"] == (frame["n"] % 2 == 0)).all()


def test_rows_that_an_insert_returns(server: Any) -> None:
    server.ask("/exec", query="CREATE TABLE returned (ts TIMESTAMP, n BIGINT) TIMESTAMP(ts)")
    answer = server.ask("/exec", query="INSERT INTO returned VALUES ('2024-01-01', 1), ('2024-01-02', 2) RETURNING n")
    assert answer["dataset"] == [[1], [2]] and answer["count"] == 2
    assert server.rows("SELECT count(*) FROM returned") == [[2]]
    assert "error" in server.ask("/exec", query="INSERT INTO returned VALUES ('2024-01-03', 0) RETURNING 1 / n")
    assert server.rows("SELECT count(*) FROM returned") == [[2]]


def test_rows_as_arrow(filled: Any) -> None:
    request = {"query": "SELECT * FROM t WHERE n >= $1", "params": [0]}
    headers = {"Accept": "application/vnd.apache.arrow.stream"}
    with requests.post(url(filled, "/query"), json=request, headers=headers, stream=True, timeout=TIMEOUT_S) as answer:
        assert answer.headers["Content-Type"] == headers["Accept"]
        table = pa.ipc.open_stream(answer.raw).read_all()
    check_table(table)
    assert table.schema.field("ts").type == pa.timestamp("ns")
    assert pa.types.is_dictionary(table.schema.field("s").type)
    assert table.schema.field("l").type.value_type == pa.float64()
    answer = requests.get(url(filled, "/exp"), {"query": "SELECT * FROM t", "fmt": "arrow"}, timeout=TIMEOUT_S)
    assert pl.read_ipc_stream(io.BytesIO(answer.content)).height == ROWS


def test_rows_as_parquet(filled: Any) -> None:
    answer = requests.get(url(filled, "/exp"), {"query": "SELECT * FROM t", "fmt": "parquet"}, timeout=TIMEOUT_S)
    assert answer.headers["Content-Disposition"] == 'attachment; filename="questdb-query.parquet"'
    check_table(pa.parquet.read_table(io.BytesIO(answer.content)))
    assert pl.read_parquet(io.BytesIO(answer.content)).height == ROWS


def test_rows_as_text(filled: Any) -> None:
    query = {"query": "SELECT * FROM t"}
    lines = requests.get(url(filled, "/query"), query, timeout=TIMEOUT_S).content
    check_table(pa.json.read_json(io.BytesIO(lines)))
    first = json.loads(lines.split(b"\n", 1)[0])
    assert first["ts"] == "1970-01-01T00:00:00.000000000Z" and first["l"] == [0.0, 0.5] and first["d"] == "1.25"
    answer = requests.get(url(filled, "/exp"), query, timeout=TIMEOUT_S).content
    check_table(pa.csv.read_csv(io.BytesIO(answer), parse_options=pa.csv.ParseOptions(newlines_in_values=True)))
    assert pd.read_csv(io.BytesIO(answer))["n"].sum() == ROWS * (ROWS - 1) // 2
    exec_rows = requests.get(url(filled, "/exec"), {**query, "limit": "101,103"}, timeout=TIMEOUT_S).json()
    assert [row[3] for row in exec_rows["dataset"]] == [100, 101, 102]


def test_questdbs_client(server: Any) -> None:
    client = QuestDBClient(host="127.0.0.1", port=server.ports["http_port"])
    assert client.exec("CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE) TIMESTAMP(ts)") == {"ddl": "OK"}
    assert client.table_exists("trades") and not client.table_exists("others")
    file = b"ts,symbol,price\n2024-08-08T09:30:00Z,BTC,1.5\n2024-08-08T09:30:01Z,ETH,2.5\n"
    done = client.imp(data_file_obj=io.BytesIO(file), data_file_name="x.csv", table_name="trades", fmt="json")
    assert done.json()["rowsImported"] == 2
    schema = '[{"name": "price", "type": "INT"}, {"name": "ts", "type": "TIMESTAMP", "pattern": "yyyy-MM-ddTHH:mm:ssZ"}]'
    report = client.imp(
        data_file_obj=io.BytesIO(file),
        data_file_name="made.csv",
        schema_json_str=schema,
        partition_by="MONTH",
        timestamp_col="ts",
        overwrite=True,
        atomicity="skipRow",
        delimiter=",",
        force_header=True,
        skip_lev=False,
        fmt="json",
        o3_max_lag="1s",
        max_uncommitted_rows=1000,
        create_table=True,
    ).json()
    assert (report["location"], report["partitionBy"], report["rowsRejected"]) == ("made", "MONTH", 2)
    answer = client.exec("SELECT * FROM trades ORDER BY ts", limit="1,10", count=True, timings=True, quote_large_num=True)
    assert [column["type"] for column in answer["columns"]] == ["TIMESTAMP_NS", "SYMBOL", "DOUBLE"]
    assert answer["dataset"][1] == ["2024-08-08T09:30:01.000000000Z", "ETH", 2.5] and answer["count"] == 2
    assert client.exp("SELECT symbol FROM trades ORDER BY ts", limit="1", nm=True).text == "BTC\r\n"
    with pytest.raises(QuestDBAPIError, match="table 'others' does not exist"):
        client.exec("SELECT * FROM others")
    with pytest.raises(QuestDBAPIError, match="Import failed - .*a column 'side' that table 'trades' does not have"):
        client.imp(data_file_obj=io.BytesIO(b"ts,side\n2024-01-01,b\n"), data_file_name="x", table_name="trades", fmt="json")


def test_a_frame_there_and_back(server: Any) -> None:
    times = pd.date_range("2024-01-01", periods=5_000, freq="s").astype("datetime64[ns]")
    frame = pd.DataFrame({"ts": times, "symbol": pd.Categorical(["a", "b"] * 2_500), "price": [0.1 * n for n in range(5_000)]})
    table = pa.Table.from_pandas(frame)
    parquet, stream = io.BytesIO(), io.BytesIO()
    pa.parquet.write_table(table, parquet)
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    for name, body in [("parquet", parquet), ("arrow", stream)]:
        words = {"name": name, "timestamp": "ts", "fmt": "json"}
        report = requests.post(url(server, "/imp"), params=words, data=body.getvalue(), timeout=TIMEOUT_S).json()
        assert (report["rowsImported"], report["timestamp"]) == (5_000, "ts"), report
        back = requests.get(url(server, "/exp"), {"query": f"SELECT * FROM {name} ORDER BY ts", "fmt": "arrow"}, timeout=TIMEOUT_S)
        found = pa.ipc.open_stream(back.content).read_pandas()
        assert (found["ts"] == frame["ts"]).all() and (found["price"] == frame["price"]).all()
        assert (found["symbol"].astype(str) == frame["symbol"].astype(str)).all()


# What is asked of each path, with the status that must come: method, path, words, body, headers.
QUERY, LINES, CSV = {"query": "SELECT 1 AS x"}, b"t,s=a x=1.5 1\n", b"a,b\n1,x\n"
ASKED: list[tuple[int, str, str, dict[str, str], bytes | None, dict[str, str]]] = [
    (200, "get", "/exec", {**QUERY, "timings": "true"}, None, {}),
    (200, "get", "/exec", {"query": "SELECT [[1.5], NULL] AS a, NULL AS b"}, None, {}),
    (200, "get", "/exec", {**QUERY, "nm": "true", "count": "true", "limit": "1,", "explain": "true"}, None, {}),
    (200, "post", "/exec", {}, b'{"query": "CREATE TABLE made (a INT)"}', {"Content-Type": "application/json"}),
    (200, "post", "/exec", {}, b"query=INSERT+INTO+made+VALUES+(1)", {"Content-Type": "application/x-www-form-urlencoded"}),
    (400, "get", "/exec", {"query": "SELECT oops"}, None, {}),
    (400, "get", "/exec", {**QUERY, "limit": "x"}, None, {}),
    (403, "get", "/exec", QUERY, None, {"Origin": "http://evil.example"}),
    (413, "post", "/exec", {}, b" " * 2_000_000, {}),
    (415, "post", "/exec", {}, b"x", {"Content-Type": "multipart/form-data"}),
    (200, "get", "/query", QUERY, None, {}),
    (200, "get", "/query", QUERY, None, {"Accept": "text/csv"}),
    (200, "post", "/query", {}, b"SELECT 1 AS x", {"Accept": "application/vnd.apache.arrow.stream"}),
    (200, "post", "/query", {}, b"CREATE TABLE made_too (a INT)", {}),
    (400, "get", "/query", {"query": "SELECT oops"}, None, {}),
    (406, "get", "/query", QUERY, None, {"Accept": "image/png"}),
    (200, "get", "/exp", QUERY, None, {}),
    (200, "get", "/exp", {**QUERY, "fmt": "parquet"}, None, {}),
    (200, "get", "/exp", {**QUERY, "fmt": "ndjson"}, None, {}),
    (200, "post", "/exp", {"fmt": "arrow"}, b"SELECT 1 AS x", {}),
    (400, "get", "/exp", {**QUERY, "fmt": "xml"}, None, {}),
    (200, "post", "/imp", {"name": "imported", "fmt": "json"}, CSV, {}),
    (200, "post", "/imp", {"name": "imported"}, CSV, {}),
    (200, "post", "/imp", {"name": "imported", "fmt": "json"}, b"a,b\nx,y,z\n", {}),
    (400, "post", "/imp", {"name": "imported", "fmt": "json"}, b"c\n1\n", {}),
    (400, "post", "/imp", {}, CSV, {}),
    (413, "post", "/imp", {"name": "imported", "fmt": "json"}, b"1,2\n" * 500_000, {}),
    (415, "post", "/imp", {"name": "imported", "fmt": "json"}, CSV, {"Content-Encoding": "br"}),
    (200, "get", "/chk", {"f": "json", "j": "imported"}, None, {}),
    (200, "get", "/chk", {"j": "others"}, None, {}),
    (400, "get", "/chk", {}, None, {}),
    (204, "post", "/write", {"precision": "ms"}, LINES, {}),
    (400, "post", "/write", {}, b"t x=oops 1\n", {}),
    (204, "post", "/api/v2/write", {}, LINES, {}),
    (413, "post", "/api/v2/write", {}, LINES * 200_000, {}),
    (204, "post", "/api/v3/write_lp", {}, LINES, {}),
    (400, "post", "/api/v3/write_lp", {"accept_partial": "true"}, LINES + b"t x=oops 1\n", {}),
    (400, "post", "/api/v3/write_lp", {}, LINES + b"t x=oops 1\n", {}),
    (400, "get", "/api/v2/query", {}, None, {}),
    (400, "post", "/api/v2/query", {}, b"{}", {}),
    (400, "get", "/api/v3/query_influxql", {}, None, {}),
    (400, "post", "/api/v3/query_influxql", {}, b"{}", {}),
    # Without a WebSocket; test_qwp.py and test_subscribe.py have one.
    *((400, "get", path, {}, None, {}) for path in ["/write/v4", "/api/v4/write", "/read/v1", "/api/v1/read", "/subscribe"]),
    # tests/clients/test_mcp.py has its client.
    (200, "post", "/mcp", {}, b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}', {"Content-Type": "application/json"}),
    (202, "post", "/mcp", {}, b'{"jsonrpc": "2.0", "method": "x"}', {"Content-Type": "application/json"}),
    (400, "post", "/mcp", {}, b"oops", {"Content-Type": "application/json"}),
    (406, "post", "/mcp", {}, b"{}", {"Content-Type": "application/json", "Accept": "text/html"}),
    (413, "post", "/mcp", {}, b" " * 2_000_000, {"Content-Type": "application/json"}),
    (415, "post", "/mcp", {}, b"{}", {}),
    (405, "get", "/mcp", {}, None, {}),
    (405, "delete", "/mcp", {}, None, {}),
    (200, "get", "/settings", {}, None, {}),
    (204, "get", "/ping", {}, None, {}),
    (204, "head", "/ping", {}, None, {}),
    (200, "get", "/health", {}, None, {}),
    (200, "get", "/ready", {}, None, {}),
    (200, "get", "/metrics", {}, None, {}),
    (200, "get", "/openapi.json", {}, None, {}),
]
# The same path answers otherwise at InfluxDB's port.
ASKED_OF_INFLUX = [
    (200, "post", "/query", {"q": 'CREATE DATABASE "telegraf"'}, None, {}),
    (400, "get", "/query", {"q": "SHOW DATABASES"}, None, {}),
    (204, "post", "/write", {"db": "any"}, LINES, {}),
]


def resolved(description: Any, node: Any) -> Any:
    """What a reference refers to; anything else itself."""
    while "$ref" in node:
        target = node["$ref"].removeprefix("#/").split("/")
        node = description
        for step in target:
            node = node[step]
    return node


def check_answer(description: Any, asked: Any, answer: requests.Response) -> None:
    """That an answer is one of those described: status, type, and of JSON the schema."""
    status, method, path, words, _, _ = asked
    assert answer.status_code == status, f"{asked}: {answer.status_code} {answer.text[:500]}"
    responses = description["paths"][path][method]["responses"]
    assert str(status) in responses, f"{method} {path} answers {status}, which is not described"
    content = resolved(description, responses[str(status)]).get("content", {})
    kind = answer.headers.get("Content-Type", "").split(";")[0]
    if not content:
        assert not answer.content, asked
        return
    assert kind in content, f"{asked}: {kind} is none of {list(content)}"
    if kind == "application/json":
        schema = {**content[kind]["schema"], "components": description["components"]}
        jsonschema.validate(answer.json(), schema, cls=jsonschema.Draft202012Validator)


def test_the_description_is_what_is_answered(serve: Any) -> None:
    served = serve("--request-bytes-max=1MB")
    description = requests.get(url(served, "/openapi.json"), timeout=TIMEOUT_S).json()
    validate(description)
    for port, all_asked in [("http_port", ASKED), ("influx_port", ASKED_OF_INFLUX)]:
        for asked in all_asked:
            _, method, path, words, body, headers = asked
            target = f"{url(served, path, port)}?{urllib.parse.urlencode(words)}"
            if body is not None:
                headers = {"Content-Type": "application/octet-stream", **headers}
            answer = requests.request(method, target, data=body, headers=headers, timeout=TIMEOUT_S)
            check_answer(description, asked, answer)
    asked_for = {(method, path) for _, method, path, *_ in ASKED}
    described = {(method, path) for path, item in description["paths"].items() for method in item if method != "servers"}
    assert asked_for == described
