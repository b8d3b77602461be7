"""Reports on results of applications, and results that write their own report."""

from __future__ import annotations

import base64
import functools
import io
import json
import os
import re
import subprocess
import sys

import matplotlib.image
import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors import report
from fastanchors.apps import topics, unmix
from fastanchors.errors import StoreError
from fastanchors.report.display import display_of, display_options_of_file
from fastanchors.report.pool import numbers_up_to, pool_of, prefixes
from fastanchors.report.scene import composite
from fastanchors.report.script import embedded, inlined


def data_of(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < 3_000_000
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(0)
    laws = rng.dirichlet(np.full(120, 0.05), 3)
    counts = np.array([rng.multinomial(100, rng.dirichlet(np.full(3, 0.2)) @ laws) for _ in range(300)])
    return sp.csr_array(counts), [f"word{j}" for j in range(120)]


def test_anchors_write_their_report(tmp_path):
    A = fa.datasets.separable(60, 8, 3, rng=0).A
    path = fa.SPA().seek(A, 3).report(tmp_path / "r.html", A, title="mine", seed=0)
    assert path == tmp_path / "r.html"
    assert [step["k"] for step in data_of(path)["steps"]] == [1, 2, 3]


def shown_anchors(data, step=-1):
    return [data["anchors"][j]["name"] for j in data["steps"][step]["anchors"]]


def noisy(m=300, n=20, k=4):
    A = fa.datasets.separable(m, n, k, noise=0.1, rng=0).A
    return A / A.sum(axis=1, keepdims=True)


def test_stability_is_reported_for_every_k(tmp_path):
    A = noisy()
    anchors = fa.FAS().seek(A, 4, rng=0)
    assert anchors.points is not None
    path = anchors.report(tmp_path / "r.html", A, seed=0)
    assert "Would other data from the same source give the same anchors?" in path.read_text()
    assert "Proved." not in path.read_text()
    assert "the rule “auto” gives for all rows" in path.read_text()
    data = data_of(path)
    assert [step["k"] for step in data["steps"]] == [1, 2, 3, 4]
    for step in data["steps"][1:]:
        assert len(step["stability"]["verdicts"]) == step["k"]
    assert data["steps"][-1]["stability"]["verdicts"] == list(anchors.certificate.stability.verdicts)
    assert data["anchors"][data["steps"][-1]["anchors"][0]]["point"]
    alone = fa.FAS().seek(A, 3, rng=0)
    np.testing.assert_array_equal(
        [data["anchors"][j]["row"] for j in data["steps"][2]["anchors"]], alone.indices
    )  # those for 3, not the first 3 of 4


@pytest.mark.parametrize("order", ["C", "F"])
def test_materials_are_placed_in_the_image(tmp_path, order):
    scene = fa.datasets.hyperspectral(12, 10, 30, 3, rng=0)
    result = unmix(scene.A, 3, shape=(12, 10), order=order)
    path = result.report(tmp_path / "r.html")
    data = data_of(path)
    last = [data["anchors"][j] for j in data["steps"][-1]["anchors"]]
    expected = [f"pixel ({line}, {column})" for line, column in result.positions()]
    assert [anchor["place"] for anchor in last] == expected
    assert all(f'"share">{place} · explains' in path.read_text() for place in expected)


def test_doubts_about_anchors_are_listed(tmp_path):
    rng = np.random.default_rng(3)
    W = np.column_stack([rng.dirichlet(np.full(4, 0.4), 800), np.zeros(800)])
    W[17] = np.eye(5)[4]  # a fifth anchor that only one row has
    A = W @ rng.gamma(0.3, size=(5, 60))
    A = np.maximum(A + 0.05 * A.mean() * rng.standard_normal(A.shape), 0)
    anchors = fa.FAS(selection="spa").seek(A, 5, rng=0)
    assert 17 in anchors.indices
    path = anchors.report(tmp_path / "r.html", A, seed=0)
    told, place = data_of(path)["steps"][-1]["stability"], anchors.indices.tolist().index(17)
    assert (told["verdicts"][place], told["support"][place]) == ("noise", 1)
    assert (
        f"<li>Anchor {place + 1} would not be found again in other data from the same source.</li>" in path.read_text()
    )
    assert f"<li>Anchor {place + 1} is supported by fewer than 3 rows.</li>" in path.read_text()
    assert "<li>5 anchors are more than the data shows; 4 stand out of the noise.</li>" in path.read_text()
    assert "not found again in other data · supported by 1 row</p>" in path.read_text()


def test_few_of_many_numbers_of_anchors_are_computed():
    assert numbers_up_to(4) == [1, 2, 3, 4]
    assert numbers_up_to(50, 2) == list(range(2, 51))
    assert len(numbers_up_to(100)) == 25
    assert len(numbers_up_to(1000)) == 8
    assert numbers_up_to(1000)[-1] == 1000


def test_prefixes_of_points_have_no_certificate():
    A = np.repeat(np.eye(4), 10, axis=0) + 0.001 * np.random.default_rng(0).random((40, 4))
    parts = prefixes(fa.SPA(robust="average").seek(A, 3))
    assert [part.certificate.kind for part in parts] == ["none"] * 3
    nested = prefixes(fa.SPA().seek(A, 3))
    assert [part.certificate.kind for part in nested] == ["exact"] * 3
    assert [list(part) for part in nested] == [list(nested[2])[:k] for k in (1, 2, 3)]


def test_topics_write_their_report(tmp_path, corpus):
    counts, words = corpus
    found = topics(counts, 3, vocabulary=words)
    names = [f"document {i}" for i in range(300)]
    path = found.report(tmp_path / "t.html", counts, documents=names, texts=[f"text {i}" for i in range(300)])
    data = data_of(path)
    assert shown_anchors(data) == found.anchor_words
    assert [step["k"] for step in data["steps"]][-2:] == [2, 3]
    assert [len(step["stability"]["verdicts"]) for step in data["steps"]] == [step["k"] for step in data["steps"]]
    for_two = topics(counts, 2, vocabulary=words)
    assert shown_anchors(data, -2) == for_two.anchor_words  # those for 2, not the first 2 of 3
    assert data["kind"] == "words"
    assert data["rows"]["text"][7] == "text 7"
    assert "3 topics of 300 documents" in path.read_text()
    assert len({data["anchors"][j]["row"] for j in data["steps"][-1]["anchors"]}) == 3
    with pytest.raises(fa.errors.InvalidInputError, match="the counts are 10 × 120"):
        found.report(tmp_path / "t.html", counts[:10])
    assert repr(found).splitlines()[0] == "3 topics of 300 documents"
    assert len(repr(found).splitlines()) == 4
    shown = found._repr_html_()
    assert shown.count("<tr>") == 4
    assert found.anchor_words[0] in shown


def test_a_scene_writes_its_report(tmp_path):
    bands = np.linspace(0, 1, 30)
    spectra = np.array([np.exp(-((bands - c) ** 2) / 0.02) + 0.1 for c in (0.2, 0.8)])
    cube = (np.random.default_rng(0).dirichlet((0.3, 0.3), 80) @ spectra).reshape(8, 10, 30)
    cube[2, 3] = np.nan  # a pixel without data
    found = unmix(cube, 2)
    data = data_of(found.report(tmp_path / "s.html", title="field"))
    assert data["kind"] == "scene"
    assert data["rows"]["grid"] == [8, 10]
    assert shown_anchors(data) == ["material 1", "material 2"]
    assert len(data["steps"][-1]["stability"]["verdicts"]) == 2
    assert data["rows"]["colours"].startswith("Bands")
    shown = found._repr_html_()
    assert "2 materials" in shown
    assert repr(found).splitlines()[0].startswith("2 materials, relative error")
    assert len(repr(found)) < 200
    assert shown.count("<path") == 2
    picture = base64.b64decode(re.search(r"base64,([^\"]+)", shown)[1])
    image = matplotlib.image.imread(io.BytesIO(picture), format="png")
    np.testing.assert_allclose(image, np.clip(found.maps[:, :, 0], 0, 1), atol=0.5 / 255 + 1e-6)


def test_anchors_in_a_notebook_show_their_points():
    bands = np.linspace(0, 1, 60)
    spectra = np.array([np.exp(-((bands - c) ** 2) / 0.02) + 0.1 for c in (0.2, 0.5, 0.8)])
    rng = np.random.default_rng(0)
    A = rng.dirichlet(np.full(3, 0.2), 400) @ spectra + 0.01 * rng.random((400, 60))
    shown = fa.FAS().seek(A, 3, rng=0)._repr_html_()
    assert shown.count("<path") == 3
    assert "rows like it" in shown
    many = fa.Anchors(np.arange(60), "spa", fa.Cost(), 0.0, fa.Certificate("none", "a <b>test</b>"))._repr_html_()
    assert "and 10 more" in many
    assert "<b>" not in many


def test_large_scenes_keep_a_grid_of_their_pixels(tmp_path):
    spectra = np.random.default_rng(1).random((3, 6))
    A = np.random.default_rng(0).dirichlet(np.ones(3), 300 * 200) @ spectra
    path = report.write(tmp_path / "s.html", A, fa.SPA().seek(A, 3), image=(300, 200), kind="scene", seed=0)
    rows = data_of(path)["rows"]
    height, width = rows["grid"]
    assert 9_000 < height * width == rows["even"] <= 10_000
    lines, columns = np.divmod(np.reshape(rows["index"][: rows["even"]], (height, width)), 200)
    assert set(np.diff(lines[:, 0])) | set(np.diff(columns[0])) == {2, 3}  # spread evenly both ways
    assert (lines == lines[:, :1]).all()
    assert (columns == columns[0]).all()


def test_natural_colours_come_from_the_right_bands():
    from fastanchors.matrix import ArrayMatrix

    pixels = ArrayMatrix(np.random.default_rng(0).random((20, 50)))
    nanometres = [str(w) for w in np.linspace(400, 900, 50)]
    assert composite(pixels, nanometres)["colours"] == "Natural colours"
    micrometres = [str(w) for w in np.linspace(0.4, 0.9, 50)]
    assert composite(pixels, micrometres) == composite(pixels, nanometres)
    for other in (None, ["a"] * 50, [str(w) for w in np.linspace(1500, 2500, 50)]):
        assert composite(pixels, other)["colours"] == "Bands 37, 25, 12"


def test_anchors_that_differ_from_k_to_k_are_pooled():
    A = np.repeat(np.random.default_rng(0).random((8, 10)), 5, axis=0)
    A = A + 0.001 * np.random.default_rng(1).random(A.shape)
    steps = fa.FAS(robust="average").seek(A, range(1, 4), rng=0)
    matrix = fa.open_matrix(A)
    pool = pool_of(matrix, steps)
    for step in steps:
        np.testing.assert_array_equal(pool.points[pool.chosen[len(step)]], step.points)
    nested = pool_of(matrix, fa.FAS(selection="spa").seek(A, range(1, 4), rng=0))
    assert nested.points.shape == (3, 10)
    points = np.random.default_rng(2).random((50, 50, 3))
    how = steps[0].certificate
    many = [fa.Anchors(np.arange(k), "x", fa.Cost(), 0.0, how, points=points[k - 1, :k]) for k in range(1, 51)]
    flat = pool_of(matrix, many)  # three coordinates of each point are all that there is
    assert list(flat.chosen) == list(range(1, 51))
    assert flat.basis.shape == (3, 3)
    wide = np.random.default_rng(3).random((50, 50, 400))
    many = [fa.Anchors(np.arange(k), "x", fa.Cost(), 0.0, how, points=wide[k - 1, :k]) for k in range(1, 51)]
    thinned = pool_of(fa.open_matrix(np.ones((60, 400))), many)
    assert len(thinned.points) * len(thinned.basis) <= 120_000
    assert 50 in thinned.chosen


def test_coordinates_give_all_products():
    A = 1e30 * noisy()  # squares of squares would overflow
    pool = pool_of(fa.open_matrix(A), fa.FAS().seek(A, range(1, 5), rng=0))
    at, points = pool.coordinates(A), pool.coordinates(pool.points)
    np.testing.assert_allclose(at @ points.T * pool.unit, A / pool.unit @ pool.points.T, rtol=1e-5)
    np.testing.assert_allclose(pool.basis @ pool.basis.T, np.eye(len(pool.basis)), atol=1e-12)


@pytest.mark.parametrize("solver", [fa.SPA(), fa.SNPA(), fa.FAS(selection="spa")])
def test_every_solver_has_a_stability_for_every_k(tmp_path, solver):
    rng = np.random.default_rng(0)
    pure = np.repeat(np.eye(6)[:4], 30, axis=0)
    A = np.vstack([pure, rng.dirichlet(np.ones(4), 80) @ np.eye(6)[:4], [[0, 0, 0, 0, 1.0, 0]]])
    A += 1e-3 * rng.random(A.shape)  # without noise every anchor is firm
    data = data_of(report.write(tmp_path / "r.html", A, solver.seek(A, 5), solver=solver, seed=0))
    verdicts = [step["stability"]["verdicts"] for step in data["steps"]]
    assert [len(each) for each in verdicts] == [1, 2, 3, 4, 5]
    found = dict(zip((data["anchors"][j]["row"] for j in data["steps"][-1]["anchors"]), verdicts[-1], strict=True))
    assert found.pop(200) != "firm"  # a single row, which half of the data do not have
    assert set(found.values()) == {"firm"}


def test_a_result_from_a_file_is_explored_as_one_from_memory(tmp_path):
    np.save(tmp_path / "a.npy", noisy())
    run = functools.partial(subprocess.run, check=True, capture_output=True, cwd=tmp_path)
    command = [sys.executable, "-m", "fastanchors"]
    run([*command, "seek", "a.npy", "-k", "4", "--out", "a.json"])
    run([*command, "report", "a.json", "-o", "file.html"])
    run([*command, "report", "a.npy", "-k", "4", "-o", "direct.html"])
    one, other = data_of(tmp_path / "file.html"), data_of(tmp_path / "direct.html")
    for part in ("k", "anchors", "shares", "left", "stability"):
        assert [step[part] for step in one["steps"]] == [step[part] for step in other["steps"]]
    assert one["points"] == other["points"]


def test_anchors_and_the_worst_rows_are_kept(tmp_path):
    rng = np.random.default_rng(0)
    A = rng.dirichlet(np.ones(3), 5000) @ np.eye(6)[:3]
    A[4321, :] = [0, 0, 0, 0.1, 0.1, 0.1]  # an outlier with a small norm
    anchors = fa.SPA().seek(A, 3)
    rows = data_of(report.write(tmp_path / "r.html", A, anchors, seed=0))["rows"]
    assert rows["even"] == 1500
    assert {4321, *anchors} <= set(rows["index"])
    assert len(set(rows["index"])) == len(rows["index"])


def test_documents_without_names_are_called_by_their_words(tmp_path, corpus):
    counts, words = corpus
    anchors = fa.SPA().seek(counts, 3)
    data = data_of(report.write(tmp_path / "r.html", counts, anchors, column_names=words, kind="words", seed=0))
    assert all(len(name.split(", ")) == 3 and set(name.split(", ")) <= set(words) for name in shown_anchors(data))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"image": (3, 4)}, "does not hold 10 pixels"),
        ({"texts": ["a"]}, "1 texts for 10 rows"),
        ({"row_names": ["a"]}, "1 names for 10 rows"),
        ({"column_names": ["a"]}, "1 names for 10 columns"),
        ({"kind": "scene"}, "needs image"),
        ({"embedding": np.zeros((10, 3))}, r"shape \(10, 2\)"),
        ({"embedding": np.full((10, 2), np.nan)}, "is nan; the embedding must be finite"),
        ({"kind": "maps"}, "kind must be"),
    ],
)
def test_inconsistent_display_options_are_refused(options, message):
    A = np.eye(10)
    with pytest.raises(fa.errors.InvalidInputError, match=message):
        display_of(A, fa.open_matrix(A), **options)


def test_data_in_a_page_cannot_end_their_element():
    text = embedded({"name": "</script><!-- & \u2028 \ud800"})
    assert not set("<>&\u2028\ud800") & set(text)
    assert json.loads(text)["name"] == "</script><!-- & \u2028 \ud800"


def test_modules_come_after_those_they_import():
    assert "import" not in re.sub("(//|/\\*).*", "", inlined())
    with pytest.raises(ValueError, match=r"model.js imports nnls"):
        inlined(("model", "nnls"))


def test_display_options_from_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    from fastanchors.io.scene import SceneInfo

    scene = SceneInfo((2, 3), "F")
    assert display_options_of_file(tmp_path / "x.hdr", scene, 6) == {"kind": "scene", "image": (2, 3), "order": "F"}
    assert display_options_of_file(tmp_path / "x.hdr", scene, 7) == {}
    assert display_options_of_file(tmp_path / "x.npy", None, 6) == {}
    places = np.arange(30.0).reshape(6, 5)
    with h5py.File(tmp_path / "x.h5ad", "w") as file:
        file["obsm/X_pca"] = -places
        file["obsm/X_umap"] = places
    shown = display_options_of_file(tmp_path / "x.h5ad", None, 6)
    assert shown["kind"] == "cells"
    np.testing.assert_array_equal(shown["embedding"], places[:, :2])
    assert display_options_of_file(tmp_path / "x.h5ad", None, 5) == {"kind": "cells", "embedding": None}


def test_unmix_writes_the_page_on_the_command_line(tmp_path):
    click_testing = pytest.importorskip("click.testing")
    from fastanchors.cli.unmix import unmix as command

    scene = fa.datasets.hyperspectral(12, 15, bands=30, k=3, rng=0)
    np.save(tmp_path / "scene.npy", scene.cube)
    arguments = [str(tmp_path / "scene.npy"), "-k", "3", "-o", str(tmp_path / "out"), "--no-pictures", "--report"]
    done = click_testing.CliRunner().invoke(command, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["pictures"] == [str(tmp_path / "out" / "report.html")]
    assert data_of(tmp_path / "out" / "report.html")["rows"]["grid"] == [12, 15]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="POSIX")
def test_a_report_takes_the_place_of_no_pipe_and_no_folder(tmp_path):
    """The page was moved over whatever was there, also over devices."""
    A = fa.datasets.separable(60, 8, 3, rng=0).A
    found = fa.SPA().seek(A, 3)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name, kind in (("pipe", "it is a device"), ("link", "it is a device"), ("folder", "Is a directory")):
        with pytest.raises(StoreError, match=f"cannot write .*{name}: {kind}"):
            fa.report.write(tmp_path / name, A, found)
    assert (tmp_path / "pipe").is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["folder", "link", "pipe"]


def test_names_and_texts_of_a_sorted_frame_count_by_position(tmp_path):
    """Columns of data frames were looked up by their labels: rows had the names of others."""
    pd = pytest.importorskip("pandas", reason="extra dev")
    A = fa.datasets.separable(40, 6, 3, rng=0).A
    found, order = fa.SPA().seek(A, 3), np.random.default_rng(1).permutation(40)
    names, texts, columns = ([f"{kind}{i:02d}" for i in range(40)] for kind in ("name", "text", "column"))

    def shown(make):
        path = found.report(
            tmp_path / "r.html",
            A,
            row_names=make(names, order),
            texts=make(texts, order),
            column_names=make(columns[:6], np.arange(6)[::-1]),
            seed=0,
        )
        return re.findall(r"(?:name|text|column)\d\d", path.read_text())

    plain = shown(lambda values, _: values)
    assert len(plain) > 20
    assert shown(lambda values, index: pd.Series(values, index=index)) == plain
    assert shown(lambda values, index: pd.Series(values, index=index + 7)) == plain
