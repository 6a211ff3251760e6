"""Products of sizes: two parts of a file, each small, whose product is large."""

import random

from roughlink_validation.hostile.cases import FAR, Bounds, Case, document, network
from roughlink_validation.hostile.scenarios import EVENTS

LINK = {"rate": "10 Mbit/s", "delay": "1 ms"}


class ProductMaker:
    """Generator of files in which two sizes multiply."""

    def __init__(self, rng: random.Random):
        self.r = rng
        self.tables = network()
        self.arguments = ["run", "scenario.toml", "--max-events", str(EVENTS)]
        self.files: dict[str, object] = {}
        self.bounds = Bounds()

    def case(self) -> Case:
        kind = self.r.choice([name for name in dir(self) if name.startswith("of_")])
        getattr(self, kind)(self.size(), self.size())
        arguments = self.arguments + (["--json"] if self.r.random() < 0.5 else [])
        files = {"scenario.toml": document(self.tables).encode()} | self.files
        places = ("scenario", "--set", "--cc", "runs")
        return Case(kind.removeprefix("of_"), arguments, files, self.bounds, places=places)

    def size(self) -> int:
        return self.r.choice([10, 100, 300, 1000, 3000])

    def grid(self, *words: str) -> None:
        """Turns the case into a sweep."""
        self.arguments = ["sweep", "scenario.toml", *words, "-o", "out", "--jobs", "1"]
        self.bounds = Bounds(cpu_s=4.0)

    def flows(self, n: int, **keys) -> None:
        flow = self.r.choice([{"kind": "bulk"}, {"kind": "bulk", "bytes": "1 kB"}, {"kind": "voip"}, {"kind": "web"},
                              {"kind": "cbr", "rate": "1 kbit/s"}, {"kind": "bulk", "transport": "sctp"},
                              {"kind": "onoff", "rate": "10 kbit/s", "on": "1 s", "off": "1 s"}])  # fmt: skip
        flow = {"from": "a", "to": "b"} | flow
        self.tables["flow"] = [{"name": f"f{i}", **flow} | {k: v(i) for k, v in keys.items()} for i in range(n)]

    # ---- Kinds, a method for each ------------------------------------------------------------------------------------

    def of_paths(self, n: int, m: int) -> None:
        """Makes flows from leaves at one end of a chain to its other end."""
        nodes, leaves = [f"n{i}" for i in range(m)], [f"leaf{i}" for i in range(n)]
        self.tables = network(nodes)
        self.tables["node"] += [{"name": leaf} for leaf in leaves]
        self.tables["link"] += [{"name": leaf, "between": [leaf, nodes[0]], **LINK} for leaf in leaves]
        self.flows(n, **{"from": lambda i: leaves[i], "to": lambda i: nodes[-1 - i % 2]})

    def of_coverage(self, n: int, m: int) -> None:
        self.flows(n)
        coverage = {"name": "c", "link": "l0"}
        if self.r.random() < 0.5:
            coverage["log"] = "log.csv"
            rows = "\n".join(f"{i},{-60 - 60 * (i % 2)}" for i in range(m * 10))
            self.files["log.csv"] = f"time_s,signal_dbm\n{rows}\n".encode()
        else:
            coverage["timetable"] = [{"name": f"s{i}", "arrive": f"{2 * i} s", "depart": f"{2 * i + 1} s"}
                                     for i in range(m)]  # fmt: skip
        self.tables |= {"duration": f"{20 * m} s", "coverage": [coverage]}
        if self.r.random() < 0.3:
            self.arguments += ["-o", "out", "--no-capture"]

    def of_gateways(self, n: int, m: int) -> None:
        """Makes a gateway at each link of a chain, or several at one link."""
        links = self.r.choice([1, m, m, m])
        self.tables = network([f"n{i}" for i in range(links + 1)])
        kind = self.r.choice(["none", "avoca-rx", "muniz", "mizutani"])
        if kind.startswith("m"):
            for link in self.tables["link"]:
                link.pop("rate"), link.pop("delay")
                link["kind"] = "hdplc"
        self.tables["gateway"] = [{"name": f"g{i}", "node": f"n{i % links}", "link": f"l{i % links}", "kind": kind,
                                   "params": {"table": {"capacity": self.r.choice([1, 1024, 65536])}}}
                                  for i in range(m)]  # fmt: skip
        self.flows(n, **{"from": lambda i: "n0", "to": lambda i: f"n{links}"})
        # Each gateway reports each flow.
        self.bounds = Bounds(results_mb=40)

    def of_timelines(self, n: int, m: int) -> None:
        """Makes links that all read the same file, or that all get a long timeline from an override."""
        self.tables["link"] = [{"name": f"l{i}", "between": ["a", "b"], **LINK} for i in range(n)]
        if self.r.random() < 0.5:
            # Several links between two nodes are refused.
            self.tables = network([f"n{i}" for i in range(n + 1)])
        if self.r.random() < 0.5:
            name = self.r.choice(["trace.csv", "./trace.csv"])
            for link in self.tables["link"]:
                link["timeline"] = self.r.choice([name, {"file": name, "repeat": "1 s"}])
            rows = "\n".join(f"{i / 1000},{i % 9 + 1}" for i in range(10 * m))
            self.files["trace.csv"] = f"time_s,rate_mbps\n{rows}\n".encode()
            self.bounds = Bounds(cpu_s=15, memory_mb=2500)  # the links may read 100 MB together
        else:
            steps = ", ".join(f'{{ at = "{i} ms", rate = "{i % 9 + 1} Mbit/s" }}' for i in range(min(m, 100_000 // n)))
            self.arguments += ["--set", f"link.*.timeline=[{steps}]"]

    def of_overrides(self, n: int, m: int) -> None:
        """Makes overrides that each apply to all elements of a list."""
        self.flows(n)
        for i in range(min(m, 1_000_000 // n)):
            self.arguments += ["--set", f"flow.*.start={i} ms" if self.r.random() < 0.9 else "flow.*.name=x"]
        self.bounds = Bounds(cpu_s=4.0)

    def of_noises(self, n: int, m: int) -> None:
        self.tables = network([f"n{i}" for i in range(n + 1)])
        for link in self.tables["link"]:
            link["noise"] = {"kind": "list", "drop": list(range(min(m, 1_000_000 // n)))}

    def of_lists(self, n: int, m: int) -> None:
        """Makes flows with long lists, most of which the program refuses."""
        self.flows(n)
        key = self.r.choice(["bytes", "start", "name", "cc", "cc_params", "messages", "tcp", "x"])
        for flow in self.tables["flow"]:
            flow[key] = [self.r.choice(["1 s", 1, "a"])] * min(m, 1_000_000 // n)

    def of_messages(self, n: int, m: int) -> None:
        """Makes errors in many places, each in a long line or with a long name."""
        self.flows(n)
        for flow in self.tables["flow"]:
            flow[self.r.choice(["x" * min(m, 1_000_000 // n), "from", "cc"])] = "y" * min(m, 1_000_000 // n)

    def of_axes(self, n: int, m: int) -> None:
        """Makes grids of many values and axes."""
        values = lambda count, unit: ",".join(f"{i + 1}{unit}" for i in range(count))  # noqa: E731
        self.flows(1)
        self.tables["duration"] = "10 ms"
        words = ["--set", f"seed={values(n, '')}"]
        words += ["--set", f"link.l0.delay={values(m if n * m <= 1000 or n * m > 1_000_000 else 1, ' ms')}"]
        for axis, unit in [("rate", " Mbit/s"), ("queue", " pkt"), ("mtu", "00 B")][: self.r.choice([0, 0, 1, 3])]:
            words += ["--set", f"link.l0.{axis}={values(self.r.choice([1, 2, 100]), unit)}"]
        self.grid(*words, "--replicas", self.r.choice(["1", "1", "2", "4294967295", *FAR[5:9]]))
        self.bounds = Bounds(cpu_s=15, results_mb=40)  # up to 20,000 runs and rows of the report

    def of_metrics(self, n: int, m: int) -> None:
        """Makes metrics of all flows in all cells."""
        self.flows(n := min(n, 300))
        self.tables["duration"] = "10 ms"
        names = ["throughput_mbps", "rtt_p95_ms", "segments", "throughput_mbps[0..0.005]"]
        words = [word for i in range(min(m, 300)) for word in ("--metric", f"{names[i % 4]}@f{i % n}")]
        cells = ",".join(str(i) for i in range(self.r.choice([1, 3, 10])))
        self.grid("--set", f"seed={cells}", "--replicas", self.r.choice(["1", "3"]), *words)

    def of_comparison(self, n: int, m: int) -> None:
        """Compares many files with many algorithms."""
        self.tables["duration"] = "10 ms"
        names = [f"scenario{i}.toml" for i in range(min(n, 100))]
        text = document(self.tables).encode()
        self.files = {name: text for name in names}
        count = min(m, 1000 // len(names))
        variants = ",".join(["cubic", *(f"newreno-sc{{min_ssthresh={i + 2}}}" for i in range(count))])
        self.arguments = ["compare", *names, "--cc", variants, "--replicas", "1", "-o", "out", "--jobs", "1"]
        self.bounds = Bounds(cpu_s=4.0, results_mb=10)
