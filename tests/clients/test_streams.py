"""Raw streams as CakeDB's drivers speak to them, and by the command line; documents outlive a kill."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tickstone
from cakedb import Driver
from serving import PATIENCE_S, Server, new_random, until


def test_documents_of_several_connections(server: Any) -> None:
    port = server.ports["stream_port"]
    with Driver(port) as first, Driver(port) as second:
        for number in range(500):
            first.append("both", b"first %d" % number)
            second.append("both", b"second %d" % number)
        # Each waits for its own.
        assert sum(document.startswith(b"first") for _, document in first.ask(4, "both", 0)) == 500
        found = second.ask(4, "both", 0)
        assert len(found) == 1_000
        times = [ts for ts, _ in found]
        assert times == sorted(set(times))
        assert second.ask(3, "both", times[10], times[20]) == found[10:21]
        assert second.ask(6, "both", times[10]) == [found[9]]
    (row,) = server.rows("SELECT documents, buffered, tables, failure FROM streams() WHERE stream = 'both'")
    assert row == [1_000, 0, None, None]


def test_documents_become_rows(server: Any) -> None:
    with Driver(server.ports["stream_port"]) as driver:
        driver.append("feed", json.dumps({"ts": "2024-08-08T09:30:00Z", "symbol": "BTC", "price": 61500.5}).encode())
        server.run(
            "CREATE TABLE feed_trades AS STREAM 'feed' FORMAT json (ts TIMESTAMP, symbol SYMBOL, price DOUBLE) TIMESTAMP(ts)"
        )
        driver.append("feed", b"no json")
        driver.append("feed", json.dumps({"ts": "2024-08-08T09:31:00Z", "symbol": "ETH", "price": 2500}).encode())
        until(lambda: server.rows("SELECT count(*) FROM feed_trades") == [[2]], "two rows")
        assert server.rows("SELECT seq FROM feed_trades_rejected") == [[2]]


def test_what_was_read_outlives_a_kill(serve: Any) -> None:
    random = new_random()
    served: Server = serve()
    sent: list[bytes] = []
    for _ in range(3):
        with Driver(served.ports["stream_port"]) as driver:
            before = [document for _, document in driver.ask(4, "raw", 0)]
            assert before == sent[: len(before)]
            sent = before
            new = [random.randbytes(random.randrange(3_000)) for _ in range(random.randrange(1, 400))]
            for document in new:
                driver.append("raw", document)
            sent = sent + new
            known = len(driver.ask(4, "raw", 0))
            assert known == len(sent)
            late = [b"late"] * random.randrange(50)
            for document in late:
                driver.append("raw", document)
            sent = sent + late
        served.kill()
        served = serve()
        with Driver(served.ports["stream_port"]) as driver:
            found = [document for _, document in driver.ask(4, "raw", 0)]
            assert len(found) >= known and found == sent[: len(found)]


def test_documents_are_kept_past_a_stop(serve: Any) -> None:
    served: Server = serve()
    with Driver(served.ports["stream_port"]) as driver:
        for number in range(20_000):
            driver.append("raw", b"%d" % number)
        assert served.stop() == 0
    served = serve()
    assert served.rows("SELECT count(*) FROM stream('raw')") == [[20_000]]


def stream(program: Path, *words: object, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([program, "stream", *map(str, words)], input=data, capture_output=True, timeout=PATIENCE_S)


@pytest.mark.parametrize("where", ["here", "there"])
def test_the_command_line(server: Any, program: Path, tmp_path: Path, where: str) -> None:
    place: list[object] = ["--data", tmp_path / "own"]
    if where == "there":
        place = ["--connect", f"127.0.0.1:{server.ports['stream_port']}"]
    name = f"lines-{where}"
    done = stream(program, "append", name, *place, data=b'{"a":1}\n\xff\n\nlast')
    assert (done.returncode, done.stderr) == (0, f"4 documents into {name}\n".encode())
    (tmp_path / "file").write_bytes(b"one\ndocument\n")
    assert stream(program, "append", name, tmp_path / "file", "--whole", *place).returncode == 0
    found = stream(program, "read", name, *place)
    assert found.stdout == b'{"a":1}\n\xff\n\nlast\none\ndocument\n\n', found.stderr
    timed = stream(program, "read", name, "--times", *place).stdout.split(b"\n")
    assert timed[0].endswith(b'Z\t{"a":1}')
    objects = [json.loads(line) for line in stream(program, "read", name, "--format", "ndjson", *place).stdout.splitlines()]
    assert [of.get("document", of.get("hex")) for of in objects] == ['{"a":1}', "ff", "", "last", "one\ndocument\n"]
    assert stream(program, "read", name, "--format", "raw", *place).stdout == b'{"a":1}\xfflastone\ndocument\n'
    since = stream(program, "since", name, objects[2]["ts"], *place)
    assert since.stdout == b"last\none\ndocument\n\n"
    some = stream(program, "read", name, "--from", objects[1]["ts"], "--to", objects[2]["ts"], *place)
    assert some.stdout == b"\xff\n\n"
    assert stream(program, "read", name, "--from", "soon", *place).returncode == 2
    if where == "here":
        listed = stream(program, "list", *place).stdout.decode()
        assert listed.startswith(name) and " 5 documents" in listed
        assert stream(program, "drop", name, *place).returncode == 0
        gone = stream(program, "read", name, *place)
        assert gone.returncode == 1 and f"stream '{name}' does not exist" in gone.stderr.decode()


def test_the_tail_follows_a_server_from_both_sides(serve: Any, program: Path, tmp_path: Path) -> None:
    served: Server = serve()
    with Driver(served.ports["stream_port"]) as driver:
        driver.append("raw", b"before")
        driver.ask(6, "raw", 2**64 - 1)
        places = [["--connect", f"127.0.0.1:{served.ports['stream_port']}"], ["--data", str(tmp_path / "data")]]
        tails = [
            subprocess.Popen([program, "stream", "tail", "raw", "--since", "0", *place], stdout=subprocess.PIPE)
            for place in places
        ]
        try:
            for tail in tails:
                assert tail.stdout is not None and tail.stdout.readline() == b"before\n"
            driver.append("raw", b"after")
            for tail in tails:
                assert tail.stdout is not None and tail.stdout.readline() == b"after\n"
        finally:
            for tail in tails:
                tail.terminate()
                tail.wait()


def test_damage_is_told_wherever_documents_are_lacking(program: Path, tmp_path: Path) -> None:
    """A frame is overwritten, or a file of the log gone: nobody is given fewer documents without being told."""
    whole, lines = tmp_path / "whole", tmp_path / "lines"
    lines.write_text("".join(f'{{"ts": "2024-08-08T{at // 60 % 24:02}:{at % 60:02}", "x": "{at:090}"}}\n' for at in range(4_000)))

    def ran(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120)

    made = ran("sql", "--quiet", "--data", whole, "-c", "CREATE STREAM st WITH (segment_bytes = 65536)")
    assert made.returncode == 0, made.stderr
    assert ran("stream", "append", "st", lines, "--data", whole).returncode == 0
    read = ran("stream", "read", "st", "--data", whole)
    assert (read.returncode, read.stderr, read.stdout.count("\n")) == (0, "", 4_000)
    logs = sorted((whole / "streams").glob("*/*.log"))
    assert len(logs) > 3
    for way in ["overwritten", "gone"]:
        data = tmp_path / way
        shutil.copytree(whole, data)
        log = data / logs[1].relative_to(whole)
        if way == "gone":
            log.unlink()
        else:
            with log.open("r+b") as file:
                file.seek(20_000)
                file.write(b"ZZZZ")
        for words in [("read", "st"), ("since", "st", "0")]:
            read = ran("stream", *words, "--data", data)
            assert read.returncode == 1 and "damaged or missing" in read.stderr, (way, read.stderr)
            assert 0 < read.stdout.count("\n") < 4_000
        with tickstone.open(data) as database:
            given = database.sql("SELECT count(*) FROM stream('st')").fetchone()[0]
            assert given < 4_000
            assert database.sql("SELECT damaged_bytes > 0 FROM streams()").fetchone() == (True,), way
            database.sql("CREATE TABLE q AS STREAM 'st' FORMAT json (ts TIMESTAMP, x VARCHAR) TIMESTAMP(ts)")
            until(lambda: database.sql("SELECT count(*) FROM q").fetchone()[0] == given, "what is there is parsed")
            shown = "SELECT failure FROM streams() WHERE failure LIKE '%damaged or missing%'"
            until(lambda: database.sql(shown).fetchone() is not None, "the damage is told")
