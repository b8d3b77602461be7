"""Sphinx settings: Markdown pages, API reference from docstrings, warnings are errors (see the Makefile)."""

from __future__ import annotations

from importlib.metadata import version as installed

project = "fastanchors"
author = "The fastanchors developers"
copyright = "2026, the fastanchors developers"
release = version = installed("fastanchors")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
templates_path = ["templates"]
exclude_patterns = ["_build", "templates", "theory/tables"]

# Pages of names that differ in their case alone, for disks that do not tell them apart.
autosummary_filename_map = {
    f"fastanchors.{name}": f"fastanchors.{name}-result"
    for name in (
        *(
            "apps.Representatives",
            "apps.MaterialCurve",
            "apps.Topics",
            "datasets.Cells",
            "datasets.Ratings",
            "datasets.Separable",
        ),
        *("lowrank.CUR", "metrics.ReconstructionError"),
    )
}
autodoc_typehints = "description"
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_rtype = False
suppress_warnings = ["ref.python"]  # words of a type, such as "shape", are no references

html_theme = "furo"
html_title = f"fastanchors {release}"
html_static_path: list[str] = []
