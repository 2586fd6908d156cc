"""What TLS costs: connections of PostgreSQL's clients, lines in and rows out over HTTP, beside the same in the clear.

usage: .venv/bin/python bench/tls.py [--rounds N]

The program is $TICKSTONE, else that of `make release`. Both kinds go to one server, in turns; printed are the medians. The
client is Python, on the same machine.
"""

import argparse
import http.client
import os
import pathlib
import re
import ssl
import statistics
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
TICKSTONE = os.environ.get("TICKSTONE", str(REPOSITORY / "target" / "release" / "tickstone"))
PORTS = ["http", "influx", "pg", "flight", "ilp", "stream"]
CONNECTIONS = 40
ROWS = 400_000


@contextmanager
def served(folder: pathlib.Path) -> Iterator[dict[str, int]]:
    """A server with a certificate: its ports."""
    subprocess.run([TICKSTONE, "cert", "--out", folder], check=True, stdout=subprocess.DEVNULL)
    files = [f"--tls-certificate={folder / 'server.pem'}", f"--tls-key={folder / 'server-key.pem'}"]
    command = [TICKSTONE, "serve", "--data", str(folder / "data"), *files, *[f"--{port}-port=0" for port in PORTS]]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        ports: dict[str, int] = {}
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.match(r"  (\w+)_port +127\.0\.0\.1:(\d+)", line):
                ports[found[1]] = int(found[2])
            if len(ports) == len(PORTS):
                break
        yield ports
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    lines = b"".join(
        b"trades,symbol=S%d price=%d.25,amount=%di %d\n" % (row % 100, row % 1000, row, 1_700_000_000_000_000_000 + row * 1000)
        for row in range(ROWS)
    )
    measured = defaultdict(list)
    with tempfile.TemporaryDirectory() as name, served(pathlib.Path(name)) as ports:
        authority = f"{name}/ca.pem"
        context = ssl.create_default_context(cafile=authority)
        for _ in range(rounds):
            for kind, mode in [("clear", "disable"), ("TLS", "verify-full")]:
                begun = time.perf_counter()
                for _ in range(CONNECTIONS):
                    psycopg.connect(
                        host="localhost", port=ports["pg"], user="me", sslmode=mode, sslrootcert=authority
                    ).close()
                measured["PostgreSQL connection, ms", kind].append((time.perf_counter() - begun) / CONNECTIONS * 1e3)
                connection = (
                    http.client.HTTPConnection("localhost", ports["http"])
                    if kind == "clear"
                    else http.client.HTTPSConnection("localhost", ports["http"], context=context)
                )
                connection.connect()
                begun = time.perf_counter()
                connection.request("POST", "/write", lines)
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 204
                measured["lines in, million rows/s", kind].append(ROWS / (time.perf_counter() - begun) / 1e6)
                begun = time.perf_counter()
                connection.request("GET", f"/exp?query=SELECT+price,amount,symbol+FROM+trades+LIMIT+{ROWS}")
                size = len(connection.getresponse().read())
                measured["CSV out, MB/s", kind].append(size / (time.perf_counter() - begun) / 1e6)
                connection.close()
    for (what, kind), values in measured.items():
        print(f"{what}, {kind}: {statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})")


if __name__ == "__main__":
    main()
