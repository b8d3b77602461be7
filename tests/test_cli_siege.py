"""The command line with hostile input: no traceback, no escape sequence, no store destroyed, no files left behind."""

from __future__ import annotations

import csv
import json
import os
import signal
import struct
import subprocess
import sys

import numpy as np
import pytest

import fastanchors as fa

pytest.importorskip("click", reason="extra cli")
pytest.importorskip("rich", reason="extra cli")

from fastanchors.cli._files import replacing
from fastanchors.cli._weights import WeightsFile
from fastanchors.cli.app import run
from fastanchors.errors import StoreError

TABLE = "a,b\n1,2\n3,1\n"


@pytest.fixture
def shell(monkeypatch, capfd, tmp_path):
    """Run the command as a shell does, in an empty folder: exit code, standard output, standard error."""
    monkeypatch.chdir(tmp_path)

    def started(*arguments):
        monkeypatch.setattr("sys.argv", ["fastanchors", *map(str, arguments)])
        with pytest.raises(SystemExit) as exited:
            run()
        captured = capfd.readouterr()
        return exited.value.code, captured.out, captured.err

    return started


def one_error(answer):
    code, out, err = answer
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert len(err) < 500
    assert err[:-1].isprintable()
    assert err.startswith("fastanchors: ")
    return err


FILES = {
    "quote.csv": b'a,b\n"' + b"x" * 200_000 + b",2\n",
    "big.ldac": b"2 0:1 1:1\n1 99999999999999999999:1\n",
    "cols.mtx": b"%%MatrixMarket matrix coordinate real general\n3 1000000000000 1\n1 1 1\n",
    "rows.mtx": b"%%MatrixMarket matrix coordinate real general\n1000000000000 3 1\n1 1 1\n",
    "b.hdr": b"ENVI\nsamples = 99999999999999999999\nlines = 6\nbands = 4\ndata type = 4\ninterleave = bsq\n",
    "esc.mat": struct.pack("<5i", 0, 1000, 1000, 0, 23) + b"\x1b]0;PWNED\x07\x1b[31m red 55" + bytes(100),
    "zip.npz": b"PK\x03\x04" + bytes(60),
    "long.csv": ("a,b\n" + "1," + "y" * 20_000 + "\n").encode(),
}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", ["seek", "build"])
def test_hostile_files_give_one_line(shell, tmp_path, name, command):
    (tmp_path / name).write_bytes(FILES[name])
    (tmp_path / "b.img").write_bytes(bytes(480))
    one_error(shell(command, name, *(["-k", "1"] if command == "seek" else ["s.store"])))
    assert not (tmp_path / "s.store").exists()


def test_lines_that_end_in_cr_alone(shell, tmp_path):
    (tmp_path / "mac.csv").write_bytes(TABLE.replace("\n", "\r").encode())
    code, out, _ = shell("seek", "mac.csv", "-k", "1", "--json")
    assert code == 0
    assert json.loads(out)["shape"] == [2, 2]


ANCHORS = {
    "deep.json": "[" * 100_000,
    "half.json": '{"anchors": [0, 1.5]}',
    "text.json": '{"anchors": "01"}',
    "large.json": '{"anchors": [99999999999999999999]}',
    "none.json": "[1, 2]",
    "half.csv": "order,row,name,share\n1,1.5,,\n",
}


@pytest.mark.parametrize("name", [*ANCHORS, "half.npz", "half.npy"])
def test_invalid_row_numbers_of_anchors(shell, tmp_path, name):
    (tmp_path / "d.csv").write_text(TABLE)
    if name == "half.npz":
        np.savez(tmp_path / name, anchors=np.array([1.5]), components=np.ones((1, 2)))
    elif name == "half.npy":
        np.save(tmp_path / name, np.array([1.5]))
    else:
        (tmp_path / name).write_text(ANCHORS[name])
    one_error(shell("encode", "d.csv", name, "-o", "w.npy"))
    assert not (tmp_path / "w.npy").exists()


def test_a_row_number_that_overflows(shell, tmp_path):
    (tmp_path / "d.csv").write_text(TABLE)
    assert "is not a row number" in one_error(shell("encode", "d.csv", "99999999999999999999", "-o", "w.npy"))


def test_results_that_are_nested_too_deeply(shell, tmp_path):
    (tmp_path / "d.csv").write_text(TABLE)
    deep = "[" * 100_000 + "]" * 100_000
    (tmp_path / "deep.json").write_text(deep)
    (tmp_path / "anchors.json").write_text('{"anchors": [' + "[" * 100 + "]" * 100 + "]}")
    (tmp_path / "points.json").write_text('{"anchors": [1], "points": {"a": 1}}')
    np.savez(tmp_path / "record.npz", anchors=[1], components=np.ones((1, 2)), record=np.array(deep))
    np.savez(tmp_path / "topics.npz", topics=np.ones((1, 2)), mixtures=np.ones((1, 1)), record=np.array(deep))
    cases = {"deep.json": "nested too deeply", "record.npz": "nested too deeply", "topics.npz": "nested too deeply"}
    for name, words in (cases | {"anchors.json": "not a row number", "points.json": "'points' is not a table"}).items():
        assert words in one_error(shell("encode", "d.csv", name, "-o", "w.npy"))
    assert "nested too deeply" in one_error(shell("topics", "deep.json", "-k", "2"))


def test_no_output_inside_a_store(shell, tmp_path):
    (tmp_path / "d.csv").write_text(TABLE)
    shell("build", "d.csv", "s.store")
    (tmp_path / "link").symlink_to(tmp_path / "s.store")
    before = {path.name: path.read_bytes() for path in (tmp_path / "s.store").iterdir()}
    for out in ("s.store/manifest.json", "s.store/new.json", "link/manifest.json"):
        for source in ("s.store", "d.csv"):
            code, _, err = shell("seek", source, "-k", "1", "--out", out)
            assert code == 2
            assert "is inside a store" in err
    code, _, err = shell("encode", "s.store", "0", "-o", "s.store/w.npy")
    assert code == 2
    assert {path.name: path.read_bytes() for path in (tmp_path / "s.store").iterdir()} == before


EVIL = "\x1b]0;PWNED\x07\x1b[31mred\u202e\udc80"


def test_names_reach_the_terminal_escaped(shell, tmp_path):
    path = tmp_path / f"{EVIL}.csv"
    path.write_text(TABLE)
    for arguments in (
        ("seek", path, "-k", "1"),
        ("seek", path, "-k", "1", "--json"),
        ("seek", path, "-k", "9"),
        ("seek", path.with_suffix(".no"), "-k", "1"),
        ("seek", path, "-k", "1", "--out", path.with_suffix(".no")),
        ("build", path, tmp_path / f"{EVIL}.store"),
        ("info", tmp_path / f"{EVIL}.store"),
        ("encode", path, "0", "-o", tmp_path / f"{EVIL}.npy"),
    ):
        _, out, err = shell(*arguments)
        assert (out + err).replace("\n", "").isprintable()
        assert out + err


def test_results_with_lone_surrogates(shell, tmp_path):
    np.save(tmp_path / "a.npy", np.eye(3))
    (tmp_path / "names").write_text("a\nb\nc\n")
    from fastanchors.cli._result import load, save

    record = {"anchors": [0, 2], "anchor_names": ["\udc80x", "c\x1b"], "shares": [0.5, 0.5]}
    for suffix in (".json", ".npz", ".csv"):
        path = tmp_path / f"r{suffix}"
        save(record, np.eye(3)[[0, 2]], path)
        assert load(str(path)).indices.tolist() == [0, 2]
        assert suffix != ".json" or b"\x1b" not in path.read_bytes()
    assert load(str(tmp_path / "r.json")).record["anchor_names"] == record["anchor_names"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "names", "r.csv", "r.json", "r.npz"]


def test_formulas_in_tables_are_escaped_on_request(shell, tmp_path):
    names = ["=1+1", "@sum", "-x", "plain"]
    (tmp_path / "d.csv").write_text(
        "name,a,b,c\n" + "".join(f'"{n}",{i % 2},{i + 1},{3 * i}\n' for i, n in enumerate(names))
    )

    def written(*options):
        assert shell("seek", "d.csv", "-k", "2", "--out", "r.csv", *options)[0] == 0
        assert shell("encode", "d.csv", "r.csv", "-o", "w.csv", *options)[0] == 0  # reads the names back
        with open("r.csv", newline="") as found, open("w.csv", newline="") as weights:
            return [row[2] for row in csv.reader(found)][1:] + [row[0] for row in csv.reader(weights)][1:]

    plain, escaped = written(), written("--escape-formulas")
    assert set(plain) >= {"=1+1", "@sum", "-x", "plain"}
    assert escaped == [f"'{name}" if name[0] in "=@-" else name for name in plain]


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("before")
    with pytest.raises(UnicodeEncodeError), replacing(path) as partial:
        partial.write_text("half \udc80", encoding="utf-8")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_terminated_command_leaves_no_files(tmp_path):
    (tmp_path / "tmp").mkdir()
    np.save(tmp_path / "a.npy", np.ones((4, 3)))
    code = """
import sys, time
import fastanchors.fas.opening as used
from fastanchors.cli._weights import WeightsFile
from fastanchors.cli.app import run
from fastanchors.errors import StoreError

def slow(source, place, **options):
    place.mkdir()
    (place / "big").write_bytes(bytes(1000))
    print("building", flush=True)
    time.sleep(60)

used.IN_MEMORY, used.build = 0, slow
sys.argv = ["fastanchors", "seek", sys.argv[1], "-k", "1"]
run()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "a.npy"],
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(tmp_path / "tmp")},
        text=True,
    )
    with process:
        assert process.stdout.readline() == "building\n"
        assert len(list((tmp_path / "tmp").iterdir())) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_hostile_name_in_an_error_of_the_library():
    with pytest.raises(fa.FastAnchorsError) as raised:
        fa.build(f"/no/such/{EVIL}.csv", "s")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("name", ["w.npy", "w.npz", "w.csv"])
@pytest.mark.parametrize("rows", [4, 4000])
def test_a_full_disk_leaves_no_partial_file_and_is_reported(tmp_path, name, rows):
    """A limit on the file size simulates a full disk: small files fail when they are closed, large ones before."""
    resource = pytest.importorskip("resource", reason="no limits here")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    weights = np.random.default_rng(0).random((rows, 3))

    def write():
        with WeightsFile(tmp_path / name, np.float64, ["a", "b", "c"]) as file:
            file.write(weights)

    resource.setrlimit(resource.RLIMIT_FSIZE, (60, hard))
    try:
        with pytest.raises(StoreError, match=rf"cannot write .*{name}: the file would be too large"):
            write()
        with pytest.raises(StoreError, match=r"cannot write .*x.txt"), replacing(tmp_path / "x.txt") as partial:
            partial.write_bytes(bytes(100))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def tables(shell, tmp_path):
    """The table ``f.csv``, the same columns in another order as ``g.csv``, and with another name as ``h.csv``."""
    rows = fa.datasets.separable(40, 6, 3, noise=0.01, rng=0).A
    for file, order, names in (("f", range(6), "abcdef"), ("g", range(5, -1, -1), "abcdef"), ("h", range(6), "abxdef")):
        lines = [",".join(["", *(names[j] for j in order)])]
        lines += [",".join([f"r{i}", *(repr(float(row[j])) for j in order)]) for i, row in enumerate(rows)]
        (tmp_path / f"{file}.csv").write_text("\n".join(lines) + "\n")
    return shell


@pytest.mark.parametrize("result", ["o.npz", "o.json"])
@pytest.mark.parametrize("selection", ["auto", "spa"])
def test_columns_in_another_order_are_matched_by_name(tables, result, selection):
    """They were taken by position: weights differed by up to 1, with exit code 0."""
    assert tables("seek", "f.csv", "-k", 3, "--selection", selection, "--out", result)[0] == 0
    for file in "fg":
        assert tables("encode", f"{file}.csv", result, "-o", f"{file}.npy")[0] == 0
        assert tables("report", result, "--data", f"{file}.csv", "-o", f"{file}.html")[0] == 0
    np.testing.assert_allclose(np.load("g.npy"), np.load("f.npy"), atol=1e-12)


@pytest.mark.parametrize("command", ["encode", "report"])
def test_another_column_is_refused_by_its_name(tables, command):
    assert tables("seek", "f.csv", "-k", 3, "--out", "o.npz")[0] == 0
    given = {"encode": ("h.csv", "o.npz", "-o", "w.npy"), "report": ("o.npz", "--data", "h.csv", "-o", "w.html")}
    code, _, error = tables(command, *given[command])
    assert code == 1
    assert "column 2 is named 'x' in h.csv and 'c' in o.npz" in error
    np.savetxt("names.txt", list("abcdef"), fmt="%s")
    assert tables(command, *given[command], "--column-names", "names.txt")[0] == 0


def test_results_without_names_of_columns_and_data_without_names_are_used_by_position(tables):
    """Results of earlier versions have no names, and arrays have none."""
    assert tables("seek", "f.csv", "-k", 3, "--out", "o.npz")[0] == 0
    assert tables("encode", "f.csv", "o.npz", "-o", "f.npy")[0] == 0
    with np.load("o.npz") as file:
        arrays = dict(file)
    record = json.loads(str(arrays["record"]))
    assert record.pop("column_names") == list("abcdef")
    np.savez("old.npz", **(arrays | {"record": np.array(json.dumps(record))}))
    assert tables("encode", "h.csv", "old.npz", "-o", "h.npy")[0] == 0
    np.save("a.npy", fa.datasets.separable(40, 6, 3, noise=0.01, rng=0).A)
    assert tables("encode", "a.npy", "o.npz", "-o", "w.npy")[0] == 0
    for file in ("h.npy", "w.npy"):
        np.testing.assert_allclose(np.load(file), np.load("f.npy"), atol=1e-12)


@pytest.mark.parametrize("names", ["abcdef", ["a"], [1, 2, 3, 4, 5, 6], [["a"]] * 6])
def test_names_of_columns_in_a_damaged_result_are_one_error(tables, names):
    assert tables("seek", "f.csv", "-k", 3, "--out", "o.json")[0] == 0
    with open("o.json", encoding="utf-8") as file:
        record = json.load(file)
    with open("o.json", "w", encoding="utf-8") as file:
        json.dump(record | {"column_names": names}, file)
    code, _, error = tables("encode", "f.csv", "o.json", "-o", "w.npy")
    assert code == 1
    assert "column_names" in error
    assert error.count("\n") == 1


def test_a_long_list_of_row_numbers_is_not_a_file_name(shell, tmp_path):
    np.save(tmp_path / "a.npy", fa.datasets.separable(120, 5, 3, rng=0).A)
    numbers = ",".join(map(str, range(100)))
    code, _, err = shell("encode", "a.npy", numbers, "-o", "w.npy")
    assert (code, err) == (0, "")
    assert np.load(tmp_path / "w.npy").shape == (120, 100)


def test_links_in_a_circle_are_one_error_or_replaced(shell, tmp_path):
    (tmp_path / "a.csv").write_text(TABLE)
    (tmp_path / "o.json").symlink_to("o.json")
    assert shell("seek", "a.csv", "-k", "1", "--out", "o.json")[0] == 0
    assert json.loads((tmp_path / "o.json").read_text())["k"] == 1
    (tmp_path / "s").symlink_to("s")
    assert "exists already" in one_error(shell("build", "a.csv", "s"))
    with pytest.raises(StoreError, match="exists already"):
        fa.build(tmp_path / "a.csv", tmp_path / "s")
