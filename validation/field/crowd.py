#!/usr/bin/env python3
"""Ends of many TCP connections at once.

usage: crowd.py echo ADDRESS PORT                 answers each byte, without end
       crowd.py open ADDRESS PORT COUNT BYTES     opens COUNT connections, sends BYTES over each, compares the answers

`open` first sends eight bytes over each connection. After all answers it prints `open` and the number of connections.
A line of input starts the transfers. The result is JSON: how many answers were exact, wrong or missing, and the time,
s. Another line closes the connections.
"""

import hashlib
import json
import selectors
import socket
import sys
import time

role, address, port, *rest = sys.argv[1:]
CONNECTING = 256
PATIENCE_S = 60


def echo() -> None:
    selector = selectors.DefaultSelector()
    with socket.create_server((address, int(port)), backlog=4096) as listener:
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ)
        waiting: dict[socket.socket, bytearray] = {}
        while True:
            for key, events in selector.select():
                peer = key.fileobj
                if peer is listener:
                    peer, _ = listener.accept()
                    peer.setblocking(False)
                    waiting[peer] = bytearray()
                    selector.register(peer, selectors.EVENT_READ)
                    continue
                try:
                    if events & selectors.EVENT_READ:
                        data = peer.recv(1 << 16)
                        if not data:
                            raise ConnectionResetError
                        waiting[peer] += data
                    if waiting[peer]:
                        del waiting[peer][:peer.send(waiting[peer])]
                except BlockingIOError:
                    pass
                except OSError:
                    selector.unregister(peer)
                    peer.close()
                    del waiting[peer]
                    continue
                more = selectors.EVENT_WRITE if waiting[peer] else 0
                selector.modify(peer, selectors.EVENT_READ | more)


class Connection:
    """A connection with the bytes to send and the bytes received so far."""

    def __init__(self, number: int):
        self.number, self.received, self.expected, self.failed = number, bytearray(), b"", False
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.connect_ex((address, int(port)))

    def say(self, data: bytes) -> None:
        self.expected, self.unsent = data, memoryview(data)
        self.received.clear()

    def is_over(self) -> bool:
        return self.failed or len(self.received) >= len(self.expected)


def exchange(connections: list, at_once: int) -> None:
    """Sends what `say` set over all connections, `at_once` of them at a time, and waits for the answers."""
    selector = selectors.DefaultSelector()
    queue, active = list(reversed(connections)), 0
    while queue or active:
        while queue and active < at_once:
            connection = queue.pop()
            connection = connection() if callable(connection) else connection
            selector.register(connection.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, connection)
            active += 1
        ready = selector.select(PATIENCE_S)
        if not ready:
            return
        for key, events in ready:
            connection = key.data
            try:
                if events & selectors.EVENT_WRITE:
                    connection.unsent = connection.unsent[connection.socket.send(connection.unsent):]
                    if not connection.unsent:
                        selector.modify(connection.socket, selectors.EVENT_READ, connection)
                if events & selectors.EVENT_READ:
                    data = connection.socket.recv(1 << 16)
                    connection.received += data
                    connection.failed = not data
            except BlockingIOError:
                pass
            except OSError:
                connection.failed = True
            if connection.is_over():
                selector.unregister(connection.socket)
                active -= 1


def open_all(count: int, size: int) -> None:
    connections = []

    def opened(number: int) -> Connection:
        connection = Connection(number)
        connection.say(number.to_bytes(8, "big"))
        connections.append(connection)
        return connection

    exchange([lambda n=n: opened(n) for n in range(count)], CONNECTING)
    print("open", sum(c.received == c.expected and not c.failed for c in connections), flush=True)
    sys.stdin.readline()
    connections = [c for c in connections if c.received == c.expected and not c.failed]
    for connection in connections:
        connection.say(hashlib.shake_128(connection.expected).digest(size))
    began = time.monotonic()
    exchange(connections, count)
    passed = time.monotonic() - began
    exact = sum(c.received == c.expected for c in connections)
    missing = sum(len(c.received) < size for c in connections)
    print(json.dumps({"exact": exact, "missing": missing, "wrong": len(connections) - exact - missing,
                      "seconds": passed}), flush=True)
    sys.stdin.readline()


if role == "echo":
    echo()
else:
    open_all(*map(int, rest))
