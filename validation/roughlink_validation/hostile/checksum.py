"""Checksums of `runs.jsonl`: SipHash-1-3 with key 0 of all before the comma of `"check"`, as in `store/lines.rs`."""

MASK = (1 << 64) - 1


def siphash13(data: bytes) -> int:
    v = [0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573]
    words = len(data) // 8 * 8
    last = int.from_bytes(data[words:], "little") | (len(data) & 0xFF) << 56
    for word in [int.from_bytes(data[i : i + 8], "little") for i in range(0, words, 8)] + [last]:
        v[3] ^= word
        mix(v)
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(3):
        mix(v)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def mix(v: list[int]) -> None:
    """One round of SipHash."""
    a, b, c, d = v
    a = (a + b) & MASK
    b = rotated(b, 13) ^ a
    a = rotated(a, 32)
    c = (c + d) & MASK
    d = rotated(d, 16) ^ c
    a = (a + d) & MASK
    d = rotated(d, 21) ^ a
    c = (c + b) & MASK
    b = rotated(b, 17) ^ c
    c = rotated(c, 32)
    v[:] = a, b, c, d


def rotated(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & MASK


def signed(body: bytes) -> bytes:
    """Returns the line of a record with its checksum. `body` is the JSON of the record without its closing brace."""
    return body + b',"check":"%016x"}\n' % siphash13(body)
