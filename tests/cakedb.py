"""What a driver of CakeDB does: its protocol over a socket."""

import socket
import struct

from serving import PATIENCE_S


class Driver:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self.ids: dict[str, int] = {}

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, command: int, payload: bytes) -> None:
        self.socket.sendall(struct.pack(">IH", len(payload), command) + payload)

    def take(self, count: int) -> bytes:
        taken = bytearray()
        while len(taken) < count:
            piece = self.socket.recv(count - len(taken))
            if not piece:
                raise EOFError("disconnected")
            taken += piece
        return bytes(taken)

    def id(self, name: str) -> bytes:
        if name not in self.ids:
            self.send(5, name.encode())
            (self.ids[name],) = struct.unpack(">H", self.take(2))
        return struct.pack(">H", self.ids[name])

    def append(self, name: str, document: bytes) -> None:
        self.send(2, self.id(name) + document)

    def ask(self, command: int, name: str, *times: int) -> list[tuple[int, bytes]]:
        self.send(command, self.id(name) + b"".join(struct.pack(">Q", time) for time in times))
        (length,) = struct.unpack(">I", self.take(4))
        body, at, found = self.take(length), 0, []
        while at < length:
            ts, size = struct.unpack_from(">QI", body, at)
            found.append((ts, body[at + 12 : at + 12 + size]))
            at += 12 + size
        return found
