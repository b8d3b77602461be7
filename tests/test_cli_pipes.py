"""The command line in pipes and scripts: standard input, errors as JSON, the module as a command, progress."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import fastanchors as fa
from fastanchors._jit import jit, watch_compiling
from fastanchors.errors import GuessWarning

h5py = pytest.importorskip("h5py", reason="extra io")
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


CATS = b"cats purr milk whiskers, cats\ndogs bark bones, leash dogs\ncats dogs pets\n" * 20


def as_table(lines):
    return b"id,text\n" + b"".join(b'%d,"%s"\n' % item for item in enumerate(lines.splitlines()))


def as_json_lines(lines):
    return b"".join(json.dumps({"text": line.decode()}).encode() + b"\n" for line in lines.splitlines())


@pytest.fixture
def call(monkeypatch, tmp_path, capsys):
    """Run a command in this process, with bytes as standard input or in a pipe; returns its exit code and output."""
    from fastanchors.cli.app import run as run_command

    def called(*arguments, given=b""):
        pipe = tmp_path / "pipe"
        if "PIPE" in arguments:
            os.mkfifo(pipe)
            threading.Thread(target=pipe.write_bytes, args=(given,), daemon=True).start()
        words = [str(pipe) if word == "PIPE" else str(word) for word in arguments]
        monkeypatch.setattr(sys, "argv", ["fastanchors", *words])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        with pytest.raises(SystemExit) as end:
            run_command()
        pipe.unlink(missing_ok=True)
        found = capsys.readouterr()
        return end.value.code, found.out, found.err

    monkeypatch.chdir(tmp_path)
    return called


STREAMS = ["-", pytest.param("PIPE", marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX"))]


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize(
    ("written", "options"), [(bytes, ()), (as_table, ("--column", "text")), (as_json_lines, ("--column", "text"))]
)
def test_topics_of_a_stream(call, stream, written, options):
    code, out, error = call("topics", stream, "-k", 2, "--json", *options, given=written(CATS))
    assert code == 0, error
    assert json.loads(out)["documents"] == 60


def test_a_model_of_a_stream_names_no_temporary_files(call, tmp_path):
    code, out, error = call("topics", "-", "-k", 2, "-o", "m.npz", given=CATS)
    assert code == 0, error
    assert out.startswith("standard input: 60 documents")
    code, out, error = call("encode", "-", "m.npz", "-o", "w.npy", given=CATS)
    assert code == 0, error
    assert np.load("w.npy").shape == (60, 2)
    code, out, error = call("report", "m.npz")
    assert (code, "pass it with --data" in error) == (1, True)
    assert call("report", "m.npz", "--data", "-", given=CATS)[0] == 0


def test_vocabulary_stop_words_and_earlier_model_from_a_stream(call, tmp_path):
    (tmp_path / "x.ldac").write_text("3 0:2 1:1 2:1\n3 3:2 4:1 2:1\n2 0:1 3:1\n" * 20)
    words = b"cats\npurr\nmilk\ndogs\nbark\n"
    code, out, error = call("topics", "x.ldac", "--vocab", "-", "-k", 2, "-o", "m.npz", given=words)
    assert code == 0, error
    assert "cats" in out
    model = (tmp_path / "m.npz").read_bytes()
    assert call("topics", "x.ldac", "--since", "-", "-k", 2, given=model)[0] == 0
    (tmp_path / "d.txt").write_bytes(CATS)
    options = ("--stop-words", "-", "--ngrams", 2, "-k", 2, "-o", "n.npz", "--json")
    code, out, error = call("topics", "d.txt", *options, given=b"pets\nmilk\n")
    assert code == 0, error
    assert "milk" not in out
    assert call("encode", "d.txt", "n.npz", "-o", "w.npy")[0] == 0


@pytest.mark.parametrize("stream", STREAMS)
def test_unmix_and_its_mask_from_a_stream(call, stream, tmp_path):
    cube = fa.datasets.hyperspectral(12, 15, bands=20, k=3, rng=2).cube
    code, out, error = call("unmix", stream, "-k", 3, "--no-pictures", "-o", "u", given=as_npy(cube))
    assert code == 0, error
    assert out.startswith("standard input:" if stream == "-" else "the pipe:")
    np.save("cube.npy", cube)
    mask = as_npy(np.arange(12 * 15).reshape(12, 15) > 5)
    code, _, error = call("unmix", "cube.npy", "--mask", stream, "-k", 3, "--no-pictures", "-o", "v", given=mask)
    assert code == 0, error


def test_an_envi_header_in_a_stream_is_refused(call):
    code, _, error = call("unmix", "-", "-k", 3, given=b"ENVI\nsamples = 3\n")
    assert code == 2
    assert "an ENVI image is two files, which a stream does not have; give the path of one" in " ".join(error.split())


@pytest.mark.parametrize("name", ["a.csv", "a.mtx", "a.ldac", "a.h5", "a.h5ad"])
def test_the_format_of_a_stream_is_determined_from_its_content(call, A, name, tmp_path):
    A, path = np.round(A * 9), tmp_path / name
    if name.endswith((".h5", ".h5ad")):
        with h5py.File(path, "w") as file:
            file["data" if name == "a.h5" else "X"] = A
        given = path.read_bytes()
    else:
        pairs = ([(j, value) for j, value in enumerate(row) if value] for row in A)
        text = {
            "a.csv": ",".join("abcdefghijkl") + "\n" + "".join(",".join(map(str, row)) + "\n" for row in A.tolist()),
            "a.mtx": "%%MatrixMarket matrix array real general\n80 12\n" + "".join(f"{x}\n" for x in A.T.ravel()),
            "a.ldac": "".join(f"{len(p)} " + " ".join(f"{j}:{value:g}" for j, value in p) + "\n" for p in pairs),
        }[name]
        given = gzip.compress(text.encode())
    code, out, error = call("seek", "-", "-k", 3, "--normalize", "none", "--json", given=given)
    assert code == 0, error
    assert json.loads(out)["anchors"] == list(fa.FAS().seek(A, 3, rng=0))


def test_damaged_and_packed_streams(call):
    code, _, error = call("seek", "-", "-k", 3, given=gzip.compress(b"1,2\n3,4\n" * 99)[:-20])
    assert (code, "standard input" in error, "/tmp" in error) == (1, True, False)
    code, _, error = call("seek", "-", "-k", 3, given=gzip.compress(b"1,2\n3,4\n5,x\n"))
    assert (code, "standard input, line 3: field 2" in error) == (1, True)
    assert call("topics", "-", "-k", 2, "--json", given=gzip.compress(CATS))[0] == 0


def test_a_result_with_names_from_a_stream(call, A, tmp_path):
    np.save("a.npy", A)
    names = "".join(f"row {i}\n" for i in range(len(A))).encode()
    assert call("seek", "a.npy", "-k", 3, "--row-names", "-", "--out", "r.json", given=names)[0] == 0
    assert json.loads((tmp_path / "r.json").read_text())["reader"] == {"row_names": "-"}
    code, _, error = call("report", "r.json")
    assert (code, "has its row names from standard input; pass --row-names" in error) == (1, True)
    assert call("report", "r.json", "--row-names", "-", given=names)[0] == 0


@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("suffix", [".json", ".csv", ".npz"])
def test_a_result_from_a_stream(call, A, stream, suffix, tmp_path):
    np.save("a.npy", A)
    assert call("seek", "a.npy", "-k", 3, "--out", f"r{suffix}")[0] == 0
    result = (tmp_path / f"r{suffix}").read_bytes()
    code, _, error = call("encode", "a.npy", stream, "-o", "w.npy", given=result)
    assert code == 0, error
    assert np.load("w.npy").shape == (80, 3)
    code, out, error = call("report", stream, "--data", "a.npy", given=result)
    assert code == 0, error
    assert "report on 3 anchors" in out


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX")
def test_a_pipe_is_not_replaced_by_an_output(call, A, tmp_path):
    np.save("a.npy", A)
    os.mkfifo("r.json")
    code, _, error = call("seek", "a.npy", "-k", 3, "--out", "r.json")
    assert code == 2
    assert "r.json is a pipe or a device; give the name of a file" in " ".join(error.split())
    assert (tmp_path / "r.json").is_fifo()


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


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_changes_are_read_from_a_pipe(A, tmp_path):
    """It was refused: a pipe cannot be read from the start again."""
    fa.build(A, tmp_path / "s").close()
    os.mkfifo(tmp_path / "pipe")
    threading.Thread(target=(tmp_path / "pipe").write_text, args=("3 5 2.5\n",), daemon=True).start()
    done = run("update", tmp_path / "s", tmp_path / "pipe", timeout=60)
    assert done.returncode == 0, done.stderr
    with fa.open(tmp_path / "s") as store:
        assert store.raw(3, 5) == 2.5


def test_a_folder_of_results_that_is_a_file_is_one_clear_error(tmp_path):
    np.save(tmp_path / "cube.npy", fa.datasets.hyperspectral(8, 9, bands=10, k=2, rng=0).cube)
    (tmp_path / "cube-unmixed").touch()  # the folder by default
    done = run("unmix", "cube.npy", "-k", 2, "--no-pictures", cwd=tmp_path)
    assert (done.returncode, b"a file has that name" in done.stderr) == (1, True), done.stderr
