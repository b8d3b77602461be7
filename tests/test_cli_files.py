"""The command line on odd files: pipes, outputs that collide, files of names, missing values, full disks."""

from __future__ import annotations

import csv
import io
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import GuessWarning, InvalidInputError, StoreError, TooLargeError

pytest.importorskip("click", reason="extra cli")
pytest.importorskip("rich", reason="extra cli")

from click.testing import CliRunner

from fastanchors.cli import main
from fastanchors.cli.app import app

A = fa.datasets.separable(40, 6, 3, noise=0.01, rng=0).A
TABLE = "name,x,y\na,1,0\nb,0,1\n"


def call(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def through_pipe(tmp_path, data):
    """A named pipe that a thread writes ``data`` to."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    thread = threading.Thread(target=lambda: pipe.write_bytes(data), daemon=True)
    thread.start()
    return pipe


# Pipes


@pytest.mark.parametrize("name", ["a.csv", "a.npy", "a.mat", "a.npz", "a.h5ad"])
def test_a_pipe_is_read_like_its_file(tmp_path, name):
    if name == "a.h5ad":
        pytest.importorskip("anndata").AnnData(A).write_h5ad(tmp_path / name)
    path = tmp_path / name
    writers = {
        "a.csv": lambda: np.savetxt(path, A, delimiter=",", fmt="%.17g"),
        "a.npy": lambda: np.save(path, A),
        "a.mat": lambda: scipy.io.savemat(path, {"A": A}),
        "a.npz": lambda: sp.save_npz(path, sp.csr_array(A)),
    }
    writers.get(name, lambda: None)()
    expected = call("seek", path, "-k", 3, "--no-shares").output.splitlines()[2:6]
    pipe = through_pipe(tmp_path, path.read_bytes())
    done = call("seek", pipe, "-k", 3, "--no-shares", "--format", name[2:])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[2:6] == expected


def test_a_pipe_in_python_is_an_error(tmp_path):
    os.mkfifo(tmp_path / "p.h5ad")
    with pytest.raises(StoreError, match="is a pipe"):
        fa.build(tmp_path / "p.h5ad", tmp_path / "s")
    with pytest.raises(StoreError, match="is a pipe"):
        fa.build(tmp_path / "p.h5ad", tmp_path / "s", format="csv")


def test_an_error_in_a_pipe_does_not_name_a_temporary_file(tmp_path):
    done = call("seek", through_pipe(tmp_path, b"a,b\n1,x\n"), "-k", 1)
    assert done.exit_code == 1
    assert "fastanchors-" not in str(done.exception)


# Outputs


def test_outputs_of_topics_overwrite_no_input_and_not_each_other(tmp_path):
    texts = ["apple pie fruit", "dog cat house", "apple tree fruit", "cat dog pet"] * 10
    (tmp_path / "c.txt").write_text("\n".join(texts))
    words = tmp_path / "words.csv"
    words.write_text("pie\n")
    refused = call("topics", tmp_path / "c.txt", "-k", 2, "--stop-words", words, "--topics-table", words)
    assert (refused.exit_code, "would be overwritten" in refused.output) == (2, True)
    assert words.read_text() == "pie\n"
    both = tmp_path / "t.csv"
    refused = call("topics", tmp_path / "c.txt", "-k", 2, "--topics-table", both, "--documents-table", both)
    assert (refused.exit_code, "also the file of --topics-table" in refused.output) == (2, True)
    assert not both.exists()


@pytest.mark.parametrize("folder", ["s.store", "s.store/new/er"])
def test_no_folder_of_results_in_a_store(tmp_path, folder):
    fa.build(A, tmp_path / "s.store")
    np.save(tmp_path / "a.npy", A)
    before = sorted(os.listdir(tmp_path / "s.store"))
    for command in (["unmix", tmp_path / "a.npy", "-k", 2], ["demo"]):
        refused = call(*command, "-o", tmp_path / folder)
        assert (refused.exit_code, "is inside a store" in refused.output) == (2, True)
    assert sorted(os.listdir(tmp_path / "s.store")) == before


def test_unmix_names_results_of_an_earlier_run(tmp_path):
    np.save(tmp_path / "a.npy", A)
    first = call("unmix", tmp_path / "a.npy", "-k", 2, "--shape", "5x8", "--no-pictures", "-o", tmp_path / "um")
    again = call("unmix", tmp_path / "a.npy", "-k", 2, "--no-pictures", "-o", tmp_path / "um")
    assert "an earlier run" not in first.output
    assert "results of an earlier run: abundances.img, abundances.hdr, residual.img, residual.hdr" in again.output


def test_the_manifest_of_a_web_site_is_not_a_store(tmp_path):
    (tmp_path / "manifest.json").write_text('{"name": "site"}')
    (tmp_path / "a.csv").write_text(TABLE)
    assert call("seek", tmp_path / "a.csv", "-k", 1, "--out", tmp_path / "o.json").exit_code == 0


@pytest.mark.parametrize("escape", [[], ["--escape-formulas"]])
def test_names_that_begin_with_a_quote_are_found_again(tmp_path, escape):
    (tmp_path / "h.csv").write_text("name,x,y\n'+a,1,0\n=b,0,1\n")
    call("seek", tmp_path / "h.csv", "-k", 2, "--out", tmp_path / "o.csv", *escape)
    done = call("encode", tmp_path / "h.csv", tmp_path / "o.csv", "-o", tmp_path / "w.csv")
    assert done.exit_code == 0, done.exception


# Files of names


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_names_without_their_byte_order_mark(tmp_path, mark, end):
    (tmp_path / "names.txt").write_bytes(mark + end.join([b"p", "q\u2028r".encode(), b"s"]) + end)
    with fa.build(np.eye(3), tmp_path / "s", column_names=str(tmp_path / "names.txt")) as store:
        assert list(store.column_names) == ["p", "q\u2028r", "s"]


def test_names_without_end(tmp_path):
    with pytest.raises(TooLargeError, match="bytes of column names"):
        fa.build(np.eye(3), tmp_path / "s", column_names="/dev/zero")


def test_a_topic_model_without_end():
    with pytest.raises(StoreError, match="is not a topic model"):
        fa.apps.load_topics("/dev/zero")


def test_triplets_with_a_byte_order_mark(tmp_path):
    fa.build(np.eye(3), tmp_path / "s", normalize=None).close()
    (tmp_path / "t.txt").write_bytes(b"\xef\xbb\xbf0 1 5\n")
    assert call("update", tmp_path / "s", tmp_path / "t.txt").exit_code == 0
    with fa.open(tmp_path / "s") as store:
        assert store.rows([0])[0, 1] == 5


# Results and models


def rezipped(path, name, change):
    """Rewrite an archive with one member changed."""
    with zipfile.ZipFile(path) as archive:
        members = {each: archive.read(each) for each in archive.namelist()}
    members[name] = change(members[name])
    with zipfile.ZipFile(path, "w") as archive:
        for each, data in members.items():
            archive.writestr(each, data)


def as_bytes(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def broken_header(data):
    return data.replace(b")", b"(", 1)  # NumPy raises an error of Python's tokenizer


@pytest.mark.parametrize(
    "change",
    [
        broken_header,
        lambda data: data[:40],
        lambda data: as_bytes(np.full((2, 2), np.nan)),
        lambda data: as_bytes(np.ones((3, 2))),
    ],
)
def test_a_damaged_result_is_one_error(tmp_path, change):
    (tmp_path / "a.csv").write_text(TABLE)
    assert call("seek", tmp_path / "a.csv", "-k", 2, "--out", tmp_path / "o.npz").exit_code == 0
    rezipped(tmp_path / "o.npz", "components.npy", change)
    for command in (["encode", tmp_path / "a.csv", tmp_path / "o.npz"], ["report", tmp_path / "o.npz"]):
        refused = call(*command, "-o", tmp_path / ("w.npy" if command[0] == "encode" else "w.html"))
        assert isinstance(refused.exception, StoreError)
        assert "cannot read anchors from" in str(refused.exception)


def test_a_result_without_anchors_is_one_error(tmp_path):
    (tmp_path / "a.csv").write_text(TABLE)
    call("seek", tmp_path / "a.csv", "-k", 2, "--out", tmp_path / "o.npz")
    with np.load(tmp_path / "o.npz") as file:
        arrays = {name: file[name] for name in file.files if name != "anchors"}
    np.savez(tmp_path / "o.npz", **arrays)
    refused = call("report", tmp_path / "o.npz", "-o", tmp_path / "w.html")
    assert "it has no 'anchors'" in str(refused.exception)


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_the_report_on_a_result_does_not_claim_a_proof_for_other_rows(tmp_path, suffix):
    rows = fa.datasets.separable(60, 8, 3, rng=0).A
    np.save(tmp_path / "a.npy", rows)
    assert call("seek", tmp_path / "a.npy", "-k", 3, "--out", tmp_path / f"o{suffix}").exit_code == 0
    for now, changed in ((rows, False), (np.vstack([rows, rows[::-1] * 2]), True)):
        np.save(tmp_path / "a.npy", now)
        assert call("report", tmp_path / f"o{suffix}", "-o", tmp_path / "w.html").exit_code == 0
        page = (tmp_path / "w.html").read_text(encoding="utf-8")
        assert ("data had 60 rows when the anchors were found, and have 120 now" in page) is changed


@pytest.mark.parametrize("suffix", [".json", ".npz"])
@pytest.mark.parametrize("selection", ["spa", "auto"])
def test_a_result_is_not_used_with_rows_that_were_replaced(tmp_path, suffix, selection):
    """Rows without names, and as many as before: only their content shows that they are others."""
    data, result = tmp_path / "a.npy", tmp_path / f"o{suffix}"
    rows = fa.datasets.separable(60, 8, 3, noise=0.05, rng=0).A
    np.save(data, rows)
    assert call("seek", data, "-k", 3, "--selection", selection, "--out", result).exit_code == 0
    assert call("report", result, "-o", tmp_path / "w.html").exit_code == 0
    for other in (fa.datasets.separable(60, 8, 3, noise=0.05, rng=1).A, rows[::-1], np.roll(rows, 1, axis=0)):
        np.save(data, other)
        refused = call("report", result, "-o", tmp_path / "w.html")
        assert "is not the row that was an anchor in" in str(refused.exception)
        assert "run seek again" in str(refused.exception)
        encoded = call("encode", data, result, "-o", tmp_path / "w.npy")
        assert (encoded.exit_code == 0) is (suffix == ".npz" or selection == "auto")  # has the anchor rows, or points


@pytest.mark.parametrize("change", ["scaled", "unscaled", "single", "decimals", "old"])
def test_a_result_is_used_with_rows_that_were_rounded_or_scaled(tmp_path, change):
    rows = fa.datasets.separable(60, 8, 3, noise=0.05, rng=0).A
    np.save(tmp_path / "a.npy", rows)
    result, data = tmp_path / "o.json", tmp_path / "b.npy"
    assert call("seek", tmp_path / "a.npy", "-k", 3, "--selection", "spa", "--out", result).exit_code == 0
    options = ()
    if change == "scaled":
        np.save(data, 1e-170 * rows / rows.sum(axis=1, keepdims=True))
    elif change == "unscaled":
        data, options = tmp_path / "a.npy", ("--normalize", "none")
    elif change == "single":
        np.save(data, rows.astype(np.float32))
    elif change == "decimals":
        data = tmp_path / "b.csv"
        np.savetxt(data, rows, fmt="%.2f", delimiter=",")
    else:  # a result of an earlier version
        np.save(data, rows[::-1])
        record = json.loads(result.read_text())
        del record["fingerprint"]
        result.write_text(json.dumps(record))
    assert call("encode", data, result, "-o", tmp_path / "w.npy", *options).exit_code == 0
    assert call("report", result, "--data", data, "-o", tmp_path / "w.html", *options).exit_code == 0


RANK = {"k": 1, "reason": "", "rows": 2}


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [2]},
        {"shape": "ab"},
        {"cost": {"nonsense": 1}},
        {"cost": None},
        {"certificate": []},
        {"seconds": "x"},
        {"residuals": ["x"]},
        {"anchor_names": ["a"]},
        {"fingerprint": None},
        {"fingerprint": "x"},
        {"fingerprint": [[1.0]]},
        {"reader": 3},
        {"certificate": {"kind": "proved", "statement": "", "details": {}}},
        {"certificate": {"kind": [], "statement": "", "details": {}}},
        {"certificate": {"kind": "none", "statement": 3, "details": {}}},
        {"certificate": {"kind": "none", "statement": "", "details": None}},
        {"cost": {"samples": "x"}},
        {"seconds": None},
        {"seconds": float("inf")},
        {"normalize": 5},
        {"rank": {}},
        {"rank": 3},
        {"rank": {**dict.fromkeys(("ks", "residuals", "errors", "falls", "singular_values", "anchors"), ()), **RANK}},
    ],
)
def test_a_result_with_wrong_types_is_one_error(tmp_path, change):
    (tmp_path / "a.csv").write_text(TABLE)
    assert call("seek", tmp_path / "a.csv", "-k", 2, "--out", tmp_path / "o.json").exit_code == 0
    record = json.loads((tmp_path / "o.json").read_text())
    (tmp_path / "o.json").write_text(json.dumps(record | change))
    refused = call("report", tmp_path / "o.json", "-o", tmp_path / "w.html")
    assert isinstance(refused.exception, StoreError)
    assert not (tmp_path / "w.html").exists()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("topics.npy", broken_header),
        ("anchors.npy", lambda data: as_bytes(np.array([0, 99]))),
        ("groups.npy", lambda data: as_bytes(np.array([[-1], [0]]))),
        ("telling.npy", lambda data: as_bytes(np.array([[0.5], [0.0]]))),
        ("share.npy", lambda data: as_bytes(np.array([0.5, np.nan]))),
        ("share.npy", lambda data: as_bytes(np.zeros(2))),
        ("mixtures.npy", lambda data: as_bytes(np.ones((3, 5)))),
        ("mixtures.npy", lambda data: as_bytes(np.full((60, 2), 1e270))),
        ("directions.npy", lambda data: as_bytes(np.full((30, 12), 1e270))),  # products that are not finite
        ("vocabulary.npy", lambda data: as_bytes(np.array(["a"]))),
        ("vocabulary.npy", lambda data: data[:-4] + b"\xff" * 4),  # beyond the last character of Unicode
    ],
)
def test_a_damaged_topic_model_is_one_error(tmp_path, name, change):
    model = fa.apps.topics(fa.datasets.topics(60, 30, 2, rng=0).A, 2, vocabulary=[f"w{j}" for j in range(30)])
    fa.apps.save_topics(model, tmp_path / "m.npz")
    assert fa.apps.load_topics(tmp_path / "m.npz").vocabulary == model.vocabulary
    rezipped(tmp_path / "m.npz", name, change)
    with pytest.raises(StoreError, match="is damaged"):
        fa.apps.load_topics(tmp_path / "m.npz")


def test_spectra_that_are_not_text_are_one_error(tmp_path):
    np.save(tmp_path / "cube.npy", A.reshape(5, 8, 6))
    (tmp_path / "endmembers.csv").write_bytes(b"band,material 1\n0,\xff\n")
    refused = call("encode", tmp_path / "cube.npy", tmp_path / "endmembers.csv", "-o", tmp_path / "w.npy")
    assert isinstance(refused.exception, StoreError)
    assert not (tmp_path / "w.npy").exists()


# Tables


def test_a_link_to_nowhere_is_named(tmp_path):
    (tmp_path / "a.csv").symlink_to("gone.csv")
    with pytest.raises(StoreError, match=r"a\.csv is a link to gone\.csv, which does not exist"):
        fa.build(tmp_path / "a.csv", tmp_path / "s")


@pytest.mark.parametrize("cell", ["NA", "", "null", "?"])
@pytest.mark.parametrize("heading", ["x,y,z\n", ""])
def test_a_missing_value_in_the_first_row_is_not_a_name(tmp_path, cell, heading):
    (tmp_path / "v.csv").write_text(f"{heading}{cell},0,1\n0,1,1\n1,0,0\n")
    with pytest.raises(StoreError, match=r"v\.csv, line \d: .*(is not a number|missing)"):
        fa.build(tmp_path / "v.csv", tmp_path / "s", header=bool(heading))


def test_text_among_numbers_is_a_name_with_a_warning(tmp_path):
    (tmp_path / "v.csv").write_text("x,y,z\n$5,0,1\n0,1,1\n1,0,0\n")
    with pytest.warns(GuessWarning, match=r"read as row names because of '\$5'"):
        fa.build(tmp_path / "v.csv", tmp_path / "s").close()


@pytest.mark.parametrize("cells", [("5%", "6%"), ('"1,000"', '"2,000"'), ("$5", "$6"), ("True", "False")])
def test_numbers_with_signs_are_names_with_a_warning(tmp_path, cells):
    (tmp_path / "a.csv").write_text("x,y\n" + "".join(f"{cell},{i}\n" for i, cell in enumerate(cells, start=1)))
    with pytest.warns(GuessWarning, match="is not a plain number"):
        assert fa.open_matrix(tmp_path / "a.csv").shape == (2, 1)


def test_a_table_of_one_line_is_data(tmp_path):
    (tmp_path / "o.csv").write_text("1,2,3\n")
    with fa.build(tmp_path / "o.csv", tmp_path / "s") as store:
        assert store.shape == (1, 3)


# Ratings


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ratings_with_quoted_line_breaks(tmp_path, end):
    with (tmp_path / "r.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator=end)
        writer.writerows([["user", "item", "rating"], ["u", "a\nb", 3], ["v", 'q"x,y', 2], ["v", "z" * 200_000, 1]])
    if end == "\r":
        (tmp_path / "r.csv").write_bytes((tmp_path / "r.csv").read_bytes().replace(b"\n", b""))
    read = fa.apps.read_ratings(tmp_path / "r.csv")
    assert read.items[0] in ("a\nb", "ab")
    assert read.items[1:] == ['q"x,y', "z" * 200_000]
    (tmp_path / "blank.csv").write_text('u, "a,b", 3\nv, "c", 2\n')
    assert fa.apps.read_ratings(tmp_path / "blank.csv").items == ["a,b", "c"]


def test_ratings_without_end():
    with pytest.raises(InvalidInputError, match="not a text file"):
        fa.apps.read_ratings("/dev/zero")


# Temporary files


@pytest.mark.parametrize("name", ["a.mat", "a.mtx", "-"])
def test_a_full_temporary_folder_is_named(tmp_path, name):
    B = np.random.default_rng(0).random((4000, 30))
    if name == "a.mat":
        scipy.io.savemat(tmp_path / name, {"B": B}, do_compression=True)
    elif name == "a.mtx":
        scipy.io.mmwrite(tmp_path / name, sp.coo_array(B)[:, ::-1].tocsc())
    command = [sys.executable, "-m", "fastanchors", "build", name, "s.store", "--memory", "4M"]
    given = "\n".join(",".join(map(str, row)) for row in B.tolist()).encode() if name == "-" else b""

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    done = subprocess.run(command, input=given, cwd=tmp_path, capture_output=True, check=False, preexec_fn=limited)
    assert done.returncode == 1
    assert b"cannot write temporary files for" in done.stderr
    assert b"the file would be too large for this disk or limit" in done.stderr
    assert done.stderr.count(b"\n") == 1
    assert not (tmp_path / "s.store").exists()


def test_gdal_prints_nothing(tmp_path):
    rasterio = pytest.importorskip("rasterio", reason="extra geo")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rasterio.errors.NotGeoreferencedWarning)
        with rasterio.open(
            tmp_path / "e.tif", "w", driver="GTiff", height=4, width=5, count=2, dtype="float32"
        ) as file:
            file.write(np.ones((2, 4, 5), np.float32))
    data = bytearray((tmp_path / "e.tif").read_bytes())
    tags = int.from_bytes(data[4:8], "little") + 2
    at = data.index((262).to_bytes(2, "little"), tags)  # the photometric interpretation
    data[at + 2] = 2  # becomes a text
    (tmp_path / "e.tif").write_bytes(data)
    command = [sys.executable, "-m", "fastanchors", "build", "e.tif", "s.store"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# Starting, interrupted


def started(tmp_path, module, source, *arguments):
    """The command, started with a stand-in for an imported module."""
    (tmp_path / module).mkdir()
    (tmp_path / module / "__init__.py").write_text(source)
    path = os.pathsep.join([str(tmp_path), str(Path(fa.__file__).parents[1])])
    command = [sys.executable, "-m", "fastanchors", *arguments]
    return subprocess.run(command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("module", ["rich", "numba"])
@pytest.mark.parametrize("swallowed", [False, True])
def test_an_interrupt_while_modules_are_imported(tmp_path, module, swallowed):
    interrupt = "import os, signal, time\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(0.1)\n"
    interrupt += "except BaseException:\n    " + ("pass" if swallowed else "raise")
    answer = started(tmp_path, module, interrupt, "seek", "missing.csv", "-k", "2")
    assert (answer.returncode, answer.stderr) == (130, "fastanchors: interrupted\n")


def test_an_interrupt_that_a_compiled_module_turns_into_an_import_error(tmp_path, monkeypatch, capsys):
    def read(*arguments, **options):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise ImportError("initialization failed") from error

    monkeypatch.setattr("fastanchors.cli.seek.Input", read)
    monkeypatch.setattr(sys, "argv", ["fastanchors", "seek", "a.csv", "-k", "2"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "fastanchors: interrupted\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# Names of files


def test_a_file_of_names_is_not_overwritten(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,0\n0,1\n")
    names = tmp_path / "names.csv"
    names.write_text("first\nsecond\n")
    given = ("--names-column", names)
    for command in (
        ("seek", tmp_path / "a.csv", "-k", 2, "--out", names, *given),
        ("encode", tmp_path / "a.csv", "0,1", "-o", names, *given),
        ("representatives", tmp_path / "a.csv", "-k", 2, "-o", names, *given),
    ):
        answer = call(*command)
        assert answer.exit_code == 2
        assert "is an input of this command" in answer.output
        assert names.read_text() == "first\nsecond\n"


@pytest.mark.parametrize("suffix", [".csv", ".npz", ".html"])
def test_the_longest_names_of_outputs(tmp_path, suffix):
    np.save(tmp_path / "a.npy", A)
    out = tmp_path / ("é" * 124 + suffix)
    command = ["report", "-k", 3] if suffix == ".html" else ["encode"]
    answer = call(*command[:1], tmp_path / "a.npy", *command[1:], *([] if suffix == ".html" else ["0,1"]), "-o", out)
    assert answer.exit_code == 0, answer.output
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["a.npy", out.name])


@pytest.mark.parametrize("command", ["seek", "topics", "unmix", "recommend", "info", "report", "build", "update"])
def test_an_empty_name_is_not_the_current_folder(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("some words\nother words\n")
    more = {"recommend": ["--user", "1"], "build": ["a.store"], "info": [], "report": [], "update": []}
    answer = call(command, *(["a.store"] if command == "update" else []), "", *more.get(command, ["-k", 2]))
    assert answer.exit_code == 2
    assert "the name is empty" in answer.output
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("command", [("encode", "a.npy", "", "-o", "w.npy"), ("topics", "a.txt", "--stop-words", "")])
def test_an_empty_word_or_file_is_not_the_current_folder(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", A)
    (tmp_path / "a.txt").write_text("some words\nother words\n")
    answer = call(*command)
    assert (answer.exit_code, "the name is empty" in answer.output) == (2, True)


def test_anchors_in_a_file_of_another_kind(tmp_path):
    np.save(tmp_path / "a.npy", A)
    (tmp_path / "anchors.txt").write_text("0 1\n")
    answer = call("encode", tmp_path / "a.npy", tmp_path / "anchors.txt", "-o", tmp_path / "w.npy")
    assert isinstance(answer.exception, InvalidInputError)
    assert "neither a result of seek --out" in str(answer.exception)


def test_no_output_in_a_folder_that_is_read(tmp_path):
    zarr = pytest.importorskip("zarr", reason="extra io")
    data, corpus = tmp_path / "a.zarr", tmp_path / "corpus"
    zarr.save(str(data), A)
    corpus.mkdir()
    for number in range(4):
        (corpus / f"{number}.txt").write_text("cats purr and dogs bark\n" * (number + 1))
    assert call("seek", data, "-k", 2, "--out", tmp_path / "r.json").exit_code == 0
    assert call("topics", corpus, "-k", 2, "-o", tmp_path / "m.npz").exit_code == 0
    for command in (
        ["build", data, data / "store"],
        ["unmix", data, "-k", 2, "-o", data / "unmixed"],
        ["report", tmp_path / "r.json", "-o", data / "page.html"],
        ["report", tmp_path / "m.npz", "-o", corpus / "page.html"],
    ):
        refused = call(*command)
        assert (refused.exit_code, "which this command reads" in refused.output) == (2, True)
    assert not {"store", "unmixed", "page.html"} & {path.name for path in (*data.iterdir(), *corpus.iterdir())}
