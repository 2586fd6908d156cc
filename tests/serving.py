"""`tickstone serve` as a process, on ports that are free."""

import json
import os
import random
import re
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

PORTS = ["http_port", "influx_port", "pg_port", "flight_port", "ilp_port", "stream_port"]
PATIENCE_S = 30
# How long tests of what a server withstands go on: 0 for as long as they must, more for a soak.
WITHSTAND_S = float(os.environ.get("TICKSTONE_WITHSTAND_SECONDS", "0"))


def new_random() -> random.Random:
    """Numbers of a new seed, which is printed; $TICKSTONE_WITHSTAND_SEED repeats one."""
    seed = int(os.environ.get("TICKSTONE_WITHSTAND_SEED", random.randrange(2**32)))
    print(f"TICKSTONE_WITHSTAND_SEED={seed}")
    return random.Random(seed)


def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> float:
    """Waits until something is so; how many seconds that took."""
    begun = time.monotonic()
    while not condition():
        assert time.monotonic() < begun + seconds, f"after {seconds} s still not so: {what}"
        time.sleep(0.02)
    return time.monotonic() - begun


class Server:
    """`tickstone serve` over a directory."""

    def __init__(self, program: Path, data: Path, *settings: str) -> None:
        ports = [f"--{port.replace('_', '-')}" for port in PORTS]
        flags = [f"{port}=0" for port in ports if port not in settings]
        command = [str(program), "serve", "--data", str(data), *flags, *settings]
        self.log = open(data.with_suffix(".log"), "a+")
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.ports: dict[str, int] = {}
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if found := re.match(r"  (\w+) +127\.0\.0\.1:(\d+)", line):
                self.ports[found[1]] = int(found[2])
            if len(self.ports) == len(PORTS):
                return
        self.log.seek(0)
        raise AssertionError(f"the server did not start: {self.log.read()}")

    def ask(self, path: str, body: bytes | None = None, **words: str) -> Any:
        """The answer to a request of the REST port, as JSON."""
        url = f"http://127.0.0.1:{self.ports['http_port']}{path}?{urllib.parse.urlencode(words)}"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, body), timeout=PATIENCE_S) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return json.loads(error.read())

    def rows(self, sql: str) -> list[list[Any]]:
        answer = self.ask("/exec", query=sql)
        assert "dataset" in answer, answer
        found: list[list[Any]] = answer["dataset"]
        return found

    def run(self, *statements: str) -> None:
        """Carries statements out."""
        for sql in statements:
            answer = self.ask("/exec", query=sql)
            assert "error" not in answer, answer

    def running(self, part: str) -> list[str]:
        """The statements under way whose text has a part."""
        found = self.rows("SELECT statement FROM queries()")
        return [sql for (sql,) in found if part in sql and "queries()" not in sql]

    def memory_mb(self) -> float:
        """What of the process is in memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Tells it to stop; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)
