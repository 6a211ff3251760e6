#!/usr/bin/env python3
"""Runs pySLAC and then an ISO 15118-2 session of iso15118 over the emulated charging cable.

pySLAC 0.8.3 is the station and sets the key of its modem. pySLAC has no car, so crates/roughlink-cli/tests/slac.py is
the car. Once the modems have joined, SECC and EVCC of iso15118 0.31.2 run a DC session between the same namespaces. The
answer times come from the capture: V2GTP frames at the car's end, as tshark shows them. `roughlink report` must find
the same times. iso15118 encodes EXI in a slow Java program, so the session may end with a time-out of the car. The
script reports how far it came.

With --strict, exit code 5 unless SLAC matches, both modems join, messages cross the cable in both directions, and the
times agree. Needs namespaces, Java and tshark. Each package is installed into a separate environment.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from roughlink_validation import cli
from roughlink_validation.simulators import Failed, Missing

ROOT = Path(__file__).resolve().parent.parent
CAR = ROOT / "crates/roughlink-cli/tests/slac.py"
V2GTP_EXI = bytes.fromhex("01fe8001")

# pySLAC's station for one car, without the control pilot that a real station has.
STATION = """
import asyncio, sys
from pyslac.environment import Config
from pyslac.enums import STATE_MATCHED
from pyslac.session import SlacEvseSession

async def main():
    config = Config()
    config.load_envs()
    session = SlacEvseSession("DE*ABC*E1", sys.argv[1], config)
    await session.evse_set_key()
    print("pyslac: key set", flush=True)
    await session.evse_slac_parm()
    await session.atten_charac_routine()
    print("pyslac: matched" if session.state == STATE_MATCHED else "pyslac: not matched", flush=True)
    print("pyslac: link answered" if await session.is_link_status_active() else "pyslac: no link", flush=True)

asyncio.run(main())
"""


def environment(name: str) -> Path:
    """Returns the Python of an environment with the package, installed on first use."""
    folder = ROOT / "target" / f"{name}-env"
    done = subprocess.run([ROOT / ".ci/venv", folder, f"validation/requirements-{name}.txt"], cwd=ROOT)
    if done.returncode != 0:
        raise Missing(f"{name} cannot be installed")
    return folder / "bin/python"


def run(roughlink: Path, work: Path, settle_s: float) -> tuple[dict, dict[str, str]]:
    """Runs SLAC and a session. Returns the result and the output of each node."""
    pyslac, iso15118 = environment("pyslac"), environment("iso15118")
    (work / "station.py").write_text(STATION)
    found = subprocess.run([iso15118, "-c", "import iso15118; print(iso15118.__path__[0])"], capture_output=True)
    config = Path(found.stdout.decode().strip()) / "shared/examples/evcc/iso15118_2/evcc_config_eim_dc.json"
    secc = f"NETWORK_INTERFACE=cable0 SECC_ENFORCE_TLS=false {iso15118} -m iso15118.secc.main"
    evcc = f"NETWORK_INTERFACE=net0 timeout 120 {iso15118} -m iso15118.evcc.main {config}"
    # The station waits ten seconds after it has set the key, and the Java machines take some to start.
    programs = {
        "station": f"{pyslac} station.py cable0; exec env {secc}",
        "car": f"sleep {settle_s}; python3 {CAR} car net0; sleep 5; {evcc}",
    }
    command = [roughlink, "emulate", "charging-cable", "--max-lateness", "1 s", "--until", "car", "-o", "out"]
    for node, program in programs.items():
        command += ["--exec", node, "--", "sh", "-c", program]
    # Exit code 3: the machine lacks something. The exit code of the car says how its session ended.
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, env=os.environ | {"LOG_LEVEL": "INFO"})
    summary = work / "out/summary.json"
    if done.returncode == 3:
        raise Missing(done.stderr.strip().splitlines()[-1])
    if not summary.exists():
        raise Failed(done.stderr)
    output = {node: (work / f"out/output-{node}.txt").read_text(errors="replace") for node in programs}
    return json.loads(summary.read_text()), output


def answers(capture: Path) -> list[float]:
    """Returns the answer times of the V2GTP requests in ms, as the car's end of the cable sees them."""
    fields = ["frame.time_epoch", "tcp.srcport", "tcp.dstport", "tcp.payload"]
    wanted = [part for field in fields for part in ("-e", field)]
    command = ["tshark", "-r", capture, "-Y", 'tcp.len > 0 and frame.interface_name contains "car:"', "-T", "fields"]
    rows = subprocess.run([*command, *wanted], capture_output=True, text=True, check=True).stdout.splitlines()
    times, client, asked = [], None, None
    for row in rows:
        at, source, _, payload = row.split("\t")
        if not bytes.fromhex(payload.replace(":", "")).startswith(V2GTP_EXI):
            continue
        client = client or source
        if source == client:
            asked = asked or float(at)  # a retransmission does not restart the time
        elif asked is not None:
            times.append((float(at) - asked) * 1000)
            asked = None
    return times


def judged(roughlink: Path, folder: Path) -> dict[str, list[tuple[str, str, float, int, int]]]:
    """Returns the tables of limits in the report: limit, side, longest time in ms, late ones, and all times."""
    page = folder / "report.html"
    subprocess.run([roughlink, "report", folder, "-o", page], check=True, capture_output=True)
    tables = {}
    for kind, table in re.findall(r"<h3>(SLAC|Session) of [^<]*</h3>(.*?)</table>", page.read_text(), re.S):
        rows = []
        for row in re.findall(r"<tr>(.*?)</tr>", table, re.S)[1:]:
            cells = [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S)]
            side, limit, longest, late, times = cells[1], cells[2], cells[6], cells[7], cells[8].split()[0]
            rows.append((limit, side, float(longest or 0), int(late), int(times)))
        tables.setdefault(kind, []).extend(rows)
    return tables


def agree(limits: list, times: list[float]) -> bool:
    """Compares number and maximum of the vehicle's times in the report with tshark."""
    ours = [(longest, number) for limit, _, longest, _, number in limits if limit == "V2G_EVCC_Msg_Timeout"]
    number = sum(number for _, number in ours)
    return number == len(times) > 0 and abs(max(longest for longest, _ in ours) / max(times) - 1) < 1e-3


def main() -> int:
    parser = cli.parser(__doc__)
    parser.add_argument("--strict", action="store_true", help="exit code 5 if a check fails")
    parser.add_argument("--settle", type=float, default=15, metavar="S", help="time before the car starts SLAC")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keep the result folder as DIR")
    options = parser.parse_args()
    for tool in ("java", "tshark"):
        if shutil.which(tool) is None:
            raise Missing(f"{tool} is not installed")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        result, output = run(options.roughlink.resolve(), work, options.settle)
        times = answers(work / "out/capture.pcapng")
        limits = judged(options.roughlink.resolve(), work / "out")
        if options.keep:
            shutil.copytree(work / "out", options.keep)
    printed = next((line for line in output["car"].splitlines() if line.startswith('{"stations"')), "{}")
    car = json.loads(printed)
    modems = {modem["node"]: modem for modem in result["modems"]}
    checks = {
        "pySLAC's key is set": "pyslac: key set" in output["station"],
        "pySLAC matches": "pyslac: matched" in output["station"],
        "pySLAC's request for the link is answered": "pyslac: link answered" in output["station"],
        "the car joins": car.get("linked") is True,
        "the modems join": [stay["peer"] for stay in modems["car"]["joined"]] == ["station"],
        "the session answers requests": len(times) > 0,
        "the report has the same times": agree(limits.get("Session", []), times),
        "the report judges SLAC": len({limit for limit, *_ in limits.get("SLAC", [])}) >= 5,
    }
    for check, holds in checks.items():
        print(f"{'yes' if holds else 'no':4}{check}")
    completed = "Communication session terminated" in output["car"]
    print(f"the session {'ran until SessionStop' if completed else 'ended early'}")
    print(f"attenuation that the station reported: {car.get('levels')}")
    for limit, side, longest, late, number in limits.get("SLAC", []) + limits.get("Session", []):
        if late:
            print(f"{late} of {number} times exceed {limit} of the {side}, the longest one with {longest:.0f} ms")
    if times:
        spread = ", ".join(f"p{q * 100:.0f} {cli.quantile(times, q):.0f}" for q in (0.5, 0.99))
        print(f"{len(times)} answers: {spread}, longest {max(times):.0f} ms")
    return cli.EXPECTATION if options.strict and not all(checks.values()) else 0


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
