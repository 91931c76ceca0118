"""How Sphinx builds the site; run ``make docs``."""

from __future__ import annotations

import posixpath
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).resolve().parents[1]

project = "airflow-provider-cdc"
version = release = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinxcontrib.mermaid"]
html_theme = "furo"
html_title = "airflow-provider-cdc"

myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]

autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
autodoc_default_options = {"members": True}
add_module_names = False
python_maximum_signature_line_length = 88

# Pages of the root folder, and the pages of the site that show them.
SHOWN = {"README.md": "readme", "CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changelog"}
_LINK = re.compile(r"\[([^\]]+)\]\(([^)#:\s]+)(#[^)]*)?\)")


def show_root_pages(app: Sphinx, docname: str, source: list[str]) -> None:
    """Replace the page of a root file by that file, and point links at pages of the site."""
    path = next((name for name, page in SHOWN.items() if page == docname), None)
    if path is not None:
        source[0] = (ROOT / path).read_text(encoding="utf-8")
    folder = posixpath.dirname(path or f"docs/{docname}.md")

    def on_site(link: re.Match[str]) -> str:
        text, target, anchor = link[1], link[2], link[3] or ""
        linked = posixpath.normpath(posixpath.join(folder, target))
        if linked in SHOWN:
            return f"[{text}](/{SHOWN[linked]}.md{anchor})"
        if linked.startswith("docs/"):
            return f"[{text}](/{linked.removeprefix('docs/')}{anchor})"
        return text  # the site does not hold this file

    source[0] = _LINK.sub(on_site, source[0])


def setup(app: Sphinx) -> None:
    """Connect the hook."""
    app.connect("source-read", show_root_pages)
