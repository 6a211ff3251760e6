#!/usr/bin/env python3
"""Sends to each client without end, with the congestion control that it names; runs at the node `server`.

usage: server.py STARTED    (creates this file when it starts)
"""

import contextlib
import socket
import sys
from pathlib import Path

Path(sys.argv[1]).touch()
with socket.create_server(("0.0.0.0", 5000)) as listener:
    while True:
        client, _ = listener.accept()
        cc = client.recv(16).strip()
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, cc)
        with contextlib.suppress(OSError):
            while True:
                client.sendall(bytes(1 << 16))
