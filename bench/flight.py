#!/usr/bin/env python3
"""Rows over Arrow Flight SQL, and over /exec as JSON: values a second out, rows a second in.

usage: flight.py [--program FILE] [--rows N]

The table has five columns, two of them symbols, and 50 symbols. Out: all rows, through the ADBC driver into Arrow, and over
a plain gRPC client of pyarrow; /exec is read from its socket and not parsed. In: `adbc_ingest` of an Arrow table made
beforehand into a new table each time, acknowledged after its sync. Medians of five runs; client and server share the
machine.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import adbc_driver_flightsql.dbapi as adbc
import pyarrow as pa
import pyarrow.flight
from answers import Exec
from lines import payload, tickstone

RUNS = 5
COLUMNS = 5
QUERY = "SELECT * FROM t"


def measured(what: str, unit: str, count: int, run: Callable[[int], None]) -> None:
    rates = []
    for number in range(RUNS):
        begun = time.perf_counter()
        run(number)
        rates.append(count / (time.perf_counter() - begun))
    print(f"{what:<24} {statistics.median(rates):>13,.0f} {unit} ({min(rates):,.0f} to {max(rates):,.0f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=Path("target/release/tickstone"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    given = parser.parse_args()
    server = tickstone(given.program, Path(tempfile.mkdtemp(prefix="flight-")))
    address = f"grpc://127.0.0.1:{server.ports['flight_port']}"
    try:
        server.http("t", payload("t", given.rows))
        values = given.rows * COLUMNS
        with adbc.connect(address, autocommit=True) as db, db.cursor() as cursor:

            def fetched(_: int) -> None:
                cursor.execute(QUERY)
                assert cursor.fetch_arrow_table().num_rows == given.rows

            def got(_: int) -> None:
                with pa.flight.connect(address) as client:
                    info = client.get_flight_info(pa.flight.FlightDescriptor.for_command(QUERY.encode()))
                    assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == given.rows

            def asked(_: int) -> None:
                socket = Exec(server.http_port).socket
                socket.sendall(Exec.request(QUERY))
                tail = b""
                while not tail.endswith(b"0\r\n\r\n"):
                    tail = (tail + socket.recv(1 << 20))[-16:]

            measured("DoGet, ADBC to Arrow", "values/s", values, fetched)
            measured("DoGet, pyarrow", "values/s", values, got)
            measured("/exec, JSON", "values/s", values, asked)
            cursor.execute(QUERY)
            table = cursor.fetch_arrow_table()
            measured("DoPut, adbc_ingest", "rows/s", given.rows, lambda number: cursor.adbc_ingest(f"t{number}", table) and None)
    finally:
        server.end()


if __name__ == "__main__":
    sys.exit(main())
