"""A user's program checked by mypy: public names have types, and unknown names and options are errors."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fastanchors as fa

# Each line ends with the type that mypy must reveal, as a pattern from its beginning.
REVEALED = """
fa.FAS  # def \\(variant: Literal\\['indexed'\\]
fa.FAS(selection="spa").seek(X, 2)  # fastanchors.anchors.Anchors$
fa.FAS(variant="paper", rule="largest").seek(X, [2, 3])  # list\\[fastanchors.anchors.Anchors\\]$
fa.SNPA().seek(X, 2).indices  # numpy.ndarray\\[.*signedinteger
fa.SPA().seek(X, 2).certificate.kind  # Literal\\['exact'\\]
fa.build(X, "store")  # fastanchors.store.store.Store$
fa.open("store").append(X)  # None$
fa.open_matrix(X)  # fastanchors.matrix.contract.RowMatrix$
fa.encode(X, X)  # numpy.ndarray
fa.rank_curve(X)  # fastanchors.rank.RankCurve$
fa.SeparableNMF(3, selection="spa").fit(X).anchors_  # numpy.ndarray\\[.*signedinteger
fa.fkv(X, 2)  # fastanchors.lowrank.factored.FactoredVectors$
fa.lowrank.fkv(X, 2)  # fastanchors.lowrank.factored.FactoredVectors$
fa.lowrank.solve(X, X[0], 2)  # fastanchors.lowrank.linear_system.LinearSolution$
fa.lowrank.cur(X, 2)  # fastanchors.lowrank.cur_decomposition.CUR$
fa.solvers.get("spa")  # fastanchors.solvers._solver.Solver$
fa.solvers.get(fa.XRAY)  # fastanchors.solvers.xray.XRAY$
fa.solvers.SOLVERS["dca"]  # type\\[fastanchors.solvers._solver.Solver\\]$
fa.solvers.Robust()  # fastanchors.solvers.robust.Robust$
fa.dask.connect("store")  # fastanchors.dask.remote_store.RemoteStore$
fa.apps.unmix(X, 2)  # fastanchors.apps._unmix.Unmixing$
fa.apps.topics(X, 2)  # fastanchors.apps._topics.Topics$
fa.metrics.reconstruction_error(X, X)  # fastanchors.metrics.
"""
# Each line ends with the error that mypy must report.
WRONG = """
fa.Nonsense  # attr-defined
fa.lowrank.Nonsense  # attr-defined
fa.solvers.Nonsense  # attr-defined
fa.dask.Nonsense  # attr-defined
fa.apps.Nonsense  # attr-defined
fa.FAS(turbo=True)  # call-arg
fa.FAS(selection="nonsense")  # arg-type
fa.FAS(variant="paper", rule="nonsense")  # arg-type
fa.SPA(robust=3)  # arg-type
fa.SPA().seek(X, "three")  # arg-type
fa.SPA().seek(X, 3).nonsense  # attr-defined
fa.build(X)  # call-arg
"""


HEAD = ["import numpy as np", "import fastanchors as fa", "X = np.ones((4, 4))"]


def cases(lines: str) -> list[tuple[str, str]]:
    return [(code, wanted) for code, wanted in (line.split("  # ") for line in lines.strip().splitlines())]


def numbered(lines: str, first: int) -> list[Any]:
    """The number of each line in the program, and what is expected there."""
    return [pytest.param(first + i, wanted, id=code) for i, (code, wanted) in enumerate(cases(lines))]


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> dict[int, list[str]]:
    """The messages of mypy for each line of a program with all of the above."""
    folder = tmp_path_factory.mktemp("typing")
    revealed = [f"reveal_type({code})" for code, _ in cases(REVEALED)]
    lines = [*HEAD, *revealed, *(code for code, _ in cases(WRONG))]
    (folder / "program.py").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "mypy.ini").write_text(
        f"[mypy]\nstrict = true\nmypy_path = {Path(fa.__file__).parents[1]}\n"
        "follow_imports = silent\nignore_missing_imports = true\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", "cache", "program.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    said: dict[int, list[str]] = {}
    for line in done.stdout.splitlines():
        if place := re.match(r"program\.py:(\d+): (.*)", line):
            said.setdefault(int(place[1]), []).append(place[2])
    return said


@pytest.mark.parametrize(("place", "wanted"), numbered(REVEALED, len(HEAD) + 1))
def test_public_names_have_types(program, place, wanted):
    (said,) = program[place]
    found = re.fullmatch(r'note: Revealed type is "(.*)"', said)
    assert found is not None, said
    assert re.match(wanted, found[1]), said


@pytest.mark.parametrize(("place", "wanted"), numbered(WRONG, len(HEAD) + 1 + len(cases(REVEALED))))
def test_names_and_options_that_do_not_exist_are_errors(program, place, wanted):
    assert any(said.startswith("error:") and said.endswith(f"[{wanted}]") for said in program.get(place, [])), program
