"""The server as a process: killed, stopped, told wrong settings."""

import os
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any


LINES = 200


def test_what_was_acknowledged_survives_a_kill(serve: Any) -> None:
    served = serve()
    acknowledged: list[int] = []
    stop = threading.Event()

    def write(writer: int) -> None:
        request = 0
        while not stop.is_set():
            number = writer * 1_000_000 + request
            lines = "".join(f"t,w=w{writer} n={number}i {number * LINES + line + 1}\n" for line in range(LINES))
            try:
                if served.ask("/write", lines.encode()) is not None:
                    return
            except (OSError, ValueError):
                return
            acknowledged.append(number)
            request += 1

    writers = [threading.Thread(target=write, args=(writer,)) for writer in range(3)]
    for writer in writers:
        writer.start()
    time.sleep(2)
    served.kill()
    stop.set()
    for writer in writers:
        writer.join()
    assert acknowledged
    found = dict(serve().rows("SELECT n, count(*) FROM t GROUP BY n"))
    assert all(found.get(number) == LINES for number in acknowledged)
    assert all(count == LINES for count in found.values()), "a request is there in part"
    # Those whose answer was under way when it was killed.
    assert len(found) - len(acknowledged) <= 3


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
    assert "set insecure = true if that is meant" in told("--host", "0.0.0.0")[1]
    (tmp_path / "wrong.toml").write_text("http_prot = 1\n")
    assert "did you mean 'http_port'" in told("--config", str(tmp_path / "wrong.toml"))[1]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = told("--http-port", str(taken.getsockname()[1]), "--ilp-port", "off", "--influx-port", "off")
        assert code == 1 and "cannot listen on" in said and "http_port" in said
