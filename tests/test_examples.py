"""Every public name has a docstring that numpydoc parses, with an example, and every example of the package runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil

import pytest
from numpydoc.validate import validate

import fastanchors as fa

PLACES = [fa, fa.apps, fa.dask, fa.datasets, fa.io, fa.lowrank, fa.metrics, fa.report, fa.solvers]
NEEDS = {"fastanchors.dask": "dask", "fastanchors.cli": "click"}  # extras


def public() -> dict[str, object]:
    """The public classes and functions by name. Errors share the example of their base class."""
    return {
        f"{place.__name__}.{name}": getattr(place, name)
        for place in PLACES
        for name in place.__all__
        if callable(getattr(place, name))
    }


def modules() -> list[str]:
    found = pkgutil.walk_packages(fa.__path__, "fastanchors.")
    return sorted(module.name for module in found if not module.name.endswith("__main__"))


@pytest.mark.parametrize("name", public())
def test_every_public_name_has_an_example(name):
    said = inspect.getdoc(public()[name]) or ""
    assert "Examples\n--------\n>>> " in said, f"{name} has no section of examples"


# What numpydoc finds wrong: unknown, misplaced or unfinished entries, sections out of order or without a heading.
WRONG = {"GL06", "GL07", "GL08", "PR02", "PR03", "PR05", "PR06", "PR07", "PR09", "PR10", "RT02", "RT03", "RT05", "SS01"}


@pytest.mark.parametrize("name", public())
def test_docstrings_parse_as_they_are(name):
    """Parsed by numpydoc. Functions document every parameter; results of functions document attributes."""
    thing = public()[name]
    wrong = WRONG | ({"PR01"} if inspect.isfunction(thing) else set())
    found = validate(f"{thing.__module__}.{thing.__qualname__}")["errors"]
    assert [told for told in found if told[0] in wrong] == []


@pytest.mark.parametrize("name", ["fastanchors", *modules()])
def test_examples_run(name):
    extra = next((extra for room, extra in NEEDS.items() if name.startswith(room)), None)
    if extra is not None:
        pytest.importorskip(extra)
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    told: list[str] = []
    for test in doctest.DocTestFinder(exclude_empty=True).find(module, extraglobs={"__name__": "__main__"}):
        runner.run(test, out=told.append)
    assert runner.failures == 0, "".join(told)
