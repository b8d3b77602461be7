"""Standard streams that are closed or cannot be written to, and signals that end a command."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("click", reason="extra cli")
pytest.importorskip("rich", reason="extra cli")
pytestmark = pytest.mark.skipif(os.name != "posix", reason="streams and signals of POSIX")

COMMAND = [sys.executable, "-m", "fastanchors"]


@pytest.fixture
def folder(tmp_path):
    np.savetxt(tmp_path / "a.csv", np.random.default_rng(0).integers(0, 9, (30, 4)), delimiter=",", fmt="%d")
    (tmp_path / "tmp").mkdir()
    return tmp_path


def in_shell(folder, arguments, streams):
    line = f"{shlex.join(COMMAND)} {arguments} {streams}"
    environment = os.environ | {"TMPDIR": str(folder / "tmp")}
    return subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("options", ["", "--json"])
def test_standard_output_may_be_closed(folder, options):
    done = in_shell(folder, f"seek a.csv -k 2 {options}", ">&-")
    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr


def test_standard_input_may_be_closed(folder):
    done = in_shell(folder, "seek - -k 2", "<&-")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("fastanchors: ")


def test_messages_do_not_go_to_standard_output(folder):
    done = in_shell(folder, "seek missing.csv -k 2", "2>&-")
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_a_full_disk_behind_standard_error_stops_no_work(folder):
    rows = "".join(f"{i},{i * 3 % 7 + 1},{i * 5 % 8},{i * i % 5}\n" for i in range(9))
    (folder / "guess.csv").write_text(f"id,a,b,c\n{rows}")  # a note says how it is read
    done = in_shell(folder, "seek guess.csv -k 2 --json", "2>/dev/full")
    assert (done.returncode, json.loads(done.stdout)["k"]) == (0, 2)
    done = in_shell(folder, "seek --json", "2>/dev/full")
    assert (done.returncode, json.loads(done.stdout)["exit_code"]) == (2, 2)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is full")
@pytest.mark.parametrize("options", ["", "--json"])
def test_a_full_disk_behind_standard_output_is_one_line(folder, options):
    done = in_shell(folder, f"seek a.csv -k 2 {options}", ">/dev/full")
    assert done.returncode == 1
    assert [line for line in done.stderr.splitlines() if not line.startswith("note")] == [
        "fastanchors: cannot write standard output: the disk is full"
    ]


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_command_that_is_ended_while_it_reads_leaves_no_file(folder, name, code):
    environment = os.environ | {"TMPDIR": str(folder / "tmp")}
    with subprocess.Popen(
        [*COMMAND, "seek", "-", "-k", "2", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        # The tests may run where the signal is ignored (nohup), which a command respects.
        preexec_fn=lambda: signal.signal(getattr(signal, name), signal.SIG_DFL),
    ) as process:
        process.stdin.write(b"1,2\n3,4\n" * 50_000)
        process.stdin.flush()
        for _ in range(600):
            files = list((folder / "tmp").glob("fastanchors-standard-input-*/standard-input"))
            if files and files[0].stat().st_size > 300_000:
                break
            time.sleep(0.05)
        else:
            raise AssertionError("it does not read")
        time.sleep(1)  # it waits for more: a signal just before that would be seen with the next bytes only
        process.send_signal(getattr(signal, name))
        assert process.wait(60) == code
        assert b"Traceback" not in process.stderr.read()
        message = "interrupted" if name == "SIGINT" else f"ended by {name}"
        assert json.loads(process.stdout.read()) == {"error": message, "exit_code": code}
    assert list((folder / "tmp").iterdir()) == []


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_command_that_is_ended_while_it_starts_says_so(name, code):
    """The signal comes while the module of the command is imported."""
    program = f"""
import importlib, signal, sys
from fastanchors.cli import app, main

def import_module(*names):
    signal.raise_signal(signal.{name})

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
app.importlib.import_module = import_module
sys.argv = ["fastanchors", "seek", "a.csv", "-k", "2", "--json"]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    message = "interrupted" if name == "SIGINT" else f"ended by {name}"
    assert (done.returncode, done.stderr.decode()) == (code, f"fastanchors: {message}\n")
    assert json.loads(done.stdout) == {"error": message, "exit_code": code}


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1251", "utf-8"])
def test_characters_that_the_terminal_lacks_are_escaped(folder, encoding):
    names = ["é", "日本", "\N{GRINNING FACE}", "я"]
    lines = ["名,b,c", *(f"{name},{k + 1},{k * k}" for k, name in enumerate(names))]
    (folder / "names.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    environment = os.environ | {"PYTHONIOENCODING": encoding}
    for options in (["seek", "names.csv", "-k", "2"], ["seek", "--help"], ["seek", "names.csv", "-k", "2", "--json"]):
        command = [*COMMAND, *options]
        done = subprocess.run(command, cwd=folder, capture_output=True, env=environment, check=False)
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
        text = done.stdout.decode(encoding)
        if "--json" in options:
            assert set(json.loads(text)["anchor_names"]) <= set(names)


ENCODINGS = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
}


@pytest.mark.parametrize("kind", ENCODINGS)
def test_tables_are_aligned_by_what_an_encoding_can_show(tmp_path, kind):
    weights = np.random.default_rng(0).dirichlet(np.ones(2), 30)
    rows = np.vstack([np.eye(2), weights]) @ [[5, 1, 0], [0, 1, 5]]
    names = ["Ω" * 30, "b", *(f"фäll {i}" for i in range(30))]  # with an ellipsis
    lines = [",".join([name, *map(str, row)]) for name, row in zip(names, rows.tolist(), strict=True)]
    (tmp_path / "t.csv").write_text("\n".join(["name,größe,№,c", *lines]) + "\n", encoding="utf-8")
    words = [["Äpfel", "Obst"], ["Straße", "Ωμέγα"]]
    texts = [" ".join(words[i % 2] * 5) for i in range(60)]
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    rated = [f"u{u},Ωmega {i},{1 + (u + i) % 5}" for u in range(12) for i in range(8) if (u + 2 * i) % 3]
    (tmp_path / "r.csv").write_text("\n".join(["user,item,rating", *rated]) + "\n", encoding="utf-8")
    encoding = "ascii" if kind == "C" else kind
    found = {}
    for command in (
        "seek t.csv -k 2 --selection spa",
        "representatives t.csv -k 2",
        "topics texts.txt -k 2 --stop-words none --min-documents 1",
        "recommend r.csv --user u3",
        "seek t.csv -k 7",
        "unmix --help",
    )[: None if kind == "ascii" else 1]:
        arguments = [*COMMAND, *command.split()]
        environment = os.environ | ENCODINGS[kind]
        done = subprocess.run(arguments, cwd=tmp_path, capture_output=True, env=environment, check=False)
        assert b"Traceback" not in done.stderr
        assert done.returncode == (1 if command == "seek t.csv -k 7" else 0), done.stderr
        (done.stdout + done.stderr).decode(encoding)
        found[command] = done.stdout.decode(encoding).splitlines()
    anchors = found["seek t.csv -k 2 --selection spa"]
    assert len({line.index(" %") for line in anchors[3:6]}) == 1
    assert any("\\u03a9\\u03a9" in line and "..." in line for line in anchors)
    assert any(line.endswith("#" * 10) for line in anchors)
    size = " x 3 columns" if encoding == "ascii" else " × 3 columns"
    assert size in anchors[0]
    if kind != "ascii":  # the other commands take the same way, and a second each
        return
    assert len({line.index("%") for line in found["representatives t.csv -k 2"][2:4]}) == 1
    items = [line for line in found["recommend r.csv --user u3"][3:] if line]
    assert len({line.rindex("\\u03a9mega") for line in items}) == 1
