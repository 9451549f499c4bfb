"""A WebSocket handshake, and an origin's step that accepts it and echoes."""

import socket
import threading

HANDSHAKE = (
    b"GET /chat HTTP/1.1\r\nHost: example.com\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nX-Mine: 1\r\n\r\n"
)
ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
)


def echo(connection: socket.socket, stop: threading.Event) -> bool:
    """Upgrade, and send back whatever comes."""
    connection.sendall(ACCEPTED)
    while not stop.is_set():
        try:
            received = connection.recv(65536)
        except TimeoutError:
            continue
        if not received:
            return False
        connection.sendall(received)
    return False
