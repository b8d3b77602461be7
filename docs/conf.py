"""Sphinx settings: Markdown pages, API reference from docstrings, warnings are errors (see the Makefile)."""

from __future__ import annotations

import re
from importlib.metadata import version as installed
from typing import Any

project = "fastanchors"
author = "The fastanchors developers"
copyright = "2026, the fastanchors developers"
release = version = installed("fastanchors")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "theory/tables"]

autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"fastanchors {release}"
html_static_path: list[str] = []

_SECTION = re.compile(r"^(Parameters|Attributes|Returns|Raises|Notes|References|Examples)$")
_ENTRY = re.compile(r"^(\*{0,2}\w[\w, *]*) : (.+)$")


def _describe(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Our docstrings write ``name : what it is`` (types are in the signature); napoleon wants it below."""
    inside, out = False, []
    for at, line in enumerate(lines):
        if _SECTION.match(line) and at + 1 < len(lines) and set(lines[at + 1]) == {"-"}:
            inside = line in ("Parameters", "Attributes")
        entry = _ENTRY.match(line) if inside else None
        if inside and out and out[-1] == "" and line[:1].strip() and not entry and not _SECTION.match(line):
            inside = False
            out += ["Notes", "-----"]  # prose after the list of parameters
        out += [entry[1], f"    {entry[2]}"] if entry else [line]
    lines[:] = out


def setup(app: Any) -> None:
    app.connect("autodoc-process-docstring", _describe, priority=100)  # before napoleon
