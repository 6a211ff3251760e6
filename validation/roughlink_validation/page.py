"""Tables of a page about a comparison with Linux: ratios of goodput, and a map of links for the main block."""

import textwrap
from pathlib import Path

from roughlink_validation.matrix import ALGORITHMS
from roughlink_validation.simulators import Failed


def write(page: Path, cells: list[dict], summary) -> None:
    renew(page, "linux.py", tables(cells, summary))


def renew(page: Path, script: str, text: str) -> None:
    """Replaces the text between the script's two marks in the page with `text`."""
    before, _, after = divided(page, script)
    page.write_text(f"{before}\n\n{wrapped(text)}\n\n{after}")


def current(page: Path, script: str) -> str:
    """Returns the text between the script's two marks in the page."""
    return divided(page, script)[1].strip()


def divided(page: Path, script: str) -> tuple[str, str, str]:
    """Returns the page until the script's first mark, the text between the marks, and the page from the second mark."""
    begin, end = (f"<!-- {script} --page: {word} -->" for word in ("begin", "end"))
    before, found, rest = page.read_text().partition(begin)
    between, ended, after = rest.partition(end)
    if not (found and ended):
        raise Failed(f"{page} needs both {begin} and {end}")
    return before + begin, between, end + after


def wrapped(text: str) -> str:
    """Wraps prose at 120 columns; tables keep their lines."""
    prose = textwrap.TextWrapper(120, break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if line.startswith("|") else prose.fill(line) for line in text.split("\n"))


def table(rows: list[list[str]]) -> str:
    """Returns a table in Markdown; the first row is the heading."""
    heading, *others = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([heading, "|---" * len(rows[0]) + "|", *others])


def tables(cells: list[dict], summary) -> str:
    whole = summary(cells)
    sums = (
        f"{whole['cells']} cells, {whole['runs']} runs of the kernel. "
        f"Of |ratio - 1| the median is **{percent(whole['median_off'])}** "
        f"and the 90th percentile **{percent(whole['p90_off'])}**; "
        f"{whole['within_15']:.0%} of the cells are within 15 %. The median ratio is {whole['median_ratio']:.3f}."
    )
    parts = [sums]
    parts.append(by_part(cells, summary))
    for loss in (0, 1):
        parts.append(
            f"Goodput in simulation / under the kernel, {'no loss' if loss == 0 else '1 % of loss in bursts'}. "
            "Beyond 5 % in italics, beyond 15 % bold:"
        )
        parts.append(link_map([c for c in cells if c["block"] == f"{loss} % loss"]))
    edges = [c for c in cells if c["block"] not in ("0 % loss", "1 % loss")]
    parts.append("The edges of the matrix:")
    parts.append(edge_table(edges))
    return "\n\n".join(parts)


def percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def by_part(cells: list[dict], summary) -> str:
    groups = {}
    for key, name in (
        ("block", "{}"),
        ("cc", "{}"),
        ("rate_mbit", "{} Mbit/s"),
        ("delay_ms", "{} ms each way"),
        ("queue_pkt", "queue of {}"),
    ):
        for value in dict.fromkeys(c[key] for c in cells):
            groups[name.format(value)] = [c for c in cells if c[key] == value]
    lines = [
        "| part | cells | median ratio | \\|ratio - 1\\|: median | 90th percentile | within 15 % |",
        "|---|---|---|---|---|---|",
    ]
    for name, group in groups.items():
        s = summary(group)
        lines.append(
            f"| {name} | {s['cells']} | {s['median_ratio']:.3f} | {percent(s['median_off'])} | "
            f"{percent(s['p90_off'])} | {s['within_15']:.0%} |"
        )
    return "\n".join(lines)


def shade(ratio: float | None) -> str:
    if ratio is None:
        return ""
    off = abs(ratio - 1)
    return f"**{ratio:.2f}**" if off > 0.15 else f"*{ratio:.2f}*" if off > 0.05 else f"{ratio:.2f}"


def link_map(cells: list[dict]) -> str:
    at = {(c["cc"], c["queue_pkt"], c["rate_mbit"], c["delay_ms"]): c["ratio"] for c in cells}
    links = sorted({(c["rate_mbit"], c["delay_ms"]) for c in cells})
    lines = [
        "| Mbit/s, ms each way | " + " | ".join(f"{r}, {d}" for r, d in links) + " |",
        "|---" * (len(links) + 1) + "|",
    ]
    for queue in sorted({c["queue_pkt"] for c in cells}):
        for cc in ALGORITHMS:
            lines.append(
                f"| {cc}, queue {queue} | " + " | ".join(shade(at.get((cc, queue, *link))) for link in links) + " |"
            )
    return "\n".join(lines)


def edge_table(cells: list[dict]) -> str:
    at, rows = {}, {}
    for c in cells:
        link = f"{c['rate_mbit']} Mbit/s, {c['delay_ms']} ms, queue {c['queue_pkt']}"
        what = f"{c['loss_pct']:g} % loss" if c["block"].endswith("loss") else f"{c['block']}, {c['loss_pct']:g} % loss"
        rows[what, link] = None
        at[what, link, c["cc"]] = c["ratio"]
    lines = ["| what | link | " + " | ".join(ALGORITHMS) + " |", "|---" * (len(ALGORITHMS) + 2) + "|"]
    lines += [
        f"| {what} | {link} | " + " | ".join(shade(at.get((what, link, cc))) for cc in ALGORITHMS) + " |"
        for what, link in rows
    ]
    return "\n".join(lines)
