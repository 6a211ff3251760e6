"""PEPsal, the split-TCP proxy of CNES, at a router. Nothing of it is part of this repository."""

import contextlib
import shutil
import sys
from pathlib import Path

from field.common import program, sh
from roughlink_validation.simulators import Failed

CONNECTIONS = 20_000
# Two sockets and two pipes per connection.
FILES_EACH = 6


def found(o) -> Path | None:
    """Returns the program that `--pepsal` or the PATH names, and says which rows are left out without it."""
    path = o.pepsal or shutil.which("pepsal")
    if path is None:
        print("skipped: rows of PEPsal: pepsal is not on the PATH; name it with --pepsal", file=sys.stderr)
    return path and Path(path).resolve()


@contextlib.contextmanager
def running(path: Path, namespace: str, device: str, cc: str, prefix: tuple[str, ...] = ()):
    """Splits the connections whose SYNs enter the router at `device`, with `cc` of the kernel on both sides.

    `prefix` is a command that runs PEPsal, such as `taskset`.
    """
    # PEPsal's option -C sets the algorithm of one side only. The sysctl refuses restricted algorithms in a namespace.
    for line in sh(f"ip -n {namespace} -4 route show scope link").splitlines():
        sh(f"ip -n {namespace} route replace {line} congctl {cc}")
    sh(f"ip -n {namespace} rule add fwmark 1 lookup 100")
    sh(f"ip -n {namespace} route add local default dev lo table 100")
    sh(f"ip netns exec {namespace} iptables -t mangle -A PREROUTING -i {device} -p tcp -j TPROXY --on-port 5000 "
       "--tproxy-mark 1")
    with program(namespace, [*prefix, path, "-c", CONNECTIONS]) as child:
        if child.poll() is not None:
            raise Failed(f"{path} ended at once; it needs CAP_SYS_RESOURCE to raise its limit of open files")
        yield child
