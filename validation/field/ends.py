#!/usr/bin/env python3
"""Ends of the measurements of field.py.

usage: ends.py echo ADDRESS            answers each byte of a TCP connection
       ends.py ping ADDRESS COUNT      prints the round trips of COUNT bytes, ns, as JSON
       ends.py listen ADDRESS          prints the delays of the datagrams of `call`, ms, as JSON, 7 s after the last one
       ends.py probe ADDRESS PORT      sends a datagram, after one to another port that finds the way; prints when, s
       ends.py call ADDRESS SECONDS    sends a datagram of 172 bytes every 20 ms
"""

import json
import socket
import struct
import sys
import time

role, address, *rest = sys.argv[1:]

if role == "echo":
    with socket.create_server((address, 7)) as listener:
        listener.settimeout(60)
        peer, _ = listener.accept()
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := peer.recv(1):
            peer.sendall(data)
elif role == "ping":
    peer = socket.create_connection((address, 7), 20)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times = []
    for _ in range(int(rest[0])):
        sent = time.perf_counter_ns()
        peer.sendall(b"x")
        peer.recv(1)
        times.append(time.perf_counter_ns() - sent)
        time.sleep(0.0005)
    print(json.dumps(times))
elif role == "listen":
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer.bind((address, 9))
    peer.settimeout(7)
    delays = []
    try:
        while True:
            data = peer.recv(999)
            delays.append((time.monotonic() - struct.unpack("d", data[:8])[0]) * 1e3)
    except TimeoutError:
        print(json.dumps(delays))
elif role == "call":
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end = time.monotonic() + float(rest[0])
    while time.monotonic() < end:
        peer.sendto(struct.pack("d", time.monotonic()) + bytes(164), (address, 9))
        time.sleep(0.02)
elif role == "probe":
    peer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    peer.sendto(b"x", (address, 9))
    time.sleep(0.2)
    print(time.monotonic())
    peer.sendto(b"x", (address, int(rest[0])))
