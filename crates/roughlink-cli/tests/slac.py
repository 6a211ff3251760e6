"""Matches a car with a station by SLAC (ISO 15118-3), each behind a Green PHY modem.

`slac.py car DEVICE [HOST]` looks for the nearest station, joins its network and prints its figures as JSON. With HOST,
an address of the station, it also reports whether IP datagrams get there and back. `slac.py station DEVICE` serves one
car after the other.
"""

import json
import os
import socket
import sys
import time

BROADCAST = b"\xff" * 6
MODEM = bytes.fromhex("00b052000001")  # local address of every modem of Qualcomm
SET_KEY, PARM, START, ATTEN, SOUND, MATCH, PROFILE = 0x6008, 0x6064, 0x6068, 0x606C, 0x6074, 0x607C, 0x6084
LINK_STATUS = 0xA0B8
CNF, IND, RSP = 1, 2, 3
SOUNDS = 10
GROUPS = 58
ID = bytes(17)
NEVER = float("inf")


class Host:
    """A packet socket for management messages at the device of a modem."""

    def __init__(self, device):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88E1))
        self.socket.bind((device, 0x88E1))
        self.mac = self.socket.getsockname()[4]

    def send(self, to, kind, entry):
        version = b"\x00" if kind >= 0xA000 else b"\x01"
        fragment = b"" if kind >= 0xA000 else b"\x00\x00"
        frame = to + self.mac + b"\x88\xe1" + version + kind.to_bytes(2, "little") + fragment + entry
        self.socket.send(frame.ljust(60, b"\x00"))

    def receive(self, until):
        """Returns type, source and entry of the next message, or None after the time `until`."""
        while (left := until - time.monotonic()) > 0:
            self.socket.settimeout(left)
            try:
                frame, address = self.socket.recvfrom(2000)
            except TimeoutError:
                return None
            if address[2] != socket.PACKET_OUTGOING:
                header = 17 if frame[14] == 0 else 19
                return int.from_bytes(frame[15:17], "little"), frame[6:12], frame[header:]
        return None

    def wait(self, kind, seconds):
        """Returns source and entry of the next message of this type; fails after some seconds."""
        until = time.monotonic() + seconds
        while message := self.receive(until):
            if message[0] == kind:
                return message[1:]
        sys.exit(f"no message of type {kind:#06x} within {seconds} s")

    def set_key(self, nid, nmk):
        self.send(MODEM, SET_KEY, b"\x01" + b"\xaa" * 4 + bytes(4) + b"\x04" + bytes(4) + nid + b"\x01" + nmk)
        _, entry = self.wait(SET_KEY | CNF, 0.5)
        if entry[0] != 0:
            sys.exit("the modem refused the key")

    def is_linked(self):
        self.send(MODEM, LINK_STATUS, MODEM[:3])
        return self.wait(LINK_STATUS | CNF, 0.5)[1][4] == 1


def car(host, peer):
    run = os.urandom(8)
    host.send(BROADCAST, PARM, bytes(2) + run)
    stations, until = [], time.monotonic() + 0.3
    while message := host.receive(until):
        if message[0] == PARM | CNF and message[2][17:25] == run:
            stations.append(message[1])
    for _ in range(3):
        host.send(BROADCAST, START | IND, bytes(2) + bytes([SOUNDS, 6, 1]) + host.mac + run)
        time.sleep(0.03)
    for left in reversed(range(SOUNDS)):
        host.send(BROADCAST, SOUND | IND, bytes(2) + ID + bytes([left]) + run + bytes(8) + os.urandom(16))
        time.sleep(0.03)
    levels, until = {}, time.monotonic() + 1.2
    while len(levels) < len(stations) and (message := host.receive(until)):
        kind, station, entry = message
        if kind == ATTEN | IND and entry[8:16] == run:
            groups = entry[52 : 52 + entry[51]]
            levels[station] = sum(groups) / len(groups)
            host.send(station, ATTEN | RSP, bytes(2) + host.mac + run + ID + ID + b"\x00")
    if not levels:
        sys.exit("no station reported an attenuation")
    best = min(levels, key=levels.get)
    host.send(best, MATCH, bytes(2) + b"\x3e\x00" + ID + host.mac + ID + best + run + bytes(8))
    _, entry = host.wait(MATCH | CNF, 0.2 * 5)
    host.set_key(entry[66:73], entry[74:90])
    before, begin = host.is_linked(), time.monotonic()
    while not host.is_linked() and time.monotonic() < begin + 12:
        time.sleep(0.1)
    result = {
        "stations": len(stations),
        "levels": {station.hex(":"): level for station, level in levels.items()},
        "best": best.hex(":"),
        "linked_at_once": before,
        "linked": host.is_linked(),
    }
    if peer:
        result["reaches"] = reaches(peer)
    print(json.dumps(result), flush=True)


def reaches(peer):
    """Returns whether the kernel there answers, if only by refusing a connection."""
    try:
        socket.create_connection((peer, 9), 5).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        return False
    return True


def station(host):
    nid, nmk = bytes([1]) + os.urandom(6), os.urandom(16)
    host.set_key(nid, nmk)
    run, vehicle, profiles, deadline = None, None, [], NEVER
    while True:
        message = host.receive(min(deadline, time.monotonic() + 3600))
        if profiles and (len(profiles) == SOUNDS or message is None):
            mean = bytes(sum(group) // len(profiles) for group in zip(*profiles, strict=True))
            counts = bytes([len(profiles), GROUPS])
            host.send(vehicle, ATTEN | IND, bytes(2) + vehicle + run + ID + ID + counts + mean)
            profiles, deadline = [], NEVER
        if message is None:
            continue
        kind, source, entry = message
        if kind == PARM:
            run, vehicle, profiles, deadline = entry[2:10], source, [], NEVER
            host.send(source, PARM | CNF, BROADCAST + bytes([SOUNDS, 6, 1]) + source + bytes(2) + run)
        elif kind == START | IND and deadline == NEVER:
            deadline = time.monotonic() + 0.6
        elif kind == PROFILE | IND and entry[:6] == vehicle:
            profiles.append(entry[8 : 8 + GROUPS])
        elif kind == MATCH and entry[44:50] == host.mac:
            head = bytes(2) + b"\x56\x00" + entry[4:66]
            host.send(source, MATCH | CNF, head + nid + b"\x00" + nmk)


if __name__ == "__main__":
    role, device, *rest = sys.argv[1:]
    if role == "car":
        car(Host(device), rest[0] if rest else None)
    else:
        station(Host(device))
