"""``import fastanchors`` is fast: heavy modules load when a name that needs them is used, and nothing compiles."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import fastanchors as fa


def modules_after(code: str) -> set[str]:
    """The modules a fresh interpreter holds after ``code``."""
    script = f"{code}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_importing_loads_nothing_heavy():
    loaded = modules_after("import fastanchors")
    heavy = {
        "numba",
        "llvmlite",
        "sklearn",
        "scipy",
        "numpy",
        "pandas",
        "matplotlib",
        "dask",
        "h5py",
        "zarr",
        "pyarrow",
    }
    assert loaded & heavy == set()
    inside = {name for name in loaded if name.startswith("fastanchors")}
    light = ("_lazy_names", "_openers", "_version", "errors")
    assert inside == {"fastanchors", *(f"fastanchors.{name}" for name in light)}


def test_naming_a_class_loads_its_kernels_but_compiles_none():
    code = """
import fastanchors as fa
fa.VectorSampler
from numba.core.registry import CPUDispatcher
import sys
kernels = [value for name, module in sys.modules.items() if name.startswith("fastanchors")
           for value in vars(module).values() if isinstance(value, CPUDispatcher)]
assert len(kernels) > 10
assert not any(kernel.signatures for kernel in kernels)
"""
    assert "sklearn" not in modules_after(code)


def test_plain_spa_needs_no_numba():
    loaded = modules_after("import fastanchors as fa\nfa.SPA().seek([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], 2)")
    assert "numba" not in loaded


def test_a_star_import_and_dir_offer_the_public_names():
    assert "VectorSampler" in dir(fa)
    assert "VectorSampler" in fa.__all__
    assert fa.VectorSampler is fa.VectorSampler
    assert fa.errors.InvalidInputError.__mro__[1] is fa.FastAnchorsError


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'fastanchors' has no attribute 'nonsense'"):
        fa.nonsense  # noqa: B018
    assert not hasattr(fa, "__wrapped__")


@pytest.mark.parametrize(
    "package", [fa, fa.dask, fa.lowrank, fa.report, fa.solvers], ids=lambda module: module.__name__
)
def test_type_checkers_see_every_public_name(package):
    """The imports under TYPE_CHECKING and the table of lazy names agree."""
    tree = ast.parse(Path(package.__file__).read_text(encoding="utf-8"))
    block = next(
        node for node in tree.body if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    )
    seen = {alias.asname: (node.module or alias.name) for node in block.body for alias in node.names}
    assert seen == package._HOME
    assert {*package._HOME} <= {*package.__all__}


def test_dir_shows_public_names_only():
    shown = [name for name in dir(fa) if not name.startswith("__")]
    assert sorted(shown) == sorted({*fa._HOME, "FastAnchorsError"})
    assert {*fa.__all__} == {*shown, "__version__"}
    assert {name for name in dir(fa.solvers) if not name.startswith("__")} == {*fa.solvers.__all__}
    assert all(hasattr(fa, name) for name in ("SPA", "metrics"))
    assert callable(fa.lowrank.fkv)
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = fa.Nonsense
