"""A scenario in three forms: as flags of ns3/bulk.cc, as those of htsim/bulk.cpp, and as a roughlink TOML file.

    sa --(rate1, delay1)-- secc --(rate2, delay2, queue, noise)-- evcc      `groups` times, independent
"""

from dataclasses import dataclass, replace

# roughlink name -> ns-3 type. roughlink's `westwood` is Westwood+, its `reno` on the ns3 stack is `linux-reno`.
VARIANTS = {
    "newreno": "NewReno",
    "hybla": "Hybla",
    "highspeed": "HighSpeed",
    "htcp": "Htcp",
    "vegas": "Vegas",
    "scalable": "Scalable",
    "veno": "Veno",
    "bic": "Bic",
    "illinois": "Illinois",
    "westwood": "WestwoodPlus",
    "westwood-classic": "Westwood",
    "yeah": "Yeah",
    "cubic": "Cubic",
    "bbr": "Bbr",
    "linux-reno": "LinuxReno",
}


@dataclass(frozen=True)
class Scenario:
    cc: str = "newreno"
    rate1_mbps: float = 500.0
    rate2_mbps: float = 10.0
    delay1_ms: float = 9.1
    delay2_ms: float = 0.9
    queue: int = 100  # waiting packets, without the one on the wire
    mtu: int = 1500
    segment: int = 1460  # payload bytes; with timestamps 1460 is a 1512-byte packet, 1448 fits
    timestamps: bool = True
    sack: bool = True
    window_scaling: bool = True
    delayed_ack: int = 2
    delayed_ack_timeout_ms: float = 200.0
    snd_buf: int = 131072
    rcv_buf: int = 131072
    initial_window: int = 10
    min_rto_ms: float = 1000.0
    limited_transmit: bool = True
    data_retries: int = 6  # ns-3's default; the connection is abandoned after this many consecutive time-outs
    bytes: int = 10_000_000  # per flow, 0 = unlimited
    duration_s: float = 100_000.0
    seed: int = 1
    burst_start: float = 0.0  # probability that a packet starts a burst of 1 to 4
    random_loss: float = 0.0
    drop: tuple[int, ...] = ()  # arrival numbers at the car: the SYN is 0, every fragment counts
    groups: int = 1
    flows_per_group: int = 1
    queue_disc: str = "none"  # ns-3 only: "default" puts FqCoDel above the device queue
    recovery: str = "PrrRecovery"  # ns-3 only: or ClassicRecovery
    release: str = "3.44"  # of ns-3, which selects the stack
    send_size: int = 512  # bytes that the bulk application writes at once; ns-3's default
    link_overhead: int = 0  # roughlink only: bytes a link adds to each packet; ns-3's PPP header is 2

    def with_(self, **changes) -> "Scenario":
        return replace(self, **changes)

    def ns3_flags(self) -> list[str]:
        flags = {
            "variant": VARIANTS[self.cc],
            "rate1": bits_per_second(self.rate1_mbps),
            "rate2": bits_per_second(self.rate2_mbps),
            "delay1": nanoseconds(self.delay1_ms),
            "delay2": nanoseconds(self.delay2_ms),
            "queue": self.queue,
            "queue-disc": self.queue_disc,
            "mtu": self.mtu,
            "segment": self.segment,
            "timestamps": int(self.timestamps),
            "sack": int(self.sack),
            "window-scaling": int(self.window_scaling),
            "delayed-ack": self.delayed_ack,
            "delayed-ack-timeout": nanoseconds(self.delayed_ack_timeout_ms),
            "snd-buf": self.snd_buf,
            "rcv-buf": self.rcv_buf,
            "initial-window": self.initial_window,
            "min-rto": nanoseconds(self.min_rto_ms),
            "limited-transmit": int(self.limited_transmit),
            "recovery": self.recovery,
            "bytes": self.bytes,
            "send-size": self.send_size,
            "duration": f"{self.duration_s:.9g}s",
            "run": self.seed,
            "groups": self.groups,
            "flows-per-group": self.flows_per_group,
        }
        if self.data_retries != 6:
            flags["data-retries"] = self.data_retries
        if self.burst_start:
            flags["burst-start"] = repr(self.burst_start)
        if self.random_loss:
            flags["random-loss"] = repr(self.random_loss)
        if self.drop:
            flags["drop"] = ",".join(map(str, self.drop))
        return [f"--{key}={value}" for key, value in flags.items()]

    def htsim_flags(self) -> list[str]:
        flags = {
            "rate1": round(self.rate1_mbps * 1e6),
            "rate2": round(self.rate2_mbps * 1e6),
            "delay1": round(self.delay1_ms * 1e6),
            "delay2": round(self.delay2_ms * 1e6),
            "queue": self.queue,
            "mtu": self.mtu,
            "segment": self.segment,
            "window": self.rcv_buf,
            "burst-start": self.burst_start,
            "duration": self.duration_s,
            "seed": self.seed,
            "groups": self.groups,
            "flows-per-group": self.flows_per_group,
        }
        return [f"--{key}={value}" for key, value in flags.items()]

    def toml(self) -> str:
        lines = [
            'name = "side by side with ns-3"',
            f"seed = {self.seed}",
            f'duration = "{self.duration_s:.9g} s"',
            "",
            "[tcp]",
            f'stack = "{"ns3" if self.release == "3.44" else f"ns3-{self.release}"}"',
            *self._cc_lines(),
            f'mss = "{self.segment} B"',
            f'snd_buf = "{self.snd_buf} B"',
            f'rcv_buf = "{self.rcv_buf} B"',
            f"sack = {toml_bool(self.sack)}",
            f"timestamps = {toml_bool(self.timestamps)}",
            f"window_scaling = {toml_bool(self.window_scaling)}",
            f"initial_window = {self.initial_window}",
            f"delayed_ack = {self.delayed_ack}",
            f'delayed_ack_timeout = "{self.delayed_ack_timeout_ms:.9g} ms"',
            f'min_rto = "{self.min_rto_ms:.9g} ms"',
            f"limited_transmit = {toml_bool(self.limited_transmit)}",
            f"data_retries = {self.data_retries}",
            f'write_size = "{self.send_size} B"',
        ]
        for group in range(self.groups):
            lines += self._group_lines("" if self.groups == 1 else str(group))
        return "\n".join(lines) + "\n"

    def _cc_lines(self) -> list[str]:
        lines = [f'cc = "{"reno" if self.cc == "linux-reno" else self.cc}"']
        if self.cc == "bbr":
            lines.append(f"cc_params = {{ phase_seed = {self.seed} }}")
        return lines

    def _group_lines(self, suffix: str) -> list[str]:
        lines = []
        for node in ("sa", "secc", "evcc"):
            lines += ["", "[[node]]", f'name = "{node}{suffix}"']
        links = (
            ("internet", "sa", "secc", self.rate1_mbps, self.delay1_ms),
            ("plc", "secc", "evcc", self.rate2_mbps, self.delay2_ms),
        )
        for name, left, right, rate, delay in links:
            lines += [
                "",
                "[[link]]",
                f'name = "{name}{suffix}"',
                f'between = ["{left}{suffix}", "{right}{suffix}"]',
                f'rate = "{round(rate * 1e6)} bit/s"',
                f'delay = "{round(delay * 1e6)} ns"',
                f'queue = "{self.queue} pkt"',
                f'mtu = "{self.mtu} B"',
            ]
            if self.link_overhead:
                lines.append(f'overhead = "{self.link_overhead} B"')
            if name == "plc" and self._noise():
                lines.append(f"noise = {self._noise()}")
        for flow in range(self.flows_per_group):
            number = "" if self.flows_per_group == 1 else f"-{flow}"
            lines += [
                "",
                "[[flow]]",
                f'name = "download{suffix}{number}"',
                'kind = "bulk"',
                f'from = "sa{suffix}"',
                f'to = "evcc{suffix}"',
            ]
            if self.bytes:
                lines.append(f'bytes = "{self.bytes} B"')
        return lines

    def _noise(self) -> str:
        if self.drop:
            return f'{{ kind = "list", drop = [{", ".join(map(str, self.drop))}], direction = "forward" }}'
        if self.burst_start:
            return (
                f'{{ kind = "burst", start = "{percent(self.burst_start)}", length = [1, 4], direction = "forward" }}'
            )
        if self.random_loss:
            return f'{{ kind = "random", loss = "{percent(self.random_loss)}", direction = "forward" }}'
        return ""


def bits_per_second(mbps: float) -> str:
    return f"{round(mbps * 1e6)}bps"


def nanoseconds(ms: float) -> str:
    return f"{round(ms * 1e6)}ns"


def percent(share: float) -> str:
    return f"{share * 100:.12g} %"


def toml_bool(value: bool) -> str:
    return "true" if value else "false"
