#!/usr/bin/env python3
"""Answers every HTTP request with zeros, without end.

usage: web.py ADDRESS CC    (congestion control of the kernel)
"""

import contextlib
import socket
import sys
import threading

address, cc = sys.argv[1:]


def answer(client: socket.socket) -> None:
    with contextlib.suppress(OSError), client:
        while b"\r\n\r\n" not in client.recv(1 << 16):
            pass
        client.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        while True:
            client.sendall(bytes(1 << 16))


with socket.create_server((address, 80)) as listener:
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc.encode())
    while True:
        threading.Thread(target=answer, args=listener.accept()[:1], daemon=True).start()
