"""The command line as a whole: help, completion, exit codes, output streams, the demo and the bench."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
import types

import numpy as np
import pytest

import fastanchors as fa

pytest.importorskip("click", reason="extra cli")
pytest.importorskip("rich", reason="extra cli")

import click
from click.testing import CliRunner

from fastanchors.cli._examples import EXAMPLES
from fastanchors.cli.app import _COMMANDS, app

CONTRACT = [
    "demo",
    "build",
    "seek",
    "encode",
    "update",
    "append",
    "info",
    "verify",
    "report",
    "topics",
    "unmix",
    "bench",
]


def run(*arguments, **options):
    """Run the command in a separate process."""
    return subprocess.run(
        [sys.executable, "-c", "from fastanchors.cli import main; main()", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


@pytest.fixture(scope="module")
def matrix(tmp_path_factory):
    path = tmp_path_factory.mktemp("cli") / "a.npy"
    np.save(path, fa.datasets.separable(80, 12, 3, rng=0).A)
    return path


def test_every_documented_command_exists():
    assert set(_COMMANDS) >= set(CONTRACT)
    assert set(_COMMANDS) == set(EXAMPLES)


@pytest.mark.parametrize("name", _COMMANDS)
def test_help_has_an_example_that_parses(name):
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert "Example:" in result.output
    assert "--json" in result.output
    for example in EXAMPLES[name]:
        assert example in result.output
        words = shlex.split(example.split("| ")[-1].replace('eval "$(', "").replace(')"', ""))
        assert words[:2] == ["fastanchors", name]
        command = app.get_command(click.Context(app), name)
        command.make_parser(click.Context(command)).parse_args(words[2:])


def test_the_command_runs_in_a_separate_process():
    done = run("--help")
    assert done.returncode == 0
    assert all(name in done.stdout for name in CONTRACT)
    assert done.stderr == ""
    done = run("--version")
    assert done.stdout == f"fastanchors {fa.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["sek", "x"], 2, "Did you mean 'seek'"),
        (["seek", "x.npy"], 2, "Missing option '-k'"),
        (["seek", "MATRIX", "-k", "three"], 2, "neither a positive number of anchors"),
        (["seek", "MATRIX", "-k", "0"], 2, "neither a positive number of anchors"),
        (["seek", "MATRIX", "-k", "3", "--solver", "spq"], 2, "did you mean 'spa'"),
        (
            ["seek", "MATRIX", "-k", "3", "--solver", "snpa", "--budget", "9"],
            2,
            "--budget is an option of --solver fas",
        ),
        (["seek", "MATRIX", "-k", "3", "--out", "r.txt"], 2, "must end in .json, .npz, .csv"),
        (["seek", "MATRIX", "-k", "3", "--out", "nowhere/r.json"], 2, "the folder nowhere does not exist"),
        (["seek", "MATRIX", "-k", "99"], 1, "choose a smaller k"),
        (["seek", "MATRIX", "-k", "5"], 1, "use -k 3 or -k auto"),
        (["seek", "b.npy", "-k", "3"], 1, "b.npy does not exist"),
        (["encode", "MATRIX", "7,80", "-o", "w.npy"], 1, "anchor 80 is out of range"),
        (["encode", "MATRIX", "what", "-o", "w.npy"], 1, "row numbers such as 3,17,5"),
        (["report", "MATRIX", "-o", "r.pdf"], 2, "must end in .html"),
        (["report", "MATRIX", "--data", "x"], 2, "--data is for results"),
        (["bench", "-k", "20", "--columns", "10"], 2, "more than min"),
    ],
)
def test_one_clear_line_and_an_exit_code(matrix, tmp_path, monkeypatch, capfd, arguments, code, message):
    from fastanchors.cli import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["fastanchors", *(str(matrix) if a == "MATRIX" else a for a in arguments)])
    with pytest.raises(SystemExit) as caught:
        main()
    out, err = capfd.readouterr()
    assert caught.value.code == code
    assert message in err
    assert out == ""
    assert "Traceback" not in err
    if code == 1:
        assert err.count("\n") == 1
        assert err.startswith("fastanchors: ")
    assert list(tmp_path.iterdir()) == []


def test_a_close_name_is_offered(matrix):
    done = run("seek", matrix.with_name("a.npz"), "-k", 3)
    assert done.returncode == 1
    assert "did you mean" in done.stderr
    assert done.stdout == ""


def test_bad_entries_are_named(tmp_path):
    A = np.ones((5, 4))
    A[2, 3] = -1
    np.save(tmp_path / "bad.npy", A)
    done = run("seek", tmp_path / "bad.npy", "-k", 2, "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert "bad.npy" in error
    assert "[2, 3] is negative" in error
    assert "[2, 3] is negative" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_extra_is_named(tmp_path, monkeypatch):
    from fastanchors.cli.demo import demo

    monkeypatch.setitem(sys.modules, "lda", None)
    with pytest.raises(fa.errors.MissingExtraError, match=r"fastanchors\[demo\]"):
        demo.main(["-o", str(tmp_path / "out")], standalone_mode=False)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell):
    result = CliRunner().invoke(app, ["completion", shell])
    assert result.exit_code == 0
    assert "_FASTANCHORS_COMPLETE" in result.output


def test_completion_completes():
    words = {"COMP_WORDS": "fastanchors se", "COMP_CWORD": "1", "_FASTANCHORS_COMPLETE": "bash_complete"}
    done = run(env={**os.environ, **words})
    assert done.stdout.split() == ["plain,seek"]
    words["COMP_WORDS"], words["COMP_CWORD"] = "fastanchors seek x --solver s", "4"
    done = run(env={**os.environ, **words})
    assert done.stdout.split() == ["plain,spa", "plain,snpa"]


def in_terminal(*arguments):
    """(exit code, standard output, what a terminal shows of standard error)."""
    master, slave = pty.openpty()
    command = [sys.executable, "-c", "from fastanchors.cli import main; main()", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=slave, stdin=subprocess.DEVNULL)
    os.close(slave)
    shown = b""
    while True:
        try:
            piece = os.read(master, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    out = process.stdout.read().decode()
    process.stdout.close()
    os.close(master)
    return process.wait(), out, shown.decode()


def test_progress_is_shown_on_a_terminal_only(matrix):
    code, out, shown = in_terminal("seek", matrix, "-k", 3)
    assert code == 0
    assert "seeking anchors" in shown
    assert "3 anchors of a.npy" in out
    code, out, shown = in_terminal("seek", matrix, "-k", 3, "--json")
    assert (code, shown) == (0, "")
    assert len(json.loads(out)["anchors"]) == 3
    done = run("seek", matrix, "-k", 3)
    assert done.stderr == ""


@pytest.fixture
def corpus(monkeypatch):
    """Replaces the package with the stories: 150 short ones about five subjects."""
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(80, 0.1), 5)
    mixtures = rng.dirichlet(np.full(5, 0.3), 150)
    counts = np.array([rng.multinomial(120, mixture @ topics) for mixture in mixtures])
    datasets = types.ModuleType("lda.datasets")
    datasets.load_reuters = lambda: counts
    datasets.load_reuters_vocab = lambda: [f"word{j}" for j in range(80)]
    datasets.load_reuters_titles = lambda: [f"{i} UK: Title <{i}>, U.S. and all. LONDON 1996-08-20" for i in range(150)]
    package = types.ModuleType("lda")
    package.datasets = datasets
    monkeypatch.setitem(sys.modules, "lda", package)
    monkeypatch.setitem(sys.modules, "lda.datasets", datasets)
    return counts


def test_demo(corpus, tmp_path):
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["demo", "-o", str(out)], catch_exceptions=False)
    assert result.exit_code == 0
    for step in ("1. build", "2. seek", "3. update", "4. seek", "5. encode", "6. report"):
        assert step in result.output
    assert result.output.count("exact: ") == 2
    assert re.search(r"word\d+ +UK: Title <\d+>, U\.S\. and all\n", result.output)
    assert sorted(path.name for path in out.iterdir()) == ["report.html", "stories.csv", "words.store"]
    assert len((out / "stories.csv").read_text().splitlines()) == 151
    with fa.open(out / "words.store") as S:  # after the update it holds all stories
        rows = np.flatnonzero((corpus > 0).sum(axis=0) >= 20)
        together = corpus.T @ corpus - np.diag(corpus.sum(axis=0))
        every = np.arange(80)
        for i, word in enumerate(rows):
            np.testing.assert_array_equal(S.raw(i, every), together[word])
    again = CliRunner().invoke(app, ["demo", "-o", str(out), "--json"], catch_exceptions=False)
    answer = json.loads(again.output)
    assert answer["after"]["certificate"]["kind"] == "exact"
    assert answer["after"]["anchor_names"]
    (tmp_path / "file").write_text("mine")
    refused = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "file")])
    assert isinstance(refused.exception, fa.errors.InvalidInputError)
    assert (tmp_path / "file").read_text() == "mine"


def test_bench():
    arguments = ["bench", "--rows", "400", "--columns", "20", "-k", "3", "--repeats", "1"]
    result = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    answer = json.loads(result.output)
    assert [entry["recovery"] for entry in answer["results"]] == [1.0, 1.0, 1.0, 1.0, None, 1.0]
    assert all(entry["seconds"] > 0 for entry in answer["results"])
    table = CliRunner().invoke(app, arguments, catch_exceptions=False).output
    assert "textbook SPA in NumPy" in table
    assert "100 %" in table
