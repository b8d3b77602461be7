"""The commands ``topics``, ``unmix`` and ``representatives``: what they print, write and refuse."""

from __future__ import annotations

import errno
import json

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("click")  # the extra 'cli'
from click.testing import CliRunner

import fastanchors as fa
from fastanchors.cli.app import app


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def scene():
    return fa.datasets.hyperspectral(20, 16, 30, 3, rng=4)


@pytest.fixture(scope="module")
def ldac(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    corpus = fa.datasets.topics(400, 300, 4, rng=0)
    with open(folder / "docs.ldac", "w") as file:
        for row in range(400):
            part = corpus.A[[row]]
            pairs = " ".join(f"{word}:{count}" for word, count in zip(part.indices, part.data))
            file.write(f"{part.nnz} {pairs}\n")
    (folder / "words.txt").write_text("\n".join(corpus.vocabulary) + "\n")
    return folder


def test_unmix_json(tmp_path, scene):
    pytest.importorskip("matplotlib")  # the extra 'report'
    np.save(tmp_path / "scene.npy", scene.cube)
    result = run("unmix", tmp_path / "scene.npy", "-k", 3, "-o", tmp_path / "out", "--json")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    expected = fa.apps.unmix(scene.cube, 3)
    assert answer["anchors"] == expected.anchors.tolist()
    np.testing.assert_allclose(answer["endmembers"], expected.endmembers)
    np.testing.assert_array_equal(np.load(answer["abundance_file"]), expected.maps)
    assert [tuple(place) for place in answer["positions"]] == expected.positions()
    for picture in answer["pictures"]:
        with open(picture, "rb") as file:
            assert file.read(8) == b"\x89PNG\r\n\x1a\n"
    table = np.loadtxt(answer["endmember_file"], delimiter=",", skiprows=1)
    np.testing.assert_allclose(table[:, 1:].T, expected.endmembers, rtol=1e-8)


def test_unmix_text_output(tmp_path, scene):
    np.save(tmp_path / "flat.npy", scene.A)
    result = run("unmix", tmp_path / "flat.npy", "-k", 3, "-o", tmp_path / "out", "--no-pictures")
    assert result.exit_code == 0, result.output
    assert "320 pixels, 30 bands, 3 materials" in result.stdout
    assert np.load(tmp_path / "out" / "abundances.npy").shape == (320, 3)
    shaped = run("unmix", tmp_path / "flat.npy", "-k", 3, "-o", tmp_path / "out", "--no-pictures", "--shape", "20x16")
    assert "20×16 pixels" in shaped.stdout
    assert np.load(tmp_path / "out" / "abundances.npy").shape == (20, 16, 3)


def test_unmix_invalid_usage(tmp_path, scene):
    for shape in ("20", "²x16", f"{'9' * 5000}x16"):
        assert run("unmix", tmp_path / "scene.npy", "-k", 3, "--shape", shape).exit_code == 2
    assert run("unmix", tmp_path / "scene.npy").exit_code == 2
    with pytest.raises(fa.errors.StoreError, match="does not exist"):
        CliRunner().invoke(app, ["unmix", str(tmp_path / "none.npy"), "-k", "3"], catch_exceptions=False)


def test_topics_json(tmp_path, ldac):
    out = tmp_path / "model.npz"
    result = run("topics", ldac / "docs.ldac", "--vocab", ldac / "words.txt", "-k", 4, "--json", "-o", out)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert len(answer["topics"]) == 4
    vocabulary = set((ldac / "words.txt").read_text().split())
    for topic in answer["topics"]:
        assert topic["anchor"] in vocabulary
        assert len(set(topic["words"])) == 10
        assert set(topic["words"]) <= vocabulary
    assert sum(topic["share"] for topic in answer["topics"]) == pytest.approx(1)
    with np.load(out) as stored:
        assert stored["mixtures"].shape == (400, 4)
        assert stored["topics"].shape == (4, len(stored["vocabulary"]))


def test_topics_text_output(ldac):
    result = run("topics", ldac / "docs.ldac", "--vocab", ldac / "words.txt", "-k", 4, "--words", 3)
    assert result.exit_code == 0, result.output
    assert "400 documents" in result.stdout
    assert "uniqueness" in result.stdout


def test_topics_compared_with_scikit_learn(ldac):
    corpus = ("topics", ldac / "docs.ldac", "--vocab", ldac / "words.txt", "-k", 4, "--compare")
    result = run(*corpus)
    assert result.exit_code == 0, result.output
    for method in ("anchor words", "scikit-learn NMF, tf-idf", "scikit-learn LDA"):
        assert any(line.startswith(method) for line in result.stdout.splitlines())
    table = json.loads(run(*corpus, "--json", "--relevance", 1).stdout)["comparison"]
    assert {row["method"] for row in table} >= {"anchor words", "scikit-learn NMF, tf-idf", "scikit-learn LDA"}
    assert set(table[0]) == {"method", "coherence", "npmi", "uniqueness", "seconds"}


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    """A table of texts about two subjects, and a topic model of it."""
    folder = tmp_path_factory.mktemp("stories")
    rng = np.random.default_rng(0)
    words = [[f"{what}{letter}" for letter in "abcdefghijkl"] for what in ("sea", "rail")]
    texts = [" ".join(rng.choice(words[n % 2], 30)) + " and the <b>rest</b>" for n in range(40)]
    lines = [f"story {n},{text}" for n, text in enumerate(texts)]
    (folder / "stories.csv").write_text("id,body\n" + "\n".join(lines))
    made = ("topics", folder / "stories.csv", "--column", "body", "--title", "id", "--html", "-k", 2)
    result = run(*made, "-o", folder / "model.npz", "--report", folder / "page.html")
    assert result.exit_code == 0, result.output
    assert "A page to explore them" in result.stdout
    return folder


def test_encode_takes_the_column_of_a_table_with_a_topic_model(stories):
    out = stories / "weights.csv"
    encode = ("encode", stories / "stories.csv", stories / "model.npz", "-o", out)
    assert run(*encode, "--column", "body", "--title", "id").exit_code == 0
    rows = out.read_text().splitlines()
    assert rows[1].startswith("story 0,")
    weights = np.array([[float(cell) for cell in row.split(",")[1:]] for row in rows[1:]])
    assert np.array_equal(weights.argmax(axis=1)[::2], np.full(20, weights[0].argmax()))
    assert np.array_equal(weights.argmax(axis=1)[1::2], np.full(20, weights[1].argmax()))
    assert "choose the column of the texts (--column); it has 'id', 'body'" in str(run(*encode).exception)
    wrong = run("encode", stories / "stories.csv", "1,2", "-o", out, "--column", "body")
    assert "--column needs a topic model" in wrong.stderr


def test_the_page_of_topics_can_be_made_again_from_the_saved_model(stories):
    page = (stories / "page.html").read_text()
    assert "story 0" in page
    assert "<b>rest" not in page
    again = run("report", stories / "model.npz", "-o", stories / "again.html")
    assert "report on 2 topics" in again.stdout
    assert (stories / "again.html").read_text() == page
    (stories / "stories.csv").rename(stories / "moved.csv")
    assert "no longer at" in str(run("report", stories / "model.npz", "-o", stories / "again.html").exception)
    moved = run("report", stories / "model.npz", "-o", stories / "again.html", "--data", stories / "moved.csv")
    (stories / "moved.csv").rename(stories / "stories.csv")
    assert moved.exit_code == 0, moved.output
    assert "-k is for data" in run("report", stories / "model.npz", "-k", 3).stderr


def test_seek_suggests_topics_if_documents_are_unexplained(tmp_path):
    documents = fa.datasets.topics(300, 4000, 10, length=12, rng=0).A
    sp.save_npz(tmp_path / "counts.npz", sp.csr_matrix(documents))
    record = json.loads(run("seek", tmp_path / "counts.npz", "-k", 2, "--json").stdout)
    assert record["unexplained"] > 0.9
    assert record["advice"].endswith("fastanchors topics counts.npz")
    assert "almost nothing is explained" in run("seek", tmp_path / "counts.npz", "-k", 2).stdout
    np.save(tmp_path / "noise.npy", np.eye(40) + 1e-3)
    assert "not mixtures of a few" in run("seek", tmp_path / "noise.npy", "-k", 2).stdout
    alone = run("seek", tmp_path / "counts.npz", "-k", 3, "--robust", "average", "--radius", 0.01)
    assert "300 rows were set aside: too few near neighbours" in str(alone.exception)
    assert run("seek", tmp_path / "counts.npz", "-k", 3, "--robust", "average").exit_code == 0


def test_unmix_reports_outliers_and_a_suspicious_band_axis(tmp_path, scene):
    spoiled = scene.cube.copy()
    spoiled[4, 5, 6] = 50.0
    np.save(tmp_path / "x.npy", spoiled)
    result = run("unmix", tmp_path / "x.npy", "-k", 3, "-o", tmp_path / "out", "--no-pictures")
    assert "1 pixel excluded as outliers" in result.stdout
    np.save(tmp_path / "turned.npy", np.moveaxis(scene.cube, -1, 0))
    turned = run("unmix", tmp_path / "turned.npy", "-k", 3, "-o", tmp_path / "out", "--no-pictures")
    assert "the first axis looks like the bands" in turned.stderr
    assert "--bands" in turned.stderr


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    corners = np.array([[0.0, 10, 5], [3, -20, 5], [9, 0, 70]])
    rows = np.vstack([corners, rng.dirichlet([1, 1, 1], 60) @ corners])
    lines = ["name,a,b,c"] + [",".join([f"thing {i}", *map(repr, row)]) for i, row in enumerate(rows.tolist())]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "table.csv"


def test_representatives_json(table):
    out = table.with_name("weights.csv")
    result = run("representatives", table, "-k", 3, "--json", "-o", out)
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert sorted(answer["anchors"]) == [0, 1, 2]
    assert sorted(answer["anchor_names"]) == ["thing 0", "thing 1", "thing 2"]
    assert sum(answer["share"]) == pytest.approx(1)
    assert answer["relative_error"] < 1e-6
    lines = out.read_text().splitlines()
    assert lines[0].split(",") == ["row", *answer["anchor_names"]]
    assert [line.split(",")[0] for line in lines[1:]] == [f"thing {i}" for i in range(63)]


def test_representatives_text_output(table, tmp_path):
    result = run("representatives", table, "-k", 3)
    assert result.exit_code == 0, result.output
    assert "3 rows for table.csv: 63 rows × 3 columns" in result.stdout
    assert "thing 1" in result.stdout
    np.save(tmp_path / "plain.npy", np.random.default_rng(1).random((30, 4)))
    plain = run("representatives", tmp_path / "plain.npy", "-k", 2, "--robust", "neighbours")
    assert plain.exit_code == 0, plain.output
    assert "of the spread of the rows" in plain.stdout


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("representatives", "the number of representatives cannot be chosen automatically"),
        ("unmix", "the number of materials is yours to choose"),
    ],
)
def test_auto_gives_an_error_with_advice(tmp_path, command, message):
    np.savetxt(tmp_path / "x.csv", np.random.default_rng(0).random((60, 4)), delimiter=",")
    result = run(command, tmp_path / "x.csv", "-k", "auto")
    assert result.exit_code == 2, result.output
    assert message in result.stderr


@pytest.mark.parametrize("command", ["topics", "unmix", "representatives"])
def test_help_has_an_example(command):
    assert f"fastanchors {command}" in run(command, "--help").stdout


def test_topics_of_texts_tables_and_new_documents(tmp_path, ldac):
    model = tmp_path / "m.npz"
    result = run(
        *("topics", ldac / "docs.ldac", "--vocab", ldac / "words.txt", "-k", 4, "-o", model, "--examples", 2),
        *("--topics-table", tmp_path / "t.csv", "--documents-table", tmp_path / "d.csv", "--json"),
    )
    assert result.exit_code == 0, result.stderr
    answer = json.loads(result.stdout)
    assert all(len(topic["documents"]) == 2 for topic in answer["topics"])
    assert len((tmp_path / "d.csv").read_text().splitlines()) == 401
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 5
    words = [" ".join(topic["words"]) for topic in answer["topics"]]
    (tmp_path / "new.txt").write_text("\n".join([*words, "strange things"]))
    encoded = run("encode", tmp_path / "new.txt", model, "-o", tmp_path / "w.npy", "--json")
    assert encoded.exit_code == 0, encoded.stderr
    assert json.loads(encoded.stdout)["without_words"] == 1
    weights = np.load(tmp_path / "w.npy")
    assert weights[:4].argmax(axis=1).tolist() == [0, 1, 2, 3]
    (tmp_path / "bad.txt").write_bytes(words[0].encode() + b" \xff\n")
    replaced = run("encode", tmp_path / "bad.txt", model, "-o", tmp_path / "w3.npy", "--replace-errors")
    assert "1 byte was not text and replaced" in replaced.stdout
    again = run("encode", ldac / "docs.ldac", model, "-o", tmp_path / "w2.npy", "--column-names", ldac / "words.txt")
    assert again.exit_code == 0, again.stderr
    with np.load(model) as stored:
        assert np.load(tmp_path / "w2.npy").shape == stored["mixtures"].shape


def test_words_without_names_keep_the_numbers_of_their_columns(tmp_path):
    made = fa.datasets.topics(60, 400, 3, rng=1)
    counts = tmp_path / "counts.npz"
    sp.save_npz(counts, sp.csr_matrix(made.A))
    (tmp_path / "list.txt").write_text("\n".join(made.vocabulary))
    named, plain = tmp_path / "named.npz", tmp_path / "plain.npz"
    words = json.loads(run("topics", counts, "-k", 3, "--vocab", tmp_path / "list.txt", "--json", "-o", named).stdout)
    numbers = json.loads(run("topics", counts, "-k", 3, "--json", "-o", plain).stdout)
    for topic, other in zip(words["topics"], numbers["topics"], strict=True):
        assert topic["words"] == [made.vocabulary[int(number)] for number in other["words"]]
        assert topic["anchor"] == made.vocabulary[int(other["anchor"])]
    encoded = run("encode", counts, plain, "-o", tmp_path / "w.npy")
    assert encoded.exit_code == 0, encoded.stderr
    np.testing.assert_allclose(np.load(tmp_path / "w.npy"), fa.apps.load_topics(plain).mixtures, atol=1e-6)
    refused = run("encode", counts, named, "-o", tmp_path / "w.npy")
    assert "--column-names" in str(refused.exception or refused.stderr)
    texts = run("encode", tmp_path / "list.txt", plain, "-o", tmp_path / "w.npy")
    assert "has no vocabulary" in str(texts.exception or texts.stderr)
    apart = run("topics", counts, "-k", 3, "--since", named)
    assert "no word in common" in str(apart.exception or apart.stderr)


def test_topics_auto_and_since_an_earlier_model(tmp_path, ldac):
    corpus = ("topics", ldac / "docs.ldac", "--vocab", ldac / "words.txt")
    auto = json.loads(run(*corpus, "-k", "auto", "--json", "-o", tmp_path / "m.npz").stdout)
    assert auto["curve"]["chosen"] == len(auto["topics"])
    k = len(auto["topics"])
    since = json.loads(run(*corpus, "-k", k, "--since", tmp_path / "m.npz", "--json").stdout)
    assert len(since["changes"]["same"]) == k
    told = run(*corpus, "-k", k, "--since", tmp_path / "m.npz")
    assert "new: none" in told.stdout


def test_topics_of_a_store_that_has_grown_name_the_new_one_and_the_one_that_is_gone(tmp_path):
    made = fa.datasets.topics(4000, 500, 5, length=60, anchor_words=5, rng=3)
    last = np.asarray(made.weights)[:, 4]
    words = tmp_path / "words.txt"
    words.write_text("\n".join(made.vocabulary) + "\n")
    sp.save_npz(tmp_path / "old.npz", sp.csr_array(made.A)[np.flatnonzero(last <= 0.05)])
    sp.save_npz(tmp_path / "late.npz", sp.csr_array(made.A)[np.flatnonzero(last > 0.5)])
    assert run("build", tmp_path / "old.npz", tmp_path / "s", "--column-names", words).exit_code == 0
    before = json.loads(run("topics", tmp_path / "s", "-k", 4, "-o", tmp_path / "m.npz", "--json").stdout)
    assert before["changes"] is None
    assert run("append", tmp_path / "s", tmp_path / "late.npz").exit_code == 0
    after = json.loads(run("topics", tmp_path / "s", "-k", 5, "--since", tmp_path / "m.npz", "--json").stdout)
    assert (after["changes"]["new"], after["changes"]["gone"]) == ([4], [])
    assert any(word.startswith("anchor4_") for word in after["topics"][4]["words"])
    same = run("topics", tmp_path / "s", "--since", tmp_path / "m.npz")  # four topics again: one has to go
    told = dict(line.split(": ", 1) for line in same.stdout.splitlines() if line.startswith(("new", "gone")))
    assert len(told["new"].split(", ")) == 1
    assert told["gone"] in [topic["anchor"] for topic in before["topics"]]


def test_topics_of_a_store(tmp_path, ldac):
    assert run("build", ldac / "docs.ldac", tmp_path / "s", "--column-names", ldac / "words.txt").exit_code == 0
    answer = json.loads(run("topics", tmp_path / "s", "-k", 4, "--json").stdout)
    assert len(answer["topics"]) == 4
    assert answer["documents"] == 400


def test_unmix_leaves_out_masked_pixels_and_dropped_bands(tmp_path, scene):
    cube = np.pad(scene.cube, ((2, 2), (2, 2), (0, 0)), constant_values=-9999.0)
    cube[5, 5, 3] = np.nan
    cube[:, :, [7, 8, 20]] = -1.0
    mask = np.ones(cube.shape[:2])
    mask[4] = 0
    np.save(tmp_path / "x.npy", cube)
    np.save(tmp_path / "mask.npy", mask)
    command = ("unmix", tmp_path / "x.npy", "-k", 3, "-o", tmp_path / "out", "--no-pictures", "--json")
    with pytest.raises(fa.errors.InvalidInputError, match="--nodata -9999"):
        CliRunner().invoke(app, [*map(str, command)], catch_exceptions=False)
    assert not (tmp_path / "out").exists()
    result = run(*command, "--nodata", -9999, "--drop-bands", "7-8,20", "--mask", tmp_path / "mask.npy")
    assert result.exit_code == 0, result.output
    answer = json.loads(result.stdout)
    assert answer["dropped_bands"] == [7, 8, 20]
    assert answer["incomplete_pixels"] == 1
    height, width = scene.cube.shape[:2]
    assert answer["empty_pixels"] == cube[..., 0].size - height * width + width
    assert {"abundances.img", "abundances.hdr", "endmembers.sli"} <= {
        path.name for path in (tmp_path / "out").iterdir()
    }
    assert run(*command, "--drop-bands", "8-7").exit_code == 2
    assert run(*command, "--drop-bands", "x").exit_code == 2


def test_unmix_auto_shows_the_evidence_for_each_k(tmp_path):
    made = fa.datasets.hyperspectral(40, 40, 60, 4, snr=30.0, rng=0)
    np.save(tmp_path / "x.npy", made.cube)
    told = run("unmix", tmp_path / "x.npy", "-k", "auto", "-o", tmp_path / "out", "--no-pictures")
    assert told.exit_code == 0, told.output
    assert "suggests 4 materials" in told.stdout
    assert "found again" in told.stdout
    answer = json.loads(run("unmix", tmp_path / "x.npy", "-k", "auto", "-o", tmp_path / "out", "--json").stdout)
    assert answer["curve"]["chosen"] == len(answer["anchors"]) == 4
    bend = np.cumsum(np.random.default_rng(0).standard_normal((40, 40, 60)), axis=2) / 20
    np.save(tmp_path / "y.npy", made.cube * np.exp(bend))
    refused = run("unmix", tmp_path / "y.npy", "-k", "auto", "-o", tmp_path / "none")
    assert refused.exit_code == 2
    assert "yours to choose" in refused.output
    assert not (tmp_path / "none").exists()


def test_counts_without_names_of_words_are_refused_with_the_cure(tmp_path, ldac):
    model, out = tmp_path / "m.npz", tmp_path / "w.npy"
    made = run("topics", ldac / "docs.ldac", "--vocab", ldac / "words.txt", "-k", 4, "--min-df", 60, "-o", model)
    assert made.exit_code == 0, made.output
    refused = run("encode", ldac / "docs.ldac", model, "-o", out)
    assert refused.exit_code == 1
    assert "left out rare words, pass the words of the file with --column-names words.txt" in str(refused.exception)
    encoded = run("encode", ldac / "docs.ldac", model, "--column-names", ldac / "words.txt", "-o", out)
    assert encoded.exit_code == 0, encoded.output
    assert np.load(out).shape == (400, 4)


@pytest.mark.parametrize("fails", ["save_maps", "save_spectra"])
def test_a_run_of_unmix_that_fails_leaves_an_earlier_result_whole(tmp_path, monkeypatch, fails):
    """Files were replaced one by one, so that a full disk left those of two runs."""
    np.save(tmp_path / "s.npy", fa.datasets.hyperspectral(12, 10, 30, 3, rng=0).cube)
    out = tmp_path / "out"
    arguments = ["unmix", str(tmp_path / "s.npy"), "-o", str(out), "--no-pictures", "-k"]
    assert CliRunner().invoke(app, [*arguments, "3"]).exit_code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir()}

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(fa.apps, fails, full)
    result = CliRunner().invoke(app, [*arguments, "2"])
    assert result.exit_code == 1
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    assert CliRunner().invoke(app, [*arguments[:2], "-o", str(tmp_path / "new"), "--no-pictures", "-k", "2"]).exit_code
    assert not (tmp_path / "new").exists()
