"""InfluxDB's client for Python: writes; reads in Flux are refused by name."""

from typing import Any

import pytest
from influxdb_client import InfluxDBClient, Point, WritePrecision
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException


def test_points(server: Any) -> None:
    url = f"http://127.0.0.1:{server.ports['influx_port']}"
    with InfluxDBClient(url=url, token="any", org="any") as client:
        assert client.ping()
        write = client.write_api(write_options=SYNCHRONOUS)
        point = Point("air, indoors").tag("room", "a b").field("celsius", 21.5).field("people", 3).field("open", True)
        write.write(bucket="any", record=[point.time(5, WritePrecision.MS), "air\\,\\ indoors,room=c celsius=22 7000000"])
        with pytest.raises(ApiException, match="line 1.*column 'people'.*is a text"):
            write.write(bucket="any", record=Point("air, indoors").field("people", "many"))
        with pytest.raises(ApiException, match="Flux"):
            client.query_api().query("from(bucket: \"any\")")
    rows = server.rows('SELECT room, celsius, people, open, "timestamp" FROM "air, indoors" ORDER BY "timestamp"')
    assert rows == [
        ["a b", 21.5, 3, True, "1970-01-01T00:00:00.005000000Z"],
        ["c", 22.0, None, None, "1970-01-01T00:00:00.007000000Z"],
    ]
