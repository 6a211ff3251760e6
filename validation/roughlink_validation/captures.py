"""Transfers in a capture (pcapng, IPv4, TCP), measured with the same code for simulations and emulations.

Times are the network's, in seconds from the start of the scenario.
"""

import bisect
import mmap
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Segment:
    time: float
    seq: int  # from the first byte of the stream, not modulo 2^32
    length: int


@dataclass
class Transfer:
    """Data that a connection carried from the host that opened it."""

    sent: list[Segment] = field(default_factory=list)  # at the sender's interface; empty if not captured
    arrived: list[Segment] = field(default_factory=list)  # at the receiver's
    # ACKs that reached the sender: time, ack, window in bytes.
    windows: list[tuple[float, int, int]] = field(default_factory=list)
    first: int | None = None
    scale: int = 0

    def delivered(self) -> list[tuple[float, int]]:
        """Returns the in-order bytes at the receiver over time."""
        steps, edge, beyond = [], 0, {}
        for segment in self.arrived:
            if segment.seq > edge:
                beyond[segment.seq] = max(beyond.get(segment.seq, 0), segment.seq + segment.length)
                continue
            before, edge = edge, max(edge, segment.seq + segment.length)
            while beyond and (start := min(beyond)) <= edge:
                edge = max(edge, beyond.pop(start))
            if edge > before:
                steps.append((segment.time, edge))
        return steps

    def repeats(self) -> list[float]:
        """Returns the arrival times of retransmissions: segments below the highest sequence number so far."""
        newest, times = -1, []
        for segment in self.arrived:
            if segment.seq < newest:
                times.append(segment.time)
            newest = max(newest, segment.seq)
        return times

    def ways(self) -> list[tuple[float, float]]:
        """Returns the sending and arrival time of each segment that arrived."""
        sent = defaultdict(list)
        for segment in self.sent:
            sent[segment.seq].append(segment.time)
        found = []
        for segment in self.arrived:
            times = sent[segment.seq]
            if at := bisect.bisect_left(times, segment.time):
                found.append((times[at - 1], segment.time))
        return found


def at(steps: list[tuple[float, int]], time: float) -> int:
    """Returns the value of a step function at a time."""
    found = bisect.bisect_right(steps, time, key=lambda s: s[0])
    return steps[found - 1][1] if found else 0


def throughput_mbps(steps: list[tuple[float, int]], begin: float, end: float) -> float:
    return (at(steps, end) - at(steps, begin)) * 8 / (end - begin) / 1e6


def recovery_s(steps: list[tuple[float, int]], back: float, end: float, bytes_per_s: float) -> tuple[float, bool]:
    """Returns the time after `back` until the application gets 95 % of a rate in each of five consecutive seconds.

    The time has steps of 0.1 s, like the metric `recovery_s` of `roughlink reproduce`. If the second value is False,
    the time is a lower bound.
    """
    values = [at(steps, back + i / 10) for i in range(int((end - back) * 10 + 1e-6) + 1)]
    enough = 0.95 * bytes_per_s
    for k in range(len(values) - 50):
        if all(values[k + s + 10] - values[k + s] >= enough for s in range(0, 50, 10)):
            return k / 10, True
    return max(0.0, end - back - 5), False


def read(path: Path, nodes: list[str], clients: list[str]) -> dict[str, Transfer]:
    """Returns the transfers of a capture, one for each node that opened a connection.

    `nodes` are all nodes of the scenario, whose order gives the addresses.
    """
    addresses = {node: bytes([10, 0, 0, number + 1]) for number, node in enumerate(nodes)}
    transfers = {addresses[node]: Transfer() for node in clients}
    own = []  # for each interface the address of its host
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        position, length = 0, len(data)
        while position + 12 <= length:
            kind, size = struct.unpack_from("<II", data, position)
            if position + size > length or size < 12:
                break  # the last block is incomplete
            if kind == INTERFACE:
                host = interface_name(data, position, size).rpartition(":")[0]
                own.append(addresses[host])
            elif kind == PACKET:
                interface, high, low = struct.unpack_from("<III", data, position + 8)
                packet(data, position + 28, ((high << 32) | low) / 1e9, own[interface], transfers)
            position += size
    return {node: transfers[addresses[node]] for node in clients}


INTERFACE, PACKET = 1, 6


def interface_name(data, position: int, size: int) -> str:
    here, end = position + 16, position + size - 4
    while here + 4 <= end:
        code, length = struct.unpack_from("<HH", data, here)
        if code == 2:
            return bytes(data[here + 4 : here + 4 + length]).decode()
        here += 4 + (length + 3) // 4 * 4
    return ""


def packet(data, start: int, time: float, own: bytes, transfers: dict[bytes, Transfer]) -> None:
    if data[start] >> 4 != 4 or data[start + 9] != 6:
        return
    total = struct.unpack_from(">H", data, start + 2)[0]
    source, target = data[start + 12 : start + 16], data[start + 16 : start + 20]
    tcp = start + (data[start] & 15) * 4
    seq, ack, offset, flags, window = struct.unpack_from(">IIBBH", data, tcp + 4)
    header = (offset >> 4) * 4
    payload = total - (tcp - start) - header
    if source in transfers:
        transfer = transfers[source]
        if flags & SYN:
            transfer.first = (seq + 1) & MASK
        elif payload > 0 and transfer.first is not None:
            segments = transfer.sent if source == own else transfer.arrived
            near = segments[-1].seq if segments else 0
            segments.append(Segment(time, unwrap((seq - transfer.first) & MASK, near), payload))
    elif target in transfers:
        transfer = transfers[target]
        if flags & SYN:
            transfer.scale = window_scale(data, tcp + 20, tcp + header)
        elif target == own and flags & ACK and transfer.first is not None:
            near = transfer.windows[-1][1] if transfer.windows else 0
            transfer.windows.append((time, unwrap((ack - transfer.first) & MASK, near), window << transfer.scale))


SYN, ACK, MASK = 2, 16, 0xFFFFFFFF


def unwrap(number: int, near: int) -> int:
    """Returns the number congruent to `number` modulo 2^32 that is nearest to `near`."""
    candidate = (near & ~MASK) + number
    return min((candidate - MASK - 1, candidate, candidate + MASK + 1), key=lambda c: abs(c - near))


def window_scale(data, here: int, end: int) -> int:
    while here < end:
        kind = data[here]
        if kind == 0:
            break
        if kind == 1:
            here += 1
            continue
        if kind == 3:
            return data[here + 2]
        here += max(2, data[here + 1])
    return 0
