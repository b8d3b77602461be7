"""``fastanchors seek / encode / report``: answers equal to the library's, in every format, with bounded memory."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa

pytest.importorskip("click", reason="extra cli")
pytest.importorskip("rich", reason="extra cli")

from click.testing import CliRunner

from fastanchors.cli import _result
from fastanchors.cli.app import app
from fastanchors.fas import opening
from fastanchors.io.row_source import Source

A = fa.datasets.separable(200, 15, 4, noise=0.02, rng=3).A
L1 = A / A.sum(axis=1, keepdims=True)
SPA = ("--selection", "spa")


def call(*arguments, ok=True):
    result = CliRunner().invoke(app, [*map(str, arguments)], catch_exceptions=not ok)
    assert (result.exit_code == 0) == ok, result.output
    return result


def answer(*arguments):
    return json.loads(call(*arguments, "--json").output)


def read_weights(path):
    with np.load(path) as archive:
        return archive["weights"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The same matrix in several files, and in a store."""
    folder = tmp_path_factory.mktemp("seek")
    np.save(folder / "a.npy", A)
    sp.save_npz(folder / "a.npz", sp.csr_array(A))
    with (folder / "a.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", *(f"c{j}" for j in range(15))])
        writer.writerows([f"r{i}", *row] for i, row in enumerate(A.tolist()))
    fa.build(A, folder / "a.store", row_names=[f"r{i}" for i in range(200)]).close()
    return folder


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv", "a.store"])
def test_seek_finds_the_anchors_of_the_library(place, name):
    found = answer("seek", place / name, "-k", 4, *SPA)
    expected = fa.FAS(selection="spa").seek(L1, 4, rng=0)
    assert found["anchors"] == expected.indices.tolist()
    assert found["solver"] == "fas"
    assert found["certificate"]["kind"] == "exact"
    assert found["cost"]["rows_read"] > 0
    assert found["seconds"] > 0
    assert (found["shape"], found["normalize"], found["k"]) == ([200, 15], "l1", 4)
    shares = fa.metrics.reconstruction_error(L1, L1[expected.indices])
    assert sum(found["shares"]) + found["unexplained"] == pytest.approx(1)
    assert found["unexplained"] == pytest.approx(shares.relative**2, rel=1e-6)
    names = [f"r{i}" for i in expected.indices]
    assert found.get("anchor_names") == (names if name in ("a.csv", "a.store") else None)
    text = call("seek", place / name, "-k", 4, *SPA).output
    assert "certificate   exact:" in text
    assert f"{found['anchors'][0]}" in text
    assert "a pass for each anchor, reads 1,000" in text
    assert "this was full SPA too" in text


@pytest.mark.parametrize("solver", ["spa", "snpa", "xray"])
def test_other_solvers(place, solver):
    found = answer("seek", place / "a.npy", "-k", 3, "--solver", solver, "--no-shares")
    assert found["anchors"] == fa.solvers.get(solver).seek(L1, 3, rng=0).indices.tolist()
    assert "shares" not in found
    assert found["options"]["selection"] is None


def test_options_reach_the_solver(place):
    as_it_is = answer("seek", place / "a.npy", "-k", 4, *SPA, "--normalize", "none")
    assert as_it_is["anchors"] == fa.FAS(selection="spa").seek(A, 4, rng=0).indices.tolist()
    assert as_it_is["options"]["selection"] == "spa"
    assert answer("seek", place / "a.npy", "-k", 4)["options"]["selection"] == "auto"
    found = answer("seek", place / "a.npy", "-k", 4, "--precondition", "mve")
    assert found["anchors"] == fa.FAS(precondition="mve").seek(L1, 4, rng=0).indices.tolist()
    found = answer("seek", place / "a.store", "-k", 2, "--budget", 50, "--seed", 5)
    assert found["cost"]["rows_read"] <= 50
    assert found["certificate"]["kind"] != "exact"
    assert "its own normalisation" in call("seek", place / "a.store", "-k", 2, "--normalize", "none", ok=False).output


def test_auto(place):
    found = answer("seek", place / "a.store", "-k", "auto")
    curve = fa.rank_curve(L1, 15, rng=0)
    assert (found["k"], found["rank"]["reason"]) == (curve.k, curve.reason)
    assert f"k = {curve.k} because" in call("seek", place / "a.npy", "-k", "auto").output


@pytest.mark.parametrize("suffix", [".json", ".npz", ".csv"])
def test_saved_results_can_be_used_again(place, tmp_path, suffix):
    out = tmp_path / f"r{suffix}"
    printed = answer("seek", place / "a.csv", "-k", 4, *SPA, "--out", out)
    found = _result.load(str(out))
    assert found.indices.tolist() == printed["anchors"]
    if suffix != ".csv":
        names = [f"c{j}" for j in range(printed["shape"][1])]  # too many to print
        assert dict(found.record) == printed | {"column_names": names}
    if suffix == ".npz":
        np.testing.assert_allclose(found.components, L1[found.indices])
    if suffix == ".csv":
        lines = list(csv.DictReader(out.read_text().splitlines()))
        assert {line["support"] for line in lines} == {""}  # plain SPA averages nothing
        assert [line["name"] for line in lines] == printed["anchor_names"]
        assert [float(line["share"]) for line in lines] == pytest.approx(printed["shares"])
    weights = tmp_path / "w.npy"
    answer("encode", place / "a.csv", out, "-o", weights)
    np.testing.assert_allclose(np.load(weights), fa.encode(L1, L1[found.indices]), atol=1e-10)


def test_a_csv_result_says_how_many_rows_support_an_anchor(tmp_path):
    np.save(tmp_path / "n.npy", fa.datasets.separable(300, 20, 4, noise=0.05, rng=0).A)
    out = tmp_path / "r.csv"
    printed = answer("seek", tmp_path / "n.npy", "-k", 4, "--out", out)
    lines = list(csv.DictReader(out.read_text().splitlines()))
    assert [int(line["support"]) for line in lines] == printed["support"] == printed["stability"]["support"]
    assert _result.is_result(out)
    out.write_text("order,row,name,share\n1,3,,\n")  # of an earlier version
    assert _result.is_result(out)


@pytest.mark.parametrize(
    "options",
    [
        ("-k", 4, "--selection", "spa"),
        ("-k", 1),
        ("-k", 20),  # as many as columns, where auto is plain SPA
        ("-k", 4, "--solver", "snpa"),
        ("-k", 4, "--robust", "average"),
        ("-k", 4, "--selection", "smoothed-one"),
    ],
)
def test_every_answer_has_its_stability(tmp_path, options):
    np.save(tmp_path / "n.npy", fa.datasets.separable(300, 20, 4, noise=0.05, rng=0).A)
    printed = answer("seek", tmp_path / "n.npy", *options)
    told, k = printed["stability"], printed["k"]
    for name in ("angles", "moves", "relative", "verdicts"):
        assert len(told[name]) == k
    assert set(told["verdicts"]) <= {"firm", "loose", "noise"}
    assert (told["noise"] is None) == (k in (1, 20))
    if told["noise"] is not None:
        assert told["noise"] > 0
        assert len(told["support"]) == k
    assert f"stability     {told['statement']}" in call("seek", tmp_path / "n.npy", *options).output


def test_points_are_in_json_results_and_encode_other_data(tmp_path):
    A = fa.datasets.separable(300, 20, 4, noise=0.05, rng=0).A
    np.save(tmp_path / "n.npy", A)
    printed = answer("seek", tmp_path / "n.npy", "-k", 4, "--out", tmp_path / "r.json")
    expected = fa.FAS().seek(A / A.sum(axis=1, keepdims=True), 4).points
    np.testing.assert_allclose(printed["points"], expected)
    assert json.loads((tmp_path / "r.json").read_text())["points"] == printed["points"]
    answer("encode", tmp_path / "n.npy", tmp_path / "r.json", "-o", tmp_path / "w.npy")
    answer("seek", tmp_path / "n.npy", "-k", 4, "--out", tmp_path / "r.npz")
    answer("encode", tmp_path / "n.npy", tmp_path / "r.npz", "-o", tmp_path / "v.npy")
    np.testing.assert_allclose(np.load(tmp_path / "w.npy"), np.load(tmp_path / "v.npy"))
    assert "points" not in answer("seek", tmp_path / "n.npy", "-k", 4, "--selection", "spa")


def test_a_number_that_was_chosen_is_not_advised(tmp_path):
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).random((60, 40)) ** 40)
    for k, advised in ((1, True), ("auto", False)):
        printed = answer("seek", tmp_path / "noise.npy", "-k", k)
        assert printed["unexplained"] > 0.9
        assert ("-k auto" in printed["advice"]) == advised


def test_a_stability_that_is_not_known_has_a_reason(tmp_path):
    np.save(tmp_path / "few.npy", np.eye(6) + 0.1)
    printed = answer("seek", tmp_path / "few.npy", "-k", 4, "--selection", "spa")
    assert printed["stability"] == {
        "statement": None,
        "reason": "6 rows are too few for anchors of halves of them; k = 4 needs 4 · k rows",
        "warnings": [],
    }
    assert "not known: 6 rows are too few" in call("seek", tmp_path / "few.npy", "-k", 4, "--selection", "spa").output


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv", "a.store"])
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".csv"])
def test_encode_streams_every_format(place, tmp_path, monkeypatch, name, suffix):
    whole = Source.blocks
    monkeypatch.setattr(Source, "blocks", lambda self, max_bytes=0: whole(self, 5000))  # many blocks
    out = tmp_path / f"w{suffix}"
    facts = answer("encode", place / name, "3,17,5", "-o", out)
    expected = fa.encode(L1, L1[[3, 17, 5]])
    if suffix == ".csv":
        lines = list(csv.reader(out.read_text().splitlines()))
        named = name in ("a.csv", "a.store")
        assert lines[0] == ["row", *(["r3", "r17", "r5"] if named else ["3", "17", "5"])]
        assert [line[0] for line in lines[1:]] == [f"r{i}" if named else str(i) for i in range(200)]
        F = np.array([[float(x) for x in line[1:]] for line in lines[1:]])
    else:
        F = np.load(out) if suffix == ".npy" else read_weights(out)
    np.testing.assert_allclose(F, expected, atol=1e-10)
    assert facts["shape"] == [200, 3]
    assert facts["relative_error"] == pytest.approx(fa.metrics.reconstruction_error(L1, L1[[3, 17, 5]]).relative)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_encode_with_points_sums_and_words(place, tmp_path):
    np.save(tmp_path / "points.npy", L1[[1, 2, 9]])
    text = call("encode", place / "a.npy", tmp_path / "points.npy", "-o", tmp_path / "w.npz", "--sum-to-one").output
    assert "200 rows in 3 anchors" in text
    F = read_weights(tmp_path / "w.npz")
    np.testing.assert_allclose(F.sum(axis=1), 1.0)
    np.testing.assert_allclose(F, fa.encode(L1, L1[[1, 2, 9]], sum_to_one=True), atol=1e-10)
    np.save(tmp_path / "numbers.npy", np.array([1, 2, 9]))
    call("encode", place / "a.npy", tmp_path / "numbers.npy", "-o", tmp_path / "v.npy")
    np.testing.assert_allclose(np.load(tmp_path / "v.npy"), fa.encode(L1, L1[[1, 2, 9]]), atol=1e-10)


def test_names_are_streamed_with_the_rows(place, tmp_path, monkeypatch):
    whole = Source.blocks
    monkeypatch.setattr(Source, "blocks", lambda self, max_bytes=0: whole(self, 5000))
    np.save(tmp_path / "points.npy", L1[[1, 2]])
    call("encode", place / "a.csv", tmp_path / "points.npy", "-o", tmp_path / "w.csv")
    lines = list(csv.reader((tmp_path / "w.csv").read_text().splitlines()))
    assert lines[0] == ["row", "anchor 1", "anchor 2"]
    assert [line[0] for line in lines[1:]] == [f"r{i}" for i in range(200)]


def test_other_data_need_a_result_with_the_anchor_rows(place, tmp_path):
    call("seek", place / "a.csv", "-k", 3, "--selection", "spa", "--out", tmp_path / "r.json")
    call("seek", place / "a.csv", "-k", 3, "--out", tmp_path / "r.npz")
    call("seek", place / "a.csv", "-k", 3, "--out", tmp_path / "points.json")
    other = tmp_path / "b.store"
    fa.build(A[::-1].copy(), other, row_names=[f"x{i}" for i in range(200)]).close()
    refused = call("encode", other, tmp_path / "r.json", "-o", tmp_path / "w.npy", ok=False)
    assert "these are other data" in str(refused.exception)
    C = _result.load(str(tmp_path / "r.npz")).components
    for result in ("r.npz", "points.json"):
        call("encode", other, tmp_path / result, "-o", tmp_path / "w.npy")
        np.testing.assert_allclose(np.load(tmp_path / "w.npy"), fa.encode(L1[::-1], C), atol=1e-10)
    np.save(tmp_path / "narrow.npy", A[:, :7])
    for result in ("r.json", "r.npz", "points.json"):
        refused = call("encode", tmp_path / "narrow.npy", tmp_path / result, "-o", tmp_path / "v.npy", ok=False)
        assert "15 columns" in str(refused.exception)
    assert not (tmp_path / "v.npy").exists()


def test_a_failing_encode_leaves_nothing(tmp_path):
    B = A.copy()
    B[150, 2] = np.nan
    np.save(tmp_path / "a.npy", B)
    (tmp_path / "w.npy").write_bytes(b"of old")
    refused = call("encode", tmp_path / "a.npy", "1,2", "-o", tmp_path / "w.npy", ok=False)
    assert "[150, 2] is NaN" in str(refused.exception)
    assert (tmp_path / "w.npy").read_bytes() == b"of old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npy", "w.npy"]


def test_a_large_file_becomes_a_temporary_store(place, monkeypatch, tmp_path):
    monkeypatch.setattr(opening, "IN_MEMORY", 1000)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = answer("seek", place / "a.csv", "-k", 4, *SPA)
    assert found["anchors"] == fa.FAS(selection="spa").seek(L1, 4, rng=0).indices.tolist()
    assert found["source"].endswith("a.csv")
    assert found["anchor_names"][0].startswith("r")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["{", "[1, 2]", '{"anchors": []}', '{"anchors": [-1]}', '{"anchors": ["a"]}', "{}"])
def test_broken_results(place, tmp_path, text):
    path = tmp_path / "r.json"
    path.write_text(text)
    for command in (["encode", place / "a.npy", path, "-o", tmp_path / "w.npy"], ["report", path]):
        refused = call(*command, ok=False)
        assert isinstance(refused.exception, fa.FastAnchorsError), refused.exception


def test_report_of_a_store_a_file_and_a_result(place, tmp_path, monkeypatch):
    out = tmp_path / "r.html"
    facts = answer("report", place / "a.store", "-k", 4, "-o", out)
    assert facts["bytes"] == out.stat().st_size
    first = out.read_text()
    assert f"r{facts['anchors'][0]}" in first
    assert "report on 4 anchors" in call("report", place / "a.csv", "-k", 4, "-o", out).output
    call("seek", place / "a.csv", "-k", "auto", "--out", tmp_path / "r.json")
    call("report", tmp_path / "r.json", "-o", out, "--title", "Named <b>")
    assert "Named &lt;b&gt;" in out.read_text()
    call("seek", place / "a.npy", "-k", 3, "--robust", "average", "--out", tmp_path / "r.npz")
    call("report", tmp_path / "r.npz", "-o", out)
    assert "Not proved." in out.read_text()
    monkeypatch.chdir(tmp_path)
    call("report", place / "a.npz")  # the number of anchors and the name of the page by default
    assert (tmp_path / "report.html").exists()


def test_report_reads_the_data_as_the_seek_did(tmp_path):
    np.savez(tmp_path / "two.npz", other=A[:9], mine=A)
    (tmp_path / "names.txt").write_text("\n".join(f"n{i}" for i in range(200)))
    options = ["--variable", "mine", "--row-names", tmp_path / "names.txt", "--normalize", "none"]
    found = answer("seek", tmp_path / "two.npz", "-k", 3, *SPA, *options, "--out", tmp_path / "r.json")
    facts = answer("report", tmp_path / "r.json", "-o", tmp_path / "r.html")
    assert facts["anchors"] == found["anchors"] == fa.FAS(selection="spa").seek(A, 3, rng=0).indices.tolist()
    text = (tmp_path / "r.html").read_text()
    assert found["anchor_names"][0] in text
    assert "rows as they are" in text


def test_report_of_a_result_whose_data_have_moved(place, tmp_path):
    np.save(tmp_path / "a.npy", A)
    call("seek", tmp_path / "a.npy", "-k", 3, "--out", tmp_path / "r.json")
    (tmp_path / "a.npy").rename(tmp_path / "b.npy")
    refused = call("report", tmp_path / "r.json", "-o", tmp_path / "r.html", ok=False)
    assert "pass their path with --data" in str(refused.exception)
    call("report", tmp_path / "r.json", "--data", tmp_path / "b.npy", "-o", tmp_path / "r.html")
    assert (tmp_path / "r.html").exists()


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv", "a.store"])
def test_the_default_is_that_of_the_library(place, name):
    expected = fa.FAS().seek(A, 4, rng=0)
    assert answer("seek", place / name, "-k", 4, "--no-shares")["anchors"] == expected.indices.tolist()
