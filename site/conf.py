"""Configuration of Sphinx for the documentation as a site: `.ci/site` builds it."""

import re
from pathlib import Path

project = "roughlink"
extensions = ["myst_parser"]
root_doc = "README"
html_theme = "furo"
html_title = "roughlink"
html_show_copyright = False
html_show_sphinx = False
html_copy_source = False
smartquotes = False
html_extra_path = ["../target/site/extra"]
myst_heading_anchors = 6
# `report:NAME` is a report that `.ci/site` has made.
myst_url_schemes = {"http": None, "https": None, "report": "gallery/{{path}}.html"}
suppress_warnings = ["misc.highlighting_failure"]  # a shell session with quotes within quotes

ROOT = Path(__file__).resolve().parent.parent
REPOSITORY = "https://github.com/roughlink/roughlink/blob/main"
SIDEBAR = {
    "Start": ["start/*", "architecture", "gallery"],
    "How to": ["how-to/*"],
    "Reference": ["reference/*"],
    "Validation": ["validation", "validation/*"],
}


def prepared(app, name: str, source: list[str]) -> None:
    """Lets links out of `docs` lead to the repository, and adds the sidebar to the first page.

    Raises:
        ValueError: The file of such a link does not exist.
    """

    def outside(match: re.Match[str]) -> str:
        path, anchor = match[1], match[2] or ""
        target = (ROOT / "docs" / name).parent.joinpath(path).resolve()
        if (ROOT / "docs") in target.parents:
            return match[0]
        if not target.exists():
            raise ValueError(f"{name}.md: {path} does not exist")
        return f"]({REPOSITORY}/{target.relative_to(ROOT)}{anchor})"

    source[0] = re.sub(r"\]\((\.\./[^)#\s]*)(#[^)]*)?\)", outside, source[0])
    if name == root_doc:
        for caption, pages in SIDEBAR.items():
            source[0] += f"\n\n```{{toctree}}\n:hidden:\n:glob:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"


def setup(app) -> None:
    app.connect("source-read", prepared)
