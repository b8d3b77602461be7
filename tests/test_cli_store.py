"""``fastanchors build / info / verify / update / append``: results, exit codes, and where they are written."""

from __future__ import annotations

import io
import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa

pytest.importorskip("click", reason="extra cli")
pytest.importorskip("rich", reason="extra cli")


@pytest.fixture
def call(monkeypatch, capsys):
    """Run a command; returns (exit code, standard output, standard error)."""
    from fastanchors.cli import main

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["fastanchors", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as caught:
            main()
        captured = capsys.readouterr()
        return caught.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("name,x,y,z\n" + "".join(f"r{i},{i + 1},{i % 3},4\n" for i in range(30)))
    return path


def test_build_info_verify(call, table, tmp_path):
    store = tmp_path / "s"
    code, out, err = call("build", table, store, "--json")
    assert (code, err) == (0, "")
    built = json.loads(out)
    assert (built["rows"], built["columns"], built["sparse"], built["dtype"]) == (30, 3, False, "float64")
    code, out, err = call("info", store, "--json", "--top", 2)
    facts = json.loads(out)
    S = fa.open(store)
    assert facts["frobenius_norm"] == pytest.approx(S.frobenius_norm)
    norms = S.row_norm(np.arange(30))
    assert facts["heaviest_rows"][0]["norm"] == pytest.approx(norms.max())
    assert facts["heaviest_rows"][0]["name"] == f"r{norms.argmax()}"
    assert facts["heaviest_columns"][0]["name"] in "xyz"
    assert facts["condition_estimate"] >= 1
    assert facts["nonzeros"] == S.nnz
    code, out, err = call("info", store)
    assert code == 0
    assert "30 rows × 3 columns" in out
    assert facts["heaviest_rows"][0]["name"] in out
    code, out, err = call("verify", store, "--json")
    assert (code, json.loads(out)["ok"]) == (0, True)
    assert "is intact" in call("verify", store)[1]


def test_a_store_for_more_anchors_than_its_directions(call, tmp_path):
    np.save(tmp_path / "a.npy", fa.datasets.separable(200, 30, 4, noise=0.05, rng=0).A)
    assert call("build", tmp_path / "a.npy", tmp_path / "s", "--directions", 5)[0] == 0
    code, _, err = call("seek", tmp_path / "s", "-k", 8)
    assert code == 1
    assert "use -k 6 or fewer, rebuild it with fastanchors build --directions 7 SOURCE STORE" in err
    assert call("build", tmp_path / "a.npy", tmp_path / "s", "--directions", 7, "--overwrite")[0] == 0
    assert call("seek", tmp_path / "s", "-k", 8)[0] == 0
    assert call("build", tmp_path / "a.npy", tmp_path / "t", "--directions", 0)[0] == 2


def test_options_of_build(call, tmp_path):
    np.savez(tmp_path / "two.npz", a=np.eye(3), b=np.eye(4) - 0.5)
    (tmp_path / "names.txt").write_text("u\nv\nw\nx\n")
    arguments = ("--variable", "b", "--normalize", "none", "--no-columns", "--memory", "64M")
    names = ("--row-names", tmp_path / "names.txt", "--column-names", tmp_path / "names.txt")
    code, out, _ = call("build", tmp_path / "two.npz", tmp_path / "s", *arguments, *names, "--json")
    facts = json.loads(out)
    assert (code, facts["normalize"], facts["column_side"]) == (0, None, False)
    assert list(fa.open(tmp_path / "s").column_names) == ["u", "v", "w", "x"]
    assert call("build", tmp_path / "two.npz", tmp_path / "s")[0] == 1
    assert call("build", tmp_path / "two.npz", tmp_path / "s", "--variable", "a", "--overwrite")[0] == 0
    assert fa.open(tmp_path / "s").shape == (3, 3)


def test_update(call, table, tmp_path):
    store = tmp_path / "s"
    call("build", table, store)
    code, out, err = call("update", store, "--json", stdin=b"0 0 5\n1,2,7.5\n\n0\t1\t2\n")
    assert (code, err, json.loads(out)["changed"]) == (0, "", 3)
    S = fa.open(store)
    assert S.raw([0, 1, 0], [0, 2, 1]).tolist() == [5, 7.5, 2]
    (tmp_path / "more.txt").write_text("".join(f"{i % 30} {i % 3} 1\n" for i in range(90)))
    code, out, _ = call("update", store, tmp_path / "more.txt", "--add", "--commit-every", "40", "--json")
    assert json.loads(out)["commits"] == 3
    assert fa.open(store).raw(0, 0) == 8
    before = fa.open(store).raw(*np.indices((30, 3)))
    for bad, message in (
        (b"0 0 1\n0 x 1\n", "line 2"),
        (b"0 0 1\n0 1\n", "line 2: expected 3 numbers, got 2"),
        (b"0 0 1\n0.5 1 1\n", "line 2: row and column must be integers"),
        (b"0 0 1\n99 1 1\n", "row 99 is out of range"),
        (b"0 0 1\n0 1 -1\n", "negative"),
        (b"inf 0 3\n", "line 1: row and column must be integers"),
        (b"0 1e300 3\n", "line 1: row and column must be integers"),
    ):
        code, out, err = call("update", store, stdin=bad)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert message in err
    np.testing.assert_array_equal(fa.open(store).raw(*np.indices((30, 3))), before)


def test_update_by_name(call, table, tmp_path):
    store = tmp_path / "s"
    call("build", table, store)
    lines = b"r0,x,5\nr1\ty\t7.5\n\nr0 z 2\n"
    code, out, err = call("update", store, "--names", "--json", stdin=lines)
    assert (code, err, json.loads(out)["changed"]) == (0, "", 3)
    assert fa.open(store).raw([0, 1, 0], [0, 1, 2]).tolist() == [5, 7.5, 2]
    for bad, message in (
        (b"r0 x 1\nr99 x 1\n", "line 2: no row is named 'r99'"),
        (b"r0 0 1\n", "line 1: no column is named '0'"),
        (b"r0 x\n", "line 1: expected row, column and value, found 2 fields"),
        (b"r0 x 1_0\n", "line 1: '1_0' is not a number"),
        ("r0 x ٣\n".encode(), "line 1: '٣' is not a number"),
    ):
        code, out, err = call("update", store, "--names", stdin=bad)
        assert (code, out, err.count("\n")) == (1, "", 1)
        assert message in err
    fa.build(np.ones((3, 2)), tmp_path / "t", row_names=["a", "a", "b"]).close()
    assert call("update", tmp_path / "t", "--names", stdin=b"b 1 5\n")[0] == 0
    assert fa.open(tmp_path / "t").raw(2, 1) == 5
    assert "several rows are named 'a'" in call("update", tmp_path / "t", "--names", stdin=b"a 1 5\n")[2]
    assert "'2' is not an index of 0 … 1" in call("update", tmp_path / "t", "--names", stdin=b"b 2 5\n")[2]
    assert (
        "is not an index of 0 … 1" in call("update", tmp_path / "t", "--names", stdin=b"b " + b"7" * 5000 + b" 5\n")[2]
    )
    assert call("update", tmp_path / "t", "--names", stdin=b"b " + b"0" * 5000 + b"1 5\n")[0] == 0
    fa.build(np.ones((3, 2)), tmp_path / "u").close()
    assert "has no names" in call("update", tmp_path / "u", "--names", stdin=b"0 1 5\n")[2]


@pytest.mark.parametrize("sparse", [True, False])
def test_info_of_small_integers(call, tmp_path, sparse):
    """Products of bytes overflow: the estimates equal those of the same matrix in double precision."""
    A = np.random.default_rng(0).integers(100, 255, (50, 3))
    found = []
    for dtype in (np.uint8, np.float64):
        B = A.astype(dtype)
        fa.build(sp.csr_array(B) if sparse else B, tmp_path / np.dtype(dtype).name, normalize=None).close()
        found.append(json.loads(call("info", tmp_path / np.dtype(dtype).name, "--json")[1])["singular_values"])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)
    np.testing.assert_allclose(found[0][0], np.linalg.norm(A, 2), rtol=0.05)


def test_info_states_the_condition_number(call, tmp_path):
    rng = np.random.default_rng(0)
    for name, A, words in (
        ("all", rng.random((50, 3)), "over the last)"),
        ("some", rng.random((50, 30)), "over the 10th of 30)"),
        ("rank", rng.random((50, 2)) @ rng.random((2, 30)), "over the 2nd of 30, those after it about zero)"),
    ):
        fa.build(A, tmp_path / name).close()
        assert words in call("info", tmp_path / name)[1]


def test_append(call, table, tmp_path):
    store = tmp_path / "s"
    call("build", table, store)
    code, out, _ = call("append", store, table, "--json")
    assert (code, json.loads(out)["appended"], json.loads(out)["rows"]) == (0, 30, 60)
    assert fa.open(store).row_names[59] == "r29"
    sp.save_npz(tmp_path / "wide.npz", sp.eye_array(5))
    code, out, err = call("append", store, tmp_path / "wide.npz")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "has 5 columns, the store has 3" in err


def test_errors_are_one_line_and_wrong_usage_exits_with_2(call, table, tmp_path):
    for arguments, message in (
        (("build", tmp_path / "missing.csv", tmp_path / "s"), "does not exist"),
        (("info", tmp_path / "nothing"), "does not exist"),
        (("verify", table), "is a file, not a store"),
    ):
        code, out, err = call(*arguments, "--json")
        assert (code, err.count("\n")) == (1, 1)
        assert message in json.loads(out)["error"]
        assert message in err
    call("build", table, tmp_path / "s")
    shard = tmp_path / "s" / "shard-000000.bin"
    damaged = bytearray(shard.read_bytes())
    damaged[100] ^= 1
    shard.write_bytes(damaged)
    code, _, err = call("verify", tmp_path / "s")
    assert (code, "shard-000000.bin" in err) == (1, True)
    assert call("build", table)[0] == 2
    assert call("build", table, tmp_path / "t", "--memory", "lots")[0] == 2
    assert call("biuld", table, tmp_path / "t")[0] == 2


def test_updates_from_a_pipe(table, tmp_path):
    """The command as installed, fed by a pipe."""
    command = [sys.executable, "-c", "from fastanchors.cli import main; main()"]
    subprocess.run([*command, "build", str(table), str(tmp_path / "s")], check=True, capture_output=True)
    lines = "".join(f"{i % 30} {i % 3} {i % 5}\n" for i in range(20_000)).encode()
    done = subprocess.run(
        [*command, "update", str(tmp_path / "s"), "--json"], input=lines, check=True, capture_output=True
    )
    assert json.loads(done.stdout)["changed"] == 20_000
    assert fa.open(tmp_path / "s").raw(29, 2) == 19_979 % 5
