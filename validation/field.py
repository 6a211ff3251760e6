#!/usr/bin/env python3
"""Measure gateways on real packets beside plain forwarding, and beside the simulation of the same network.

Experiments (`--only NAME`, several times):

- `speed`: packets per second of one processor. A generator sends both directions of 40 TCP connections as fast as
  possible. `bridge.c` forwards between two devices without looking at packets. `accept.c` accepts packets at a
  netfilter queue. A gateway works at the same two places.
- `latency`: round trips of one byte over an idle connection through the same four programs.
- `kills`: the gateway at netfilter queues is killed (SIGKILL) 50 times under traffic. Traffic must go on, and neither
  rules nor sockets may remain.
- `home`: two downloads over an emulated home power line, with Linux at the ends, and a stream of small datagrams like a
  voice call. Without a gateway, with `mizutani` and with `muniz`, beside the simulation of the same network.
- `train`: a download to a train through outages of 1 to 60 s, with emulated coverage. Plain Linux, `avoca-rx` on the
  train, `avoca` in the server's kernel, and both, beside the simulation. `avoca` needs `make kernel`.
- `satellite`: curl downloads over a link that becomes a satellite's and returns. Plain Linux, the split-TCP proxy `pep`
  and PEPsal at the hub, beside the simulation.
- `load`: `pep` with 10,000 connections at once, its memory, and its throughput on one processor, beside PEPsal and
  plain forwarding.

Rounds of programs that are compared alternate.

All of it runs in namespaces for processes, mounts and the network that the kernel removes with the script. Needs root,
a C compiler, curl and iperf3; exit code 3 without them. PEPsal is optional. `--page` writes the tables into
docs/validation/field.md.
"""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from field import load, satellite
from field.common import WORK, Path2, cable, cpu, host, program, sh, table
from roughlink_validation import cli, page
from roughlink_validation.emulators import APART, NEEDED, PREPARE
from roughlink_validation.paper_plc import jain
from roughlink_validation.simulators import Failed, Missing

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent / "docs" / "validation" / "field.md"
INSIDE = "--inside"
MODULES = {"satellite": satellite, "load": load}
EXPERIMENTS = ("speed", "latency", "kills", "home", "train", *MODULES)
GATEWAY = "muniz"


@contextlib.contextmanager
def forwarder(o, kind: str):
    """Runs one of the four programs on the machine, with the path that it needs."""
    between = kind in ("bridge", "gateway between devices")
    path = Path2(routes=not between)
    if kind == "bridge":
        running = program("m", [WORK / "bridge", "toa", "tob"])
    elif kind == "accept":
        for way in ("-i", "-o"):
            sh(f"ip netns exec m iptables -t mangle -A FORWARD {way} toa -p tcp -j NFQUEUE --queue-num 5 "
               "--queue-bypass")
        running = program("m", [WORK / "accept", "5"])
    else:
        place = ["--between", "toa", "tob"] if between else ["--queue", "5", "--install", "--inside", "toa"]
        running = program("m", [o.roughlink, "gateway", "run", GATEWAY, *place], "press Ctrl-C")
    with running as child:
        yield path, child


def mac(namespace: str, device: str) -> str:
    return json.loads(sh(f"ip -n {namespace} -j link show {device}"))[0]["address"]


def received(_) -> int:
    """Returns the number of packets that the devices of the generator received."""
    stats = (json.loads(sh(f"ip -n a -s -j link show {d}"))[0]["stats64"]["rx"]["packets"] for d in ("eth0", "eth1"))
    return sum(stats)


def segments(o) -> int:
    """Returns the number of segments that the gateway processed; the kernel forwards others unseen."""
    return json.loads(sh(f"{o.roughlink} gateway stat --json"))["packets"]["segments"]


def pair(kind: str) -> str:
    return {"gateway between devices": "bridge", "gateway at a queue": "accept"}[kind]


def speed(o) -> dict:
    """Floods each program and returns packets per second and per second of processor time, by program."""
    rates = {}
    for _ in range(o.rounds):
        for kind in ("bridge", "gateway between devices", "accept", "gateway at a queue"):
            with forwarder(o, kind) as (_, child):
                # The generator needs both devices in one namespace.
                sh("ip -n b link set eth0 netns a name eth1")
                sh("ip -n a link set eth1 up addrgenmode none")
                peers = ["02:00:00:00:09:02", "02:00:00:00:09:02"]
                if kind in ("accept", "gateway at a queue"):
                    peers = [mac("m", "toa"), mac("m", "tob")]
                    for n, (host, last) in enumerate((("a", "02"), ("b", "02")), 1):
                        sh(f"ip -n m neigh replace 10.9.{n}.2 lladdr 02:00:00:00:09:{last} dev to{host} nud permanent")
                flood = ["ip", "netns", "exec", "a", str(WORK / "flood"), "eth0", "eth1", *peers, str(o.seconds), "40",
                         "1448"]
                count = segments if kind.startswith("gateway") else received
                before, spent, began = count(o), cpu(child), time.monotonic()
                subprocess.run(flood, check=True, stdout=subprocess.DEVNULL)
                passed = time.monotonic() - began
                packets, spent = count(o) - before, cpu(child) - spent
                rates.setdefault(kind, []).append((packets / passed, packets / max(spent, 0.01)))
    return {kind: {"per_s": statistics.median(r for r, _ in all), "per_cpu_s": statistics.median(c for _, c in all)}
            for kind, all in rates.items()}


def latency(o) -> dict:
    """Returns p50 and p99 of a round trip, us, by program; `direct` is the kernel alone."""
    all, ends = {}, [sys.executable, str(HERE / "field" / "ends.py")]
    for _ in range(o.rounds):
        for kind in ("bridge", "gateway between devices", "accept", "gateway at a queue"):
            with forwarder(o, kind) as (path, _), program("b", [*ends, "echo", path.address]):
                ping = ["ip", "netns", "exec", "a", *ends, "ping", path.address, "2000"]
                done = subprocess.run(ping, capture_output=True, text=True)
                if done.returncode != 0:
                    raise Failed(f"{kind}: {done.stderr}")
                all.setdefault(kind, []).append([ns / 1e3 for ns in json.loads(done.stdout)[100:]])
    median = lambda runs, q: statistics.median(cli.quantile(run, q) for run in runs)
    return {kind: {"p50_us": median(runs, 0.5), "p99_us": median(runs, 0.99)} for kind, runs in all.items()}


def rules() -> str:
    out = sh("ip netns exec m iptables-save -t mangle") + sh("ip netns exec m ip6tables-save -t mangle")
    if shutil.which("nft"):
        out += sh("ip netns exec m nft list ruleset")
    return "\n".join(line for line in out.splitlines() if "roughlink" in line)


def kills(o) -> dict:
    """Kills the gateway under traffic; returns the number of kills and of faults."""
    path = Path2(routes=True)
    with program("b", ["iperf3", "-s", "-1"]):
        client = subprocess.Popen(["ip", "netns", "exec", "a", "iperf3", "-c", path.address, "-R", "-b", "50M", "-t",
                                   "600", "--forceflush", "-i", "0.1", "-f", "m"], stdout=subprocess.DEVNULL)
        seen = lambda: json.loads(sh("ip -n a -s -j link show eth0"))[0]["stats64"]["rx"]["packets"]

        def goes_on() -> bool:
            before, until = seen(), time.monotonic() + 5
            while seen() < before + 200:
                if time.monotonic() > until:
                    return False
                time.sleep(0.01)
            return True

        result = {"kills": 0, "stalled": 0, "rules_left": 0, "sockets_left": 0}
        try:
            for n in range(o.kills):
                with program("m", [o.roughlink, "gateway", "run", GATEWAY, "--queue", "5", "--install", "--inside",
                                   "toa"], "press Ctrl-C") as child:
                    stalled = not goes_on()
                    time.sleep(n % 10 / 50)
                    child.kill()
                    child.wait()
                result["kills"] += 1
                result["stalled"] += stalled or not goes_on()
                time.sleep(1)
                result["rules_left"] += bool(rules())
                result["sockets_left"] += any(Path("/run/roughlink").glob("gateway-*.sock"))
        finally:
            client.kill()
            client.wait()
    return result


HOME_RTT_MS = {"japan": 29, "usa": 89}
HOME = """
duration = "600 s"
node = [{{ name = "modem1" }}, {{ name = "modem2" }}]
[[link]]
name = "plc"
kind = "hdplc"
between = ["modem1", "modem2"]
rate = "18.62 Mbit/s"
queue = "256 pkt"
noise = {{ kind = "inverter45" }}
mac = {{ duplex = "full" }}
"""


def home_network() -> None:
    """japan - delay - router - gateway - power line - house, and usa likewise."""
    for name in ("japan", "usa", "djapan", "dusa", "router", "gate", "plc", "house"):
        host(name)
    for n, server in enumerate(HOME_RTT_MS, 1):
        cable(server, "eth0", f"d{server}", "in")
        cable(f"d{server}", "out", "router", server)
        sh(f"ip -n {server} addr add 10.9.{n}.2/24 dev eth0")
        sh(f"ip -n {server} route add default via 10.9.{n}.1")
        sh(f"ip -n router addr add 10.9.{n}.1/24 dev {server}")
    cable("router", "lan", "gate", "outer")
    cable("gate", "inner", "plc", "modem1")
    cable("plc", "modem2", "house", "eth0")
    sh("ip -n router addr add 10.9.9.1/24 dev lan")
    sh("ip -n house addr add 10.9.9.2/24 dev eth0")
    sh("ip -n house route add default via 10.9.9.1")
    sh("ip netns exec router sysctl -qw net.ipv4.ip_forward=1")


def home_run(o, kind: str, cc: str) -> dict:
    """Returns rates, Jain's index and the delay of the call in the emulated home."""
    home_network()
    (WORK / "home.toml").write_text(HOME.format())
    gateway = ["gateway", "run", kind if kind != "none" else GATEWAY, "--between", "inner", "outer"]
    gateway += ["--dry-run"] if kind == "none" else []
    with contextlib.ExitStack() as stack:
        for server, delay in HOME_RTT_MS.items():
            words = [o.roughlink, "link", "--between", "in,out", "--rate", "100Mbit/s", "--delay", f"{delay} ms",
                     "--queue", "1000 pkt", "--max-lateness", "10 s"]
            stack.enter_context(program(f"d{server}", words, "in"))
        words = [o.roughlink, "emulate", WORK / "home.toml", "--interface", "modem1=modem1", "--interface",
                 "modem2=modem2", "--max-lateness", "10 s"]
        stack.enter_context(program("plc", words, "attached"))
        stack.enter_context(program("gate", [o.roughlink, *gateway], "press Ctrl-C"))
        for port in (5201, 5202):
            stack.enter_context(program("house", ["iperf3", "-s", "-p", port]))
        time.sleep(1)
        clients = []
        for n, server in enumerate(HOME_RTT_MS, 1):
            words = ["iperf3", "-c", "10.9.9.2", "-p", str(5200 + n), "-C", cc, "-t", str(o.home_seconds - 5 * (n - 1)),
                     "-O", str(10 - 5 * (n - 1)), "-J"]
            clients.append(subprocess.Popen(["ip", "netns", "exec", server, *words], stdout=subprocess.PIPE, text=True))
            if n == 1:
                time.sleep(5)
        delays = call(o)
        rates = [json.loads(client.communicate()[0])["end"]["sum_received"]["bits_per_second"] / 1e6
                 for client in clients]
    return {"rates": rates, "jain": jain(rates), "call_p50_ms": cli.quantile(delays, 0.5),
            "call_p99_ms": cli.quantile(delays, 0.99)}


def call(o) -> list[float]:
    """Receives the call's datagrams in the house while the downloads run; returns their delays, ms."""
    ends = [sys.executable, str(HERE / "field" / "ends.py")]
    receiver = subprocess.Popen(["ip", "netns", "exec", "house", *ends, "listen", "10.9.9.2"], stdout=subprocess.PIPE,
                                text=True)
    time.sleep(5)
    seconds = o.home_seconds - 15
    subprocess.run(["ip", "netns", "exec", "japan", *ends, "call", "10.9.9.2", str(seconds)], check=True)
    delays = json.loads(receiver.communicate()[0])
    if len(delays) < 10 * seconds:
        raise Failed(f"only {len(delays)} datagrams of the call arrived")
    return delays


def home_simulated(o, kind: str, cc: str) -> dict:
    sets = ["tcp.stack=linux", f"tcp.cc={cc}", "tcp.rcv_buf=6 MB", "tcp.snd_buf=4 MB", f"duration={o.home_seconds} s",
            f"gateway.modem.kind={kind}", "flow.flow2.start=5 s"]
    sets += [] if kind == "none" else ["gateway.modem.params.backlog=estimate"]
    words = [str(o.roughlink), "run", "plc-2-flows", "--json", *(w for s in sets for w in ("--set", s))]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(done.stderr)
    result = json.loads(done.stdout)
    rates = [flow["throughput_mbps"] for flow in result["flows"]]
    queue = next(link for link in result["links"] if link["name"] == "plc")["forward"]["queue_delay_ms"]
    return {"rates": rates, "jain": jain(rates), "queue_p50_ms": queue["p50"], "queue_p99_ms": queue["p99"]}


def home(o) -> list[dict]:
    rows = []
    for cc in ("cubic", "reno"):
        for kind in ("none", "mizutani", "muniz"):
            cli.progress(f"home: {cc}, {kind}")
            emulated = home_run(o, kind, cc)
            rows.append({"cc": cc, "gateway": kind, "emulated": emulated,
                         "simulated": home_simulated(o, kind, "newreno" if cc == "reno" else cc)})
    return rows


TRAIN = """
duration = "{end} s"
node = [{{ name = "server" }}, {{ name = "train" }}]
tcp = {{ stack = "linux", cc = "cubic" }}
[[link]]
name = "air"
between = ["server", "train"]
rate = "20 Mbit/s"
delay = "10 ms"
queue = "100 pkt"
[[gateway]]
name = "agent"
node = "train"
kind = "none"
[[coverage]]
name = "line"
link = "air"
associate = "500 ms"
configure = "1 s"
notice = "10 ms"
warning = "1 s"
timetable = [{{ arrive = "0 s", depart = "15 s" }}, {{ arrive = "{back} s", depart = "{last} s" }}]
"""
DOWNLOAD = '[[flow]]\nname = "download"\nkind = "bulk"\nfrom = "server"\nto = "train"\nstart = "2 s"\n'
# Algorithm of the sender and gateway on the train.
REMEDIES = {"plain cubic": ("cubic", False), "plain bbr": ("bbr", False), "avoca-rx, cubic": ("cubic", True),
            "avoca-rx, bbr": ("bbr", True), "avoca": ("avoca", False), "avoca-rx and avoca": ("avoca", True)}


def train(o) -> list[dict]:
    rows = []
    with loaded(o) as there:
        for outage in o.outages:
            scenario = TRAIN.format(back=15 + outage, last=15 + outage + 20, end=15 + outage + 21)
            (WORK / "train.toml").write_text(scenario)
            (WORK / "simulated.toml").write_text(scenario + DOWNLOAD)
            for name, (cc, gateway) in REMEDIES.items():
                if cc not in there:
                    print(f"skipped: {name}: the kernel has no {cc}", file=sys.stderr)
                    continue
                cli.progress(f"train: {outage} s, {name}")
                rows.append({"outage": outage, "remedy": name, "emulated": train_run(o, outage, cc, gateway),
                             "simulated": train_simulated(o, cc, gateway)})
    return rows


@contextlib.contextmanager
def loaded(o):
    """Loads `avoca` during the block, if the program can; yields the algorithms of the kernel."""
    done = subprocess.run([o.roughlink, "cc", "load", "avoca", "--pin"], capture_output=True, text=True)
    try:
        yield Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    finally:
        if done.returncode == 0:
            subprocess.run([o.roughlink, "cc", "unload", "avoca"], capture_output=True)


def train_run(o, outage: int, cc: str, gateway: bool) -> dict:
    seconds = 15 + outage + 20
    started = WORK / "started"
    started.unlink(missing_ok=True)
    words = [o.roughlink, "emulate", WORK / "train.toml", "--quiet", "--max-lateness", "10 s", "--until", "train",
             "--exec", "server", "--", sys.executable, HERE / "field" / "server.py", started,
             "--exec", "train", "--", sys.executable, HERE / "field" / "train.py", o.roughlink,
             WORK / "train.toml", seconds, cc, int(gateway)]
    emulation = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with contextlib.ExitStack() as stack:
        # At the nodes, /sys has no algorithms, so the server's agent runs outside.
        while cc == "avoca" and not started.exists() and emulation.poll() is None:
            time.sleep(0.005)
        if cc == "avoca":
            agent = [o.roughlink, "agent", "--replay", WORK / "train.toml", "--socket", WORK / "server.sock", "--avoca",
                     "avoca"]
            running = subprocess.Popen([str(w) for w in agent], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            stack.callback(running.wait)
            stack.callback(running.terminate)
        stdout, stderr = emulation.communicate()
    found = next((line for line in stdout.splitlines() if '"waits"' in line), None)
    if found is None:
        raise Failed(f"{stdout}\n{stderr}")
    result = json.loads(found[found.index("{"):])
    return {"mb": result["bytes"] / 1e6, "wait_s": result["waits"][-1] if result["waits"] else None}


def train_simulated(o, cc: str, gateway: bool) -> dict:
    sets = [f"flow.download.cc={cc}", *(["gateway.agent.kind=avoca-rx"] if gateway else [])]
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        words = [str(o.roughlink), "sweep", str(WORK / "simulated.toml"), "--replicas", "1", "--metric", "resume_s",
                 "--metric", "covered_mb", "--json", "--quiet", "-o", folder, *(w for s in sets for w in ("--set", s))]
        done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(done.stderr)
    cells = {cell["metric"]: cell["measured"] for cell in json.loads(done.stdout)["cells"]}
    return {"mb": cells.get("covered_mb"), "wait_s": cells.get("resume_s")}


def text(results: dict) -> str:
    parts = []
    if found := results.get("speed"):
        rows = [[kind, f"{row['per_s'] / 1e3:,.0f}", f"{row['per_cpu_s'] / 1e3:,.0f}",
                 f"{row['per_cpu_s'] / found[pair(kind)]['per_cpu_s']:.0%}" if kind.startswith("gateway") else ""]
                for kind, row in found.items()]
        parts.append(table(["program", "1,000 packets/s", "1,000 packets per s of processor time",
                            "of the plain program"], rows))
    if found := results.get("latency"):
        rows = [[kind, f"{row['p50_us']:.0f}", f"{row['p99_us']:.0f}"] for kind, row in found.items()]
        parts.append(table(["round trip of one byte through", "p50 us", "p99 us"], rows))
    if found := results.get("kills"):
        parts.append(f"Of {found['kills']} kills, traffic stopped after {found['stalled']}; rules remained after "
                     f"{found['rules_left']}, sockets after {found['sockets_left']}.")
    if found := results.get("home"):
        rows = []
        for row in found:
            for where in ("emulated", "simulated"):
                r = row[where]
                delay = f"{r['call_p50_ms']:.0f} / {r['call_p99_ms']:.0f}" if where == "emulated" else \
                    f"{r['queue_p50_ms']:.0f} / {r['queue_p99_ms']:.0f} (queue)"
                rows.append([row["cc"], row["gateway"], where, f"{r['rates'][0]:.1f} + {r['rates'][1]:.1f}",
                             f"{r['jain']:.3f}", delay])
        parts.append(table(["ends", "gateway", "", "Mbit/s", "Jain's index", "delay p50 / p99, ms"], rows))
    if found := results.get("train"):
        number = lambda x, digits: "-" if x is None else f"{x:.{digits}f}"
        rows = [[f"{row['outage']} s", row["remedy"], *(number(row[where][key], digits)
                 for key, digits in (("wait_s", 2), ("mb", 0)) for where in ("emulated", "simulated"))]
                for row in found]
        parts.append(table(["outage", "remedy", "wait, emulated, s", "simulated", "MB, emulated", "simulated"], rows))
    return "\n\n".join(parts)


def inside(o) -> None:
    WORK.mkdir()
    for name in ("flood", "bridge", "accept"):
        sh(f"cc -O2 -o {WORK / name} {HERE / 'field' / name}.c")
    experiments = {"speed": speed, "latency": latency, "kills": kills, "home": home, "train": train}
    experiments |= {name: module.measure for name, module in MODULES.items()}
    results = {}
    for name in o.only or EXPERIMENTS:
        cli.progress(name)
        results[name] = experiments[name](o)
    cli.progress_end()
    print(json.dumps(results))


def main() -> int:
    parser = cli.parser(__doc__)
    parser.add_argument("--only", action="append", choices=EXPERIMENTS, help="this experiment; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="alternating rounds (default 5)")
    parser.add_argument("--seconds", type=float, default=3, metavar="S", help="length of a flood (default 3)")
    parser.add_argument("--home-seconds", type=int, default=45, metavar="S", help="length of a download (default 45)")
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="number of kills (default 50)")
    parser.add_argument("--outages", type=int, nargs="+", default=[1, 5, 20, 60], metavar="S",
                        help="outages of `train` (default 1 5 20 60)")
    parser.add_argument("--satellite-rounds", type=int, default=3, metavar="N",
                        help="alternating rounds of `satellite` (default 3)")
    parser.add_argument("--load-seconds", type=int, default=5, metavar="S",
                        help="length of a transfer of `load` (default 5)")
    parser.add_argument("--connections", type=int, default=10_000, metavar="N",
                        help="connections of `load` at once (default 10000)")
    parser.add_argument("--pepsal", type=Path, metavar="PATH",
                        help="the program pepsal, for rows of `satellite` and `load` (default: from the PATH)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--page", action="store_true", help="write the tables into docs/validation/field.md")
    parser.add_argument(INSIDE, action="store_true", help="the part inside the namespaces, for the script itself")
    o = parser.parse_args()
    o.roughlink = o.roughlink.resolve()
    if o.inside:
        inside(o)
        return 0
    if os.geteuid() != 0:
        raise Missing("the measurements need root")
    for name in (*NEEDED, "cc", "curl", "iperf3", "iptables", "taskset"):
        if not shutil.which(name):
            raise Missing(f"{name} is not installed")
    words = [sys.executable, __file__, *sys.argv[1:], INSIDE]
    quoted = " ".join(f"'{word}'" for word in words)
    done = subprocess.run([*APART, "sh", "-c", f"{PREPARE}exec {quoted}"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        return done.returncode
    results = json.loads(done.stdout)
    # Each module has separate marks on the page, so that `--only` can renew one table.
    tables = {"field.py": text(results)}
    tables |= {f"field.py {name}": module.text(results[name]) for name, module in MODULES.items() if name in results}
    tables = {marks: table for marks, table in tables.items() if table}
    print(json.dumps(results, indent=2) if o.json else "\n\n".join(tables.values()))
    for marks, table in tables.items() if o.page else ():
        page.renew(PAGE, marks, table)
    return 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
