"""Families of scenarios that grow along one axis: links in a chain, flows, queue, window, loss, elements of a file."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

SEGMENT = 1448
PACKET = 1500
# The end of a run in which no packet arrives: it counts reading, set-up and results.
NOTHING_S = 1e-9
FOREVER_S = 10_000.0


@dataclass(frozen=True)
class Axis:
    """Scenarios of several sizes. `text` returns the file of a size with an end time in s.

    The cost is counted per delivered packet, per packet and link, or per element of the file. From each size to the
    next it may rise by at most `factor`. `elements` names the elements of the file whose number is the size, if any.
    With `setup` the cost of set-up is counted, too, per element, and may rise by that factor. `longer` are sizes that
    take too long for CI.
    """

    text: Callable[[int, float], str]
    sizes: tuple[int, ...] = ()
    longer: tuple[int, ...] = ()
    per: str = "packet"
    elements: str = ""
    factor: float = 2.0
    setup: float | None = None

    def units(self, size: int, packets: int) -> int:
        return {"packet": packets, "packet and link": packets * size}.get(self.per, size)


def quantity(value: float, unit: str) -> str:
    return f'"{value:.12g} {unit}"'


def file(seconds: float, nodes: Iterable[str], links: Iterable[str], flows: Iterable[str], tcp: str = "") -> str:
    tables = [f"duration = {quantity(seconds * 1e9, 'ns')}", f"[tcp]\n{tcp}"]
    for kind, bodies in (("node", (f'name = "{node}"' for node in nodes)), ("link", links), ("flow", flows)):
        tables += [f"[[{kind}]]\n{body}" for body in bodies]
    return "\n".join(tables) + "\n"


def link(a: str, b: str, rate_mbps: float, delay_ms: float, queue: int = 100, more: str = "") -> str:
    return (f'name = "{a}-{b}"\nbetween = ["{a}", "{b}"]\nrate = {quantity(rate_mbps, "Mbit/s")}\n'
            f'delay = {quantity(delay_ms, "ms")}\nqueue = "{queue} pkt"\n{more}')


def bulk(number: int, a: str, b: str, packets: int, more: str = "") -> str:
    return (f'name = "f{number}"\nkind = "bulk"\nfrom = "{a}"\nto = "{b}"\nbytes = "{packets * SEGMENT} B"\n{more}')


def stack(kind: str, cc: str, window: int | None = None) -> str:
    """Returns the keys of `[tcp]`; `window` is the size of both buffers in packets."""
    keys = f'stack = "{kind}"\ncc = "{cc}"\n'
    if kind == "ns3":
        keys += f'mss = "{SEGMENT} B"\nwrite_size = "{SEGMENT} B"\n'
    if window:
        keys += f'snd_buf = "{window * SEGMENT} B"\nrcv_buf = "{window * SEGMENT} B"\n'
    return keys


NEWRENO, CUBIC, BBR = ("ns3", "newreno"), ("linux", "cubic"), ("linux", "bbr")


def chain(packets: int, more: str = "") -> Callable[[int, float], str]:
    """A flow over n links in a row."""
    def text(size: int, seconds: float) -> str:
        nodes = [f"n{i}" for i in range(size + 1)]
        links = [link(a, b, 1000, 0.001, more=more) for a, b in zip(nodes, nodes[1:])]
        return file(seconds, nodes, links, [bulk(0, nodes[0], nodes[-1], packets)], stack(*NEWRENO))
    return text


def bottleneck(tcp: tuple[str, str], packets: int, access: bool = False, more: str = "") -> Callable[[int, float], str]:
    """n flows through a link that has 1 Mbit/s and 10 packets of queue for each; with `access`, each has a host."""
    def text(size: int, seconds: float) -> str:
        hosts = [f"n{i}" for i in range(size)] if access else []
        links = [link("a", "b", size, 5, 10 * size, more), *(link(host, "a", 100, 1) for host in hosts)]
        flows = [bulk(i, hosts[i] if access else "a", "b", packets) for i in range(size)]
        return file(seconds, ["a", "b", *hosts], links, flows, stack(*tcp))
    return text


def groups(packets: int) -> Callable[[int, float], str]:
    """n groups of one flow and two links; groups share nothing."""
    def text(size: int, seconds: float) -> str:
        nodes = [f"{role}{i}" for i in range(size) for role in "src"]
        links = [body for i in range(size)
                 for body in (link(f"s{i}", f"r{i}", 500, 10), link(f"r{i}", f"c{i}", 10, 0.9))]
        return file(seconds, nodes, links, [bulk(i, f"s{i}", f"c{i}", packets) for i in range(size)], stack(*NEWRENO))
    return text


def full_queue(more: str = "") -> Callable[[int, float], str]:
    """Datagrams at twice the rate of the link: the queue of n packets fills, and stays full as long again."""
    def text(size: int, seconds: float) -> str:
        end = min(seconds, 2 * (size + 1000) * PACKET * 8 / 1e9)
        flow = 'name = "f"\nkind = "cbr"\nfrom = "a"\nto = "b"\nrate = "2 Gbit/s"'
        return file(end, "ab", [link("a", "b", 1000, 1, size, more)], [flow])
    return text


def window(tcp: tuple[str, str], queue: float = 0.1, more: str = "", rounds: int = 6) -> Callable[[int, float], str]:
    """A flow with n packets in flight over 100 ms, six windows long; slow start overflows a queue of `queue` n."""
    def text(size: int, seconds: float) -> str:
        path = link("a", "b", size * PACKET * 8 / 0.1 / 1e6, 50, max(10, round(size * queue)), more)
        flow = bulk(0, "a", "b", rounds * size + 500)
        return file(seconds, "ab", [path], [flow], stack(*tcp, window=4 * size + 100))
    return text


def loss(tcp: tuple[str, str], packets: int) -> Callable[[int, float], str]:
    """A flow of which n in 10,000 packets are lost; 2,000 packets fit on its path."""
    def text(size: int, seconds: float) -> str:
        noise = f'noise = {{ kind = "random", loss = "{size / 100:g} %", direction = "forward" }}\n'
        path = link("a", "b", 2000 * PACKET * 8 / 0.1 / 1e6, 50, 2000, noise)
        return file(seconds, "ab", [path], [bulk(0, "a", "b", packets)], stack(*tcp, window=8000))
    return text


def sctp(size: int, seconds: float) -> str:
    """An association with n packets in flight; slow start overflows the queue."""
    path = link("a", "b", size * PACKET * 8 / 0.1 / 1e6, 50, size)
    flow = bulk(0, "a", "b", 8 * size + 500, f'transport = "sctp"\nsctp = {{ rcv_buf = "{4 * size * PACKET} B" }}\n')
    return file(seconds, "ab", [path], [flow])


def proxy(packets: int) -> Callable[[int, float], str]:
    """n flows through a split-TCP proxy."""
    def text(size: int, seconds: float) -> str:
        noise = 'noise = { kind = "random", loss = "0.1 %" }\n'
        links = [link("a", "b", 10 * size, 5, 10 * size), link("b", "c", size, 20, 10 * size, noise)]
        flows = [bulk(i, "a", "c", packets) for i in range(size)]
        gateway = '[[gateway]]\nkind = "pep"\nnode = "b"\nlink = "b-c"\n'
        return file(seconds, "abc", links, flows, stack(*CUBIC)) + gateway
    return text


def medium(kind: str, packets: int, more: str = "") -> Callable[[int, float], str]:
    """n stations on one power line, with a flow to each from the same modem."""
    def text(size: int, seconds: float) -> str:
        hosts = [f"n{i}" for i in range(size)]
        links = [f'name = "l{host}"\nkind = "{kind}"\nbetween = ["hub", "{host}"]\ncable = "line"\n{more}'
                 for host in hosts]
        flows = [bulk(i, "hub", host, packets) for i, host in enumerate(hosts)]
        return file(seconds, ["hub", *hosts], links, flows, stack(*NEWRENO))
    return text


def calls(size: int, seconds: float) -> str:
    """n calls over one link."""
    flows = [f'name = "f{i}"\nkind = "voip"\nfrom = "a"\nto = "b"' for i in range(size)]
    return file(min(seconds, 0.5), "ab", [link("a", "b", size, 5, 10 * size)], flows)


def changes(size: int, seconds: float) -> str:
    """A link that changes n times, 1 ms apart."""
    steps = ", ".join(f'{{ at = "{i} ms", rate = "{8 + i % 3} Mbit/s" }}' for i in range(size))
    flow = 'name = "f"\nkind = "cbr"\nfrom = "a"\nto = "b"\nrate = "6 Mbit/s"'
    path = f'name = "l"\nbetween = ["a", "b"]\ndelay = "5 ms"\ntimeline = [{steps}]'
    return file(min(seconds, size / 1e3), "ab", [path], [flow])


REORDERED = 'jitter = "10 ms"\nreorder = true\n'

AXES = {
    "links in a chain": Axis(chain(500), (10, 100, 1000), (10_000,), per="packet and link", elements="link", setup=1.2),
    "links with jitter in a chain": Axis(
        chain(100, 'jitter = "1 us"\n'), (10, 100), (1000,), per="packet and link", elements="link", factor=1.3),
    "flows through a bottleneck": Axis(
        bottleneck(NEWRENO, 10), (100, 1000), (10_000, 100_000), elements="flow", factor=1.3, setup=1.2),
    "flows with a host each": Axis(bottleneck(NEWRENO, 20, access=True), (10, 100), (1000, 10_000), elements="host"),
    "flows with bbr": Axis(bottleneck(BBR, 20), (), (10, 100, 1000, 10_000), elements="flow"),
    "flows with fq_codel": Axis(
        bottleneck(NEWRENO, 20, more='qdisc = { kind = "fq_codel" }\n'), (10, 100), (1000, 10_000), elements="flow"),
    "flows through a proxy": Axis(proxy(20), (10, 100), (1000,), elements="flow", factor=1.5),
    "calls": Axis(calls, (), (10, 100, 1000, 10_000), elements="call"),
    "independent groups": Axis(groups(20), (100, 1000), (10_000,), elements="group", factor=1.3, setup=1.2),
    "Green PHY stations": Axis(medium("greenphy", 10), (10, 100), (300,), elements="station", factor=3),
    "HD-PLC stations": Axis(
        medium("hdplc", 10, 'rate = "18.62 Mbit/s"\n'), (10, 100), (300,), elements="station", factor=3),
    "queue, packets": Axis(full_queue(), (100, 1000, 10_000), (100_000,), factor=1.3),
    "queue with codel": Axis(full_queue('qdisc = { kind = "codel" }\n'), (), (100, 1000, 10_000, 100_000)),
    "queue with fq_codel": Axis(full_queue('qdisc = { kind = "fq_codel" }\n'), (1000, 10_000), (100_000,)),
    "window of newreno, packets": Axis(window(NEWRENO), (100, 1000, 10_000), (100_000,)),
    "window of cubic": Axis(window(CUBIC), (100, 1000, 10_000), (100_000,)),
    "window of bbr": Axis(window(BBR), (100, 1000, 10_000), (100_000,)),
    "window of cubic, reordered": Axis(window(CUBIC, more=REORDERED), (), (1000, 10_000, 100_000)),
    "window of bbr, reordered": Axis(window(BBR, more=REORDERED), (1000, 10_000), (100_000,)),
    "window of sctp": Axis(sctp, (100, 1000, 10_000), (30_000,)),
    "losses of bbr in 10,000 packets": Axis(loss(BBR, 10_000), (1, 10, 100, 1000)),
    "losses of cubic in 10,000 packets": Axis(loss(CUBIC, 2000), (), (1, 10, 100, 1000)),
    "changes of a link": Axis(changes, (100, 1000), (10_000, 100_000), per="change", factor=1.2),
}
