"""MCP: the official client (PyPI `mcp`) over stdio and HTTP, in both ways to begin; messages that no client sends."""

import asyncio
import json
import re
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import requests
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import CallToolResult, TextContent, TextResourceContents

PAGE = Path(__file__).resolve().parents[2] / "docs" / "server" / "mcp.md"
TIMEOUT_S = 60
ENDLESS = "SELECT sum(value % 7) FROM range(0, 1000000000000)"
TRADES = [
    "CREATE TABLE trades (ts TIMESTAMP, symbol SYMBOL, price DOUBLE, size DOUBLE) TIMESTAMP(ts)",
    "INSERT INTO trades SELECT timestamp_s(1723109400 + value * 60), 'S' || (value % 3), value / 2.0, 1.0 FROM range(0, 500)",
    "CREATE TABLE quotes (ts TIMESTAMP, symbol SYMBOL, bid DOUBLE, ask DOUBLE) TIMESTAMP(ts)",
    "INSERT INTO quotes SELECT timestamp_s(1723109400 + value * 60), 'S' || (value % 3), value / 2.0, value / 2.0 + 1 FROM range(0, 500)",
    "CREATE VIEW spreads AS SELECT ts, symbol, ask - bid AS spread FROM quotes",
]

Connect = Callable[..., Client]


@pytest.fixture
def filled(server: Any) -> Any:
    for sql in TRADES:
        assert "error" not in server.ask("/exec", query=sql)
    return server


def over_http(server: Any, mode: str = "auto") -> Client:
    return Client(f"http://127.0.0.1:{server.ports['http_port']}/mcp", mode=mode, read_timeout_seconds=TIMEOUT_S)


def over_stdio(program: Path, data: Path, *flags: str, mode: str = "auto") -> Client:
    parameters = StdioServerParameters(command=str(program), args=["mcp", "--data", str(data), *flags])
    return Client(parameters, mode=mode, read_timeout_seconds=TIMEOUT_S)


@pytest.fixture(params=["stdio", "http"])
def connect(request: Any, filled: Any, program: Path, tmp_path: Path) -> Connect:
    """A client; over stdio the database is read beside the server that writes it."""
    if request.param == "http":
        return lambda mode="auto": over_http(filled, mode)
    return lambda mode="auto": over_stdio(program, tmp_path / "data", mode=mode)


def run(task: Awaitable[Any]) -> Any:
    return asyncio.run(asyncio.wait_for(task, TIMEOUT_S))


def text(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def given(client: Client, tool: str, **arguments: Any) -> tuple[str, Any]:
    """What a tool gives, which its schema describes."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text(result)
    return text(result), result.structured_content


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_it_begins(connect: Connect, mode: str, version: str) -> None:
    async def begin() -> None:
        async with connect(mode) as client:
            assert client.protocol_version == version
            assert client.server_info and client.server_info.name == "tickstone"
            assert client.instructions and "list_tables" in client.instructions
            assert client.server_capabilities.tools is not None and client.server_capabilities.prompts is None
            tools = (await client.list_tools()).tools
            assert [tool.name for tool in tools] == [
                "list_tables", "describe_table", "sample_rows", "query", "explain", "list_functions", "describe_function",
            ]
            for tool in tools:
                jsonschema.Draft202012Validator.check_schema(tool.input_schema)
                jsonschema.Draft202012Validator.check_schema(tool.output_schema)
                assert tool.description and tool.annotations and tool.annotations.read_only_hint

    run(begin())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_every_tool(connect: Connect, mode: str) -> None:
    async def ask() -> None:
        async with connect(mode) as client:
            # From here on the client compares what tools give with their schemas.
            await client.list_tools()
            _, found = await given(client, "list_tables")
            assert {table["table"]: table.get("rows") for table in found["tables"]} == {"trades": 500, "quotes": 500, "spreads": None}
            described, found = await given(client, "describe_table", table="trades")
            assert "CREATE TABLE trades" in described and found["first"] == "2024-08-08T09:30:00Z"
            assert [column["type"] for column in found["columns"]] == ["TIMESTAMP", "SYMBOL", "DOUBLE", "DOUBLE"]
            _, found = await given(client, "sample_rows", table="spreads", count=2)
            assert found["row_count"] == 2 and found["rows"][0][2] == 1
            _, found = await given(client, "sample_rows", table="trades", count=2)
            assert [row[2] for row in found["rows"]] == [249.5, 249]
            bars = "SELECT ts, symbol, max(price) AS high FROM trades SAMPLE BY 1h ORDER BY ts, symbol"
            table, found = await given(client, "query", sql=bars)
            assert found["rows"][0] == ["2024-08-08T09:00:00Z", "S0", 13.5] and not found["truncated"]
            assert table.splitlines()[2] == "| 2024-08-08T09:00:00Z | S0 | 13.5 |"
            joined = "SELECT t.ts, t.price, q.bid FROM trades t ASOF JOIN quotes q ON (symbol) ORDER BY t.ts"
            as_json, found = await given(client, "query", sql=joined, limit=7, format="json")
            assert found["truncated"] and found["row_count"] == 7 and json.loads(as_json) == found
            plan, found = await given(client, "explain", sql=joined)
            assert "AsOfJoinExec" in plan and set(found["plan"]) >= {"logical_plan", "physical_plan"}
            await given(client, "explain", sql=joined, analyze=True)
            listed, found = await given(client, "list_functions", pattern="weighted")
            assert listed and all(function["kind"] for function in found["functions"])
            explained, found = await given(client, "describe_function", name="LATEST ON")
            assert "LATEST ON ts PARTITION BY" in explained and found["examples"]
            _, found = await given(client, "describe_function", name="vwap")
            assert any("vwap(" in example for example in found["examples"])

    run(ask())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_what_is_refused(connect: Connect, mode: str) -> None:
    async def ask() -> None:
        async with connect(mode) as client:
            for sql, wanted in [
                ("SELECT spred FROM spreads", "error: column 'spred' does not exist at line 1, column 8\npossible column spreads.spread\nhint: did you mean 'spread'?"),
                ("DROP TABLE trades", "error: DROP TABLE is not carried out here"),
                ("INSERT INTO trades VALUES (now(), 'x', 1.0, 1.0)", "error: INSERT is not carried out here"),
                ("COPY trades TO '/tmp/x.csv'", "error: COPY TO is not carried out here"),
                ("SELECT 1; SELECT 2", "exactly one statement"),
            ]:
                result = await client.call_tool("query", {"sql": sql})
                assert result.is_error and wanted in text(result), text(result)
            result = await client.call_tool("query", {"limit": 7})
            assert result.is_error and "the argument 'sql' is missing" in text(result)
            with pytest.raises(MCPError, match="Unknown tool: drop_table") as raised:
                await client.call_tool("drop_table", {})
            assert raised.value.code == -32602
            with pytest.raises(MCPError) as raised:
                await client.read_resource("tickstone://docs/nothing")
            assert raised.value.code == (-32602 if mode == "auto" else -32002)
            _, found = await given(client, "query", sql="SELECT count(*) FROM trades")
            assert found["rows"] == [[500]]

    run(ask())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_resources(connect: Connect, mode: str) -> None:
    async def read() -> None:
        async with connect(mode) as client:
            listed = (await client.list_resources()).resources
            for resource in listed:
                (content,) = (await client.read_resource(str(resource.uri))).contents
                assert isinstance(content, TextResourceContents) and content.mime_type == resource.mime_type
                assert content.text
            (content,) = (await client.read_resource("tickstone://schema")).contents
            assert isinstance(content, TextResourceContents)
            assert "CREATE TABLE trades (" in content.text and "CREATE VIEW spreads AS SELECT" in content.text
            templates = (await client.list_resource_templates()).resource_templates
            assert [template.uri_template for template in templates] == ["tickstone://schema/{table}", "tickstone://docs/{page}"]

    run(read())


def test_several_at_once(connect: Connect) -> None:
    async def ask() -> None:
        async with connect() as client:
            slow = asyncio.create_task(client.call_tool("query", {"sql": ENDLESS, "timeout_seconds": 3}))
            numbers = await asyncio.gather(*(given(client, "query", sql=f"SELECT {n} AS n") for n in range(40)))
            assert [found["rows"] for _, found in numbers] == [[[n]] for n in range(40)]
            assert not slow.done()
            result = await slow
            assert result.is_error and "timeout_seconds, 3s" in text(result)

    run(ask())


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_call_is_cancelled(connect: Connect, filled: Any, mode: str) -> None:
    # What runs in another process shows in what that says of itself.
    running = "SELECT count(*) FROM queries() WHERE statement LIKE '%FROM range%' AND statement NOT LIKE '%queries%'"

    async def ask() -> None:
        async with connect(mode) as client:

            async def wait_for(wanted: int) -> None:
                while (await given(client, "query", sql=running))[1]["rows"] != [[wanted]]:
                    await asyncio.sleep(0.05)

            call = asyncio.create_task(client.call_tool("query", {"sql": ENDLESS}))
            await wait_for(1)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            begun = time.monotonic()
            await wait_for(0)
            # Long before its time is over.
            assert time.monotonic() - begun < 10

    run(ask())


def test_rows_that_come_meanwhile(connect: Connect, filled: Any) -> None:
    async def ask() -> None:
        async with connect() as client:
            for n in range(3):
                filled.ask("/exec", query=f"INSERT INTO trades VALUES ('2025-01-0{n + 1}', 'NEW', 1.0, 1.0)")
                _, found = await given(client, "query", sql="SELECT count(*) FROM trades WHERE symbol = 'NEW'")
                assert found["rows"] == [[n + 1]]

    run(ask())


def test_limits_are_settings(program: Path, tmp_path: Path, filled: Any) -> None:
    async def ask() -> None:
        async with over_stdio(program, tmp_path / "data", "--mcp-rows-max", "3", "--mcp-timeout", "500ms") as client:
            _, found = await given(client, "query", sql="SELECT * FROM trades", limit=100)
            assert found["row_count"] == 3 and found["truncated"]
            result = await client.call_tool("query", {"sql": ENDLESS})
            assert result.is_error and "mcp_timeout, 500ms" in text(result)

    run(ask())


class Lines:
    """`tickstone mcp`, written to and read line by line."""

    def __init__(self, program: Path, data: Path, *flags: str) -> None:
        command = [str(program), "mcp", "--data", str(data), *flags]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def send(self, line: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def end(self) -> list[Any]:
        """Ends the input; the answers that are left."""
        out, err = self.process.communicate(timeout=TIMEOUT_S)
        assert self.process.returncode == 0, err
        return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def lines(program: Path, tmp_path: Path, filled: Any) -> Iterator[Callable[..., Lines]]:
    started: list[Lines] = []

    def start(*flags: str) -> Lines:
        started.append(Lines(program, tmp_path / "data", *flags))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


PING = b'{"jsonrpc": "2.0", "id": "p", "method": "ping"}'


def test_lines_that_are_no_messages(lines: Callable[..., Lines]) -> None:
    server = lines("--request-bytes-max", "1KB")
    for line, code in [
        (b"oops", -32700),
        (b"\xff\xfe\x00", -32700),
        (b"{" * 500, -32700),
        (b'"text"', -32600),
        (b'{"jsonrpc": "2.0"}', -32600),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', -32600),
        (b'{"x": "' + b"y" * 5000 + b'"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "no/such"}', -32601),
    ]:
        server.send(line)
        assert server.read()["error"]["code"] == code, line
    # What is not answered.
    for line in [b"", b"   ", b'{"jsonrpc": "2.0", "method": "notifications/none"}', b'{"jsonrpc": "2.0", "id": 9, "result": {}}']:
        server.send(line)
    server.send(PING + b"\r")
    assert server.read() == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert server.end() == []


def test_a_cancelled_request_has_no_answer(lines: Callable[..., Lines]) -> None:
    server = lines("--mcp-timeout", "0")
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "query", "arguments": {"sql": ENDLESS}}}
    server.send(json.dumps(call).encode())
    server.send(json.dumps(call).encode())
    assert server.read()["error"]["message"] == "a request of this id is under way"
    time.sleep(0.3)
    server.send(b'{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7, "reason": "enough"}}')
    server.send(PING)
    assert server.read()["id"] == "p"
    assert server.end() == []


def test_what_was_asked_is_answered_when_the_input_ends(lines: Callable[..., Lines]) -> None:
    server = lines()
    for n in range(50):
        call = {"name": "query", "arguments": {"sql": f"SELECT count(*) + {n} AS n FROM trades"}}
        server.send(json.dumps({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": call}).encode())
    answers = {answer["id"]: answer["result"]["structuredContent"]["rows"] for answer in server.end()}
    assert answers == {n: [[500 + n]] for n in range(50)}


def test_it_ends_with_its_reader(lines: Callable[..., Lines]) -> None:
    server = lines("--mcp-timeout", "0")
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "query", "arguments": {"sql": ENDLESS}}}
    server.send(json.dumps(call).encode())
    assert server.process.stdout and server.process.stdin
    server.process.stdout.close()
    server.send(PING)
    server.process.wait(TIMEOUT_S)


def test_a_database_that_is_not_there(program: Path, tmp_path: Path) -> None:
    done = subprocess.run([program, "mcp", "--data", tmp_path / "none"], capture_output=True, text=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
    assert done.returncode == 1 and done.stdout == "" and done.stderr.startswith("error: ")
    assert not (tmp_path / "none").exists()


def test_web_pages_may_not_ask(filled: Any) -> None:
    address = f"http://127.0.0.1:{filled.ports['http_port']}/mcp"
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    for more, status in [({}, 200), ({"Origin": "http://evil.example"}, 403), ({"Host": "rebound.example"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403)]:
        assert requests.post(address, data=PING, headers=headers | more, timeout=TIMEOUT_S).status_code == status, more


# The examples of the page.


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def test_the_configurations_of_the_page(program: Path, tmp_path: Path, filled: Any) -> None:
    configurations = [json.loads(block) for block in blocks("json")]
    assert configurations

    async def ask(client: Client) -> None:
        async with client:
            _, found = await given(client, "query", sql="SELECT 1 AS one")
            assert found["rows"] == [[1]]

    for configuration in configurations:
        server = configuration["mcpServers"]["tickstone"]
        if "url" in server:
            assert server["url"] == "http://localhost:9000/mcp"
            run(ask(over_http(filled)))
            continue
        assert server["command"] == "tickstone"
        args = [str(tmp_path / "data") if arg == "/path/to/tickstone-data" else arg for arg in server["args"]]
        assert args != server["args"]
        run(ask(Client(StdioServerParameters(command=str(program), args=args, env=server.get("env")))))


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_the_commands_of_the_page(server: Any) -> None:
    commands = re.findall(r"^\$ (curl .*)\n((?:[^`$\n].*\n)*)", PAGE.read_text(), re.MULTILINE)
    assert commands
    for command, printed in commands:
        here = command.replace("localhost:9000", f"localhost:{server.ports['http_port']}")
        done = subprocess.run(here, shell=True, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.stdout.strip() == printed.strip(), f"$ {here}\n{done.stderr}"


def test_the_program_of_the_page(filled: Any, capsys: Any) -> None:
    (program,), (printed,) = blocks("python"), blocks("text")
    exec(compile(program.replace("localhost:9000", f"localhost:{filled.ports['http_port']}"), str(PAGE), "exec"), {})
    assert capsys.readouterr().out == printed
