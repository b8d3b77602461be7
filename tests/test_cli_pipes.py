"""The command line in pipes and scripts: standard input, errors as JSON, the module as a command, progress."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import fastanchors as fa
from fastanchors._jit import jit, watch_compiling
from fastanchors.errors import GuessWarning

pytest.importorskip("click", reason="extra cli")
pytest.importorskip("rich", reason="extra cli")


def run(*arguments, given=b"", **options):
    """Run ``python -m fastanchors`` in a separate process."""
    command = [sys.executable, "-m", "fastanchors", *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, check=False, **options)


@pytest.fixture(scope="module")
def A():
    return fa.datasets.separable(80, 12, 3, rng=0).A


def as_npy(A):
    file = io.BytesIO()
    np.save(file, A)
    return file.getvalue()


def as_csv(A):
    file = io.BytesIO()
    np.savetxt(file, A, delimiter=",", fmt="%.17g")
    return file.getvalue()


@pytest.mark.parametrize("written", [as_npy, as_csv])
def test_a_dash_reads_standard_input(A, written, tmp_path):
    done = run("seek", "-", "-k", 3, "--json", given=written(A), env={**os.environ, "TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert sorted(result["anchors"]) == sorted(fa.FAS().seek(A / A.sum(axis=1, keepdims=True), 3, rng=0).indices)
    assert result["source"] == "-"
    assert list(tmp_path.glob("fastanchors-*")) == []


def test_standard_input_is_built_into_a_store(A, tmp_path):
    done = run("build", "-", tmp_path / "s", given=as_csv(A))
    assert done.returncode == 0, done.stderr
    with fa.open(tmp_path / "s") as store:
        assert store.shape == A.shape


def test_standard_input_is_read_once(A, tmp_path):
    done = run("build", "-", tmp_path / "s", "--row-names", "-", given=as_csv(A))
    assert done.returncode == 2
    assert b"can be used only once" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (("seek", "missing.npy", "-k", 3), 1, "missing.npy does not exist"),
        (("seek", "missing.npy"), 2, "-k"),
        (("seek", "missing.npy", "-k", "few"), 2, "few"),
        (("sek",), 2, "No such command"),
    ],
)
def test_errors_are_json_with_the_json_option(tmp_path, arguments, code, part):
    done = run(*arguments, "--json", cwd=tmp_path)
    assert done.returncode == code
    answer = json.loads(done.stdout)
    assert part in answer["error"]
    assert answer["exit_code"] == code
    assert part.encode() in done.stderr
    assert run(*arguments, cwd=tmp_path).stdout == b""


@pytest.mark.parametrize(
    ("heading", "keys"),
    [("year", [1990, 1992, 1999]), ("Year", [3, 1, 2]), ("patient_id", [7, 3, 9]), ("t", [5, 10, 15])],
)
def test_integer_columns_that_look_like_labels_give_a_note(tmp_path, heading, keys):
    path = tmp_path / "t.csv"
    path.write_text(f"{heading},a,b\n" + "".join(f"{key},0.5,0.25\n" for key in keys))
    with pytest.warns(GuessWarning, match=f"column '{heading}' are read as data.*row_names='{heading}'"):
        source = fa.io.open_source(path)
    assert source.shape[1] == 3
    assert fa.io.open_source(path, row_names=heading).shape[1] == 2
    assert fa.io.open_source(path, row_names=False).shape[1] == 3


@pytest.mark.parametrize(
    "text", ["year,a\n1990,1\n1990,2\n1991,5\n", "a,year\n1.5,1990\n2.5,1991\n", "a,b_id\n4,1\n2,1\n"]
)
def test_repeated_labels_in_any_column_give_a_note(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    with pytest.warns(GuessWarning, match=r"column '(year|b_id)' are read as data"):
        assert fa.io.open_source(path).shape[1] == 2


@pytest.mark.parametrize("text", ["apples,pears\n3,1\n7,2\n1,5\n", "week,word,year\n0.5,3,0\n0.5,0,12\n"])
def test_counts_give_no_note(tmp_path, text):
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert fa.io.open_source(path).shape[1] == len(text.split("\n")[0].split(","))


def test_errors_name_standard_input():
    done = run("seek", "-", "-k", 3)
    assert done.stderr.decode().strip() == "fastanchors: standard input is empty: a header or a row is needed"


def test_compilation_is_reported():
    @jit
    def half(x):
        return x / 2

    @jit
    def quarter(x):
        return half(half(x))

    told: list[bool] = []
    with watch_compiling(told.append):
        assert quarter(8.0) == 2.0
        assert quarter(4.0) == 1.0
    assert told == [True, False]


def test_the_clock_continues_after_the_bar_is_full():
    from rich.progress import Progress

    from fastanchors.cli._terminal import _clock

    now = 100.0
    progress = Progress(_clock(), disable=True, get_time=lambda: now)
    progress.add_task("x", total=10)
    (task,) = progress.tasks
    now = 103.0
    progress.update(task.id, completed=10)
    now = 165.0
    assert str(_clock().render(task)) == "0:01:05"


def test_the_module_is_the_command():
    done = run("--version")
    assert done.stdout.decode().strip() == f"fastanchors {fa.__version__}"
