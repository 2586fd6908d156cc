"""The server as a process: stopped, told wrong settings. What it withstands is in test_withstand_*.py."""

import os
import socket
import subprocess
import time
from pathlib import Path
from typing import Any


def test_it_stops_with_every_row(serve: Any) -> None:
    served = serve()
    with socket.create_connection(("127.0.0.1", served.ports["ilp_port"])) as stream:
        stream.sendall(b"".join(b"t x=%di %d\n" % (n, n + 1) for n in range(50_000)))
        time.sleep(0.2)
        assert served.stop() == 0
    assert serve().rows("SELECT count(*), sum(x) FROM t") == [[50_000, 50_000 * 49_999 // 2]]


def test_settings_that_cannot_be(program: Path, tmp_path: Path) -> None:
    def told(*flags: str, environment: dict[str, str] | None = None) -> tuple[int, str]:
        command = [str(program), "serve", "--data", str(tmp_path / "data"), *flags]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=30, env={**os.environ, **(environment or {})}
        )
        return done.returncode, done.stderr

    assert told("--http-port", "x") == (
        2,
        "error: http_port = 'x' cannot be: it wants the number of a port, or off\n\nFor more information, try '--help'.\n",
    )
    assert "TICKSTONE_INSECURE: insecure = 'maybe' cannot be" in told(environment={"TICKSTONE_INSECURE": "maybe"})[1]
    assert "set insecure = users if that is meant" in told("--host", "0.0.0.0")[1]
    (tmp_path / "wrong.toml").write_text("http_prot = 1\n")
    assert "did you mean 'http_port'" in told("--config", str(tmp_path / "wrong.toml"))[1]
    assert told("--files", str(tmp_path / "nosuch")) == (
        2,
        f"error: files = '{tmp_path / 'nosuch'}' cannot be: it wants a directory that is there\n\n"
        "For more information, try '--help'.\n",
    )
    assert told("--host", "example.org")[0] == 2
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = told("--http-port", str(taken.getsockname()[1]), "--ilp-port", "off", "--influx-port", "off")
        assert code == 1 and "cannot listen on" in said and "http_port" in said


def test_localhost_and_variables_that_are_no_settings(serve: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("TICKSTONE_HTTP_PROT", "1")
    monkeypatch.setenv("TICKSTONE_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("TICKSTONE_SLOW_STATEMENT", "3s")
    served = serve("--host", "localhost")
    assert served.rows("SELECT 1") == [[1]]
    served.log.seek(0)
    log = served.log.read()
    assert "the variable TICKSTONE_HTTP_PROT is no setting, and changes nothing; did you mean TICKSTONE_" in log, log
    assert "TICKSTONE_SERVICE_HOST is no setting" in log and "TICKSTONE_SLOW_STATEMENT" not in log


def test_a_pipe_is_no_file_to_copy(serve: Any, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    os.mkfifo(files / "fifo.csv")
    (files / "t.csv").write_text("x,timestamp\n1,2024-01-01\n")
    served = serve("--files", str(files))
    served.run("CREATE TABLE t (x BIGINT, timestamp TIMESTAMP) TIMESTAMP(timestamp)")
    for sql in ["COPY t FROM 'fifo.csv'", "COPY t TO 'fifo.csv'", f"COPY t FROM '{files}/fifo.csv'"]:
        begun = time.monotonic()
        assert "is a pipe, a socket or a device, not a file" in served.ask("/exec", query=sql)["error"], sql
        assert time.monotonic() - begun < 5
    served.run("COPY t FROM 't.csv'", "COPY t TO 'out.csv'", "COPY t TO 'out.csv'")
    assert served.rows("SELECT x FROM t") == [[1]]


def test_the_log_quotes_a_bad_line(serve: Any) -> None:
    served = serve()
    for line in ["quoted,s=a x=oops 1", "quoted,s=a note=\"" + "y" * 500 + "\",x=oops 1"]:
        with socket.create_connection(("127.0.0.1", served.ports["ilp_port"])) as stream:
            stream.sendall(line.encode() + b"\n")
            assert stream.recv(1) == b""
        served.log.seek(0)
        quoted = line if len(line) <= 200 else line[:200] + "…"
        # The log writes a text as one of Rust.
        assert quoted.replace('"', '\\"') in served.log.read(), line
