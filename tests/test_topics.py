"""Topics: implicit co-occurrence against the naive one, recovery of known topics, memory, corpora of every kind."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.apps._cooccurrence import Cooccurrence
from fastanchors.apps._mixtures import fit_proportions, mixtures, scaled_laws
from fastanchors.apps._topic_refine import _halves, completion, document_scores
from fastanchors.apps._topics import _recover_divergence
from fastanchors.apps._word_space import _transposed, word_space
from fastanchors.greedy.selection import groups_by_rule
from naive.apps import cautious_npmi, cooccurrence, divergence, posterior, scaled_space


@pytest.fixture(scope="module")
def counts():
    return np.random.default_rng(0).poisson(0.6, (25, 12))


@pytest.fixture(scope="module")
def corpus():
    return fa.datasets.topics(1200, 600, 5, length=80, anchor_words=6, rng=3)


def test_rows_products_norms_and_entries_equal_the_naive_matrix(counts):
    counts = np.vstack([counts, np.zeros((1, 12), int), np.eye(1, 12, dtype=int)])  # no pairs of tokens in these
    Q = cooccurrence(counts)
    implicit = Cooccurrence(sp.csr_array(counts))
    rng = np.random.default_rng(1)
    V, U = rng.standard_normal((12, 3)), rng.standard_normal((12, 2))
    np.testing.assert_allclose(implicit.rows(np.arange(12)).toarray(), Q, atol=1e-14)
    np.testing.assert_allclose(np.vstack([b.toarray() for _, b in implicit.blocks(5)]), Q, atol=1e-14)
    np.testing.assert_allclose(implicit.dot(V), Q @ V, atol=1e-14)
    np.testing.assert_allclose(implicit.dot(V[:, 0]), Q @ V[:, 0], atol=1e-14)
    np.testing.assert_allclose(implicit.transposed_dot(U), Q.T @ U, atol=1e-14)
    np.testing.assert_allclose(implicit.row_norm(np.arange(12)), np.linalg.norm(Q, axis=1))
    np.testing.assert_allclose(implicit.column_norm(np.arange(12)), np.linalg.norm(Q, axis=0))
    np.testing.assert_allclose(implicit[np.arange(12)[:, None], np.arange(12)], Q, atol=1e-14)
    assert implicit[3, 4] == pytest.approx(Q[3, 4])
    assert implicit.frobenius_norm == pytest.approx(np.linalg.norm(Q))
    assert implicit.nnz == np.count_nonzero(Q > 1e-15)


def test_rows_of_some_words_only(counts):
    words = [7, 2, 9]
    some, Q = Cooccurrence(counts, words), cooccurrence(counts)[words]
    U = np.random.default_rng(0).random((3, 2))
    assert some.shape == (3, 12)
    np.testing.assert_allclose(some.rows([2, 0]).toarray(), Q[[2, 0]], atol=1e-14)
    np.testing.assert_allclose(some.transposed_dot(U), Q.T @ U, atol=1e-14)


def test_it_is_sample_access_and_solvers_take_it(counts):
    implicit, Q = Cooccurrence(counts), cooccurrence(counts)
    assert isinstance(implicit, fa.SampleAccess)
    expected = fa.SPA().seek(Q, 4).indices.tolist()
    assert fa.SPA().seek(implicit, 4).indices.tolist() == expected
    drawn = np.bincount(implicit.sample_rows(20_000, rng=0), minlength=12) / 20_000
    # A share of 20,000 draws has a standard deviation below 0.0036: 5 of them, false alarm below 1e-5.
    np.testing.assert_allclose(drawn, (Q**2).sum(axis=1) / (Q**2).sum(), atol=0.018)
    inside = np.bincount(implicit.sample_in_row(3, 20_000, rng=0), minlength=12) / 20_000
    np.testing.assert_allclose(inside, Q[3] ** 2 / (Q[3] ** 2).sum(), atol=0.018)
    down = np.bincount(implicit.sample_in_column(3, 20_000, rng=0), minlength=12) / 20_000
    np.testing.assert_allclose(down, Q[:, 3] ** 2 / (Q[:, 3] ** 2).sum(), atol=0.018)
    assert implicit.sample_in_row([0, 1], 4, rng=0).shape == (2, 4)


def test_recovery_by_divergence_is_a_minimum(counts):
    implicit, Q = Cooccurrence(counts), cooccurrence(counts)
    groups = np.array([[0], [4], [8]])
    H = sp.csr_array(counts)
    weights = _recover_divergence(H, word_space(H, 3), groups)
    S = Q[groups[:, 0]]
    rows = implicit.rows(np.arange(12))
    fit_proportions(rows.indptr, rows.indices, rows.data, scaled_laws(S), np.zeros(3), weights, 100_000, 1e-7)
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    rng = np.random.default_rng(0)
    for word in range(12):
        found = divergence(Q[word], weights[word] @ S)
        for other in rng.dirichlet(np.ones(3), 50):
            assert found <= divergence(Q[word], (0.99 * weights[word] + 0.01 * other) @ S) + 1e-7
    np.testing.assert_allclose(weights[[0, 4, 8]], np.eye(3), atol=5e-3)


# --- coordinates and their noise --------------------------------------------------------------------------------------


def test_word_space_is_the_scaled_cooccurrence_in_its_leading_eigenvectors(counts):
    space = word_space(sp.csr_array(counts), 4)
    values, points = scaled_space(counts, 4, 4.0)
    np.testing.assert_allclose(space.eigenvalues, values, rtol=1e-3)
    np.testing.assert_allclose(space.points @ space.points.T, points @ points.T, rtol=1e-2, atol=1e-6)
    np.testing.assert_allclose(space.probability, counts[counts.sum(axis=1) >= 2].sum(axis=0) / counts.sum())
    assert space.words.tolist() == list(range(12))


def test_noise_of_a_word_is_how_far_its_point_moves_in_another_corpus():
    def space(seed):
        made = fa.datasets.topics(3000, 150, 3, length=30, rng=7)  # the same topics and mixtures
        rng = np.random.default_rng(seed)
        laws = made.weights @ made.topics
        return np.array([rng.multinomial(30, law / law.sum()) for law in laws])

    first = word_space(sp.csr_array(space(1)), 3)
    gaps = []
    for seed in range(2, 6):
        other = word_space(sp.csr_array(space(seed)), 3)
        turn = np.linalg.lstsq(other.points, first.points, rcond=None)[0]
        gaps.append(np.sum((other.points @ turn - first.points) ** 2, axis=1))
    moved = np.mean(gaps, axis=0) / 2  # two independent errors
    rare = first.documents < 200
    assert 0.4 < np.median(moved[rare] / first.noise[rare]) < 2.5
    assert np.corrcoef(np.log(moved), np.log(first.noise))[0, 1] > 0.8


def test_documents_sampled_for_the_directions_give_nearly_the_same_points(corpus, monkeypatch):
    H = sp.csr_array(corpus.A)
    whole = word_space(H, 5)
    monkeypatch.setattr("fastanchors.apps._word_space._SAMPLE_ENTRIES", H.nnz // 3)
    part = word_space(H, 5)
    angles = np.linalg.svd(np.linalg.qr(whole.points)[0].T @ np.linalg.qr(part.points)[0])[1]
    assert angles.min() > 0.97
    np.testing.assert_allclose(part.eigenvalues, whole.eigenvalues, rtol=0.1)


def test_more_topics_than_documents_are_refused_at_once(corpus):
    with pytest.raises(fa.errors.RankError, match="has rank at most 596, below k = 5000; use k ≤ 596"):
        fa.apps.topics(corpus.A, 5000)


# --- mixtures of documents --------------------------------------------------------------------------------------------


def test_mixtures_maximise_the_posterior(corpus):
    share = np.array([0.1, 0.2, 0.3, 0.15, 0.25])
    H = sp.csr_array(corpus.A)[:12]
    found = mixtures(H, corpus.topics, share, gap=1e-9)
    for d in range(12):
        best = posterior(H[[d]].toarray()[0], corpus.topics, share, found[d])
        rng = np.random.default_rng(d)
        for other in rng.dirichlet(np.ones(5), 40):
            for step in (1e-3, 0.1):
                moved = (1 - step) * found[d] + step * other
                assert posterior(H[[d]].toarray()[0], corpus.topics, share, moved) <= best + 1e-6
    near = mixtures(H, corpus.topics, share)
    for d in range(12):
        counts_d = H[[d]].toarray()[0]
        gap = posterior(counts_d, corpus.topics, share, found[d]) - posterior(counts_d, corpus.topics, share, near[d])
        assert 0 <= gap + 1e-9 <= 1e-2 * (counts_d.sum() + 1)


def test_mixtures_ignore_unknown_words_and_the_number_of_threads(corpus, monkeypatch):
    H, share = sp.csr_array(corpus.A), np.full(5, 0.2)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    one = mixtures(H, corpus.topics, share)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    np.testing.assert_array_equal(mixtures(H, corpus.topics, share), one)
    silent = corpus.topics.copy()
    silent[:, 7] = 0
    without = H.toarray()
    without[:, 7] = 0
    np.testing.assert_allclose(
        mixtures(H, silent, share), mixtures(sp.csr_array(without), corpus.topics, share), atol=1e-12
    )


def test_scores_of_documents_are_sums_over_the_tokens_that_are_hidden(corpus):
    H = sp.csr_array(corpus.A)[:5]
    share = np.full(5, 0.2)
    seen, hidden = _halves(H, np.random.default_rng(3))
    assert (seen + hidden - H).nnz == 0
    weights = mixtures(seen, corpus.topics, share)
    scores, tokens = document_scores(H, corpus.topics, share, rng=3)
    for d in range(5):
        counts = hidden[[d]].toarray()[0]
        at = counts > 0
        assert scores[d] == pytest.approx(counts[at] @ np.log(weights[d] @ corpus.topics[:, at]))
        assert tokens[d] == counts.sum()
    mean, error = completion(H, corpus.topics, share, rng=3)
    assert mean == pytest.approx(scores.sum() / tokens.sum())
    assert error == pytest.approx(np.linalg.norm(scores - mean * tokens) / tokens.sum())


@pytest.mark.parametrize("recovery", ["l2", "kl"])
def test_known_topics_are_found(corpus, recovery):
    model = fa.apps.topics(corpus.A, 5, vocabulary=corpus.vocabulary, recovery=recovery)
    match = fa.metrics.matched_spectral_angle(corpus.topics, model.topics)
    gap = np.abs(corpus.topics[match.true] - model.topics[match.found]).sum(axis=1) / 2
    assert gap.max() < 0.15  # total variation; 0.5 and more between different topics here
    for true, found in zip(match.true, match.found):
        word = model.anchors[found]
        assert corpus.topics[true, word] > 0.9 * corpus.topics[:, word].sum()  # in no other topic, or almost none
    np.testing.assert_allclose(model.topics.sum(axis=1), 1)
    np.testing.assert_allclose(model.mixtures.sum(axis=1), 1)
    assert fa.metrics.abundance_rmse(corpus.weights, model.mixtures, match=match) < 0.1
    np.testing.assert_allclose(model.share[match.found], corpus.weights.mean(axis=0)[match.true], atol=0.05)
    assert model.words(4)[0] == [corpus.vocabulary[word] for word in model.top(4)[0]]
    assert 0.2 <= model.uniqueness <= 1


def test_memory_stays_far_below_the_square_of_the_vocabulary():
    big = fa.datasets.topics(1500, 21_000, 4, length=60, rng=0)
    fa.apps.topics(fa.datasets.topics(100, 200, 3, rng=0).A, 3)  # compilation and imports, once, are not counted
    tracemalloc.start()
    model = fa.apps.topics(big.A, 4)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.topics.shape == (4, 21_000)
    assert peak < 100e6  # 21,000² numbers would be 3.5 GB


def test_empty_documents_and_unseen_words_are_harmless(corpus):
    padded = sp.csr_array(sp.block_array([[corpus.A, None], [None, sp.csr_array((3, 2))]]))
    model, same = fa.apps.topics(padded, 5), fa.apps.topics(corpus.A, 5)
    assert model.anchors.tolist() == same.anchors.tolist()
    assert np.all(model.topics[:, 600:] == 0)
    assert np.all(model.mixtures[1200:] == 0)
    assert model.anchor_words == [str(word) for word in model.anchors]


def test_bad_counts_are_refused(corpus):
    with pytest.raises(fa.errors.InvalidInputError, match="whole numbers"):
        fa.apps.topics(corpus.A * 0.5, 3)
    with pytest.raises(fa.errors.InvalidInputError, match=r"^counts.* is negative"):
        fa.apps.topics(-corpus.A, 3)
    with pytest.raises(fa.errors.InvalidInputError, match="vocabulary has 2 words"):
        fa.apps.topics(corpus.A, 3, vocabulary=["a", "b"])
    with pytest.raises(fa.errors.InvalidInputError, match="lower min_documents"):
        fa.apps.topics(corpus.A, 3, min_documents=1201)
    with pytest.raises(fa.errors.InvalidInputError, match="no document has two words"):
        fa.apps.topics(np.eye(4, dtype=int), 2)
    with pytest.raises(fa.errors.RankError, match="has rank 2, below k = 3"):
        fa.apps.topics([[1, 0, 1], [0, 1, 1]] * 8, 3)
    with pytest.raises(fa.errors.InvalidInputError, match="recovery"):
        fa.apps.topics(corpus.A, 3, recovery="l1")


@pytest.mark.parametrize("kind", ["n.npz", "n.mtx", "n.csv", "docword.n.txt", "store", "opened", "samples", "signed"])
def test_negative_counts_are_refused_wherever_they_are(tmp_path, kind):
    good = np.random.default_rng(0).poisson(1.5, (60, 12))
    counts = good.copy()
    counts[7, 3] = -9999
    path = tmp_path / kind
    source = path
    if kind == "n.npz":
        sp.save_npz(path, sp.csr_array(counts))
    elif kind == "n.mtx":
        scipy.io.mmwrite(path, sp.coo_array(counts))
    elif kind == "n.csv":
        np.savetxt(path, counts, "%d", ",")
    elif kind == "docword.n.txt":
        lines = [f"{i + 1} {j + 1} {counts[i, j]}\n" for i, j in zip(*counts.nonzero(), strict=True)]
        path.write_text(f"60\n12\n{len(lines)}\n{''.join(lines)}")
    elif kind == "samples":
        source = fa.SampleMatrix(counts, normalize=None)
    elif kind == "signed":
        source = fa.open_matrix(sp.csr_array(counts), signed=True)
    else:
        fa.build(counts, path, normalize=None)
        source = fa.open_matrix(path) if kind == "opened" else path
    model, words = fa.TopicModel(2).fit(good), fa.apps.topics(good, 2)
    calls = [
        lambda: fa.apps.topics(source, 2),
        lambda: fa.apps.topic_curve(source, (2,)),
        lambda: fa.TopicModel(2).fit_transform(source),
        lambda: model.transform(source),
        lambda: model.score(source),
        lambda: fa.apps.pyldavis(words, source),
        lambda: words.report(tmp_path / "r.html", source),
    ]
    for call in calls:
        with pytest.raises(fa.errors.InvalidInputError, match=r"\[7, 3\] is negative \(-9999"):
            call()


# --- corpora -------------------------------------------------------------------------------------------------------

TEXTS = ["The cat sat on the mat.", "A cat and a dog: cat, dog!", "Stocks fell 3 %; the dog didn't care."]


def check_texts(corpus):
    words = dict(zip(corpus.vocabulary, corpus.counts.toarray().T.tolist()))
    assert words["cat"] == [1, 2, 0]
    assert words["dog"] == [0, 2, 1]
    assert "the" not in words
    assert "3" not in words


def test_folder_lines_and_columns_of_text(tmp_path):
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    for name, text in zip(["a.txt", "b.txt", "sub/c.txt"], TEXTS):
        (folder / name).write_text(text)
    (folder / "ignored.png").write_bytes(b"\x89PNG cat cat cat")
    read = fa.apps.read_corpus(folder)
    check_texts(read)
    assert read.documents == ["a.txt", "b.txt", "sub/c.txt"]
    assert read.notes == ("1 file is left out: not .txt, .text, .md, or a link to nothing",)
    (tmp_path / "lines.txt").write_text("\n\n".join(TEXTS))
    check_texts(fa.apps.read_corpus(tmp_path / "lines.txt"))
    (tmp_path / "t.csv").write_text("id,text\n" + "".join(f'{i},"{text}"\n' for i, text in enumerate(TEXTS)))
    check_texts(fa.apps.read_corpus(tmp_path / "t.csv", column="text"))
    with pytest.raises(fa.errors.InvalidInputError, match=r"--column.*'id', 'text'"):
        fa.apps.read_corpus(tmp_path / "t.csv")
    with pytest.raises(fa.errors.InvalidInputError, match="no column 'body'"):
        fa.apps.read_corpus(tmp_path / "t.csv", column="body")
    with pytest.raises(fa.errors.StoreError, match="does not exist"):
        fa.apps.read_corpus(tmp_path / "none")
    frequent = fa.apps.read_corpus(folder, min_df=2, stop_words=None)
    assert frequent.vocabulary == ["cat", "dog", "the"]
    (tmp_path / "stop").write_text("cat\ndog\n")
    assert "cat" not in fa.apps.read_corpus(folder, stop_words=tmp_path / "stop").vocabulary
    with pytest.raises(fa.errors.InvalidInputError, match=r"no word of .* is left"):
        fa.apps.read_corpus(folder, min_df=4)


def test_files_of_a_folder_that_are_left_out_are_counted(tmp_path):
    for name in ("a.txt", "b", "c.html", ".hidden", ".git/d.txt", ".git/HEAD"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("cats purr")
    (tmp_path / "e.txt").symlink_to(tmp_path / "gone")
    read = fa.apps.read_corpus(tmp_path)
    assert read.documents == ["a.txt"]
    assert read.notes == ("3 files are left out: not .txt, .text, .md, or a link to nothing",)
    (tmp_path / "a.txt").unlink()
    (tmp_path / "e.txt").unlink()
    read = fa.apps.read_corpus(tmp_path)
    assert (read.documents, read.notes) == (["b", "c.html"], ())


@pytest.mark.parametrize(("name", "separator"), [("t.csv", ","), ("t.tsv", "\t"), ("t.csv", ";")])
def test_a_quote_that_is_never_closed_is_refused(tmp_path, name, separator):
    """It took all later documents into one."""
    records = [f'{i}{separator}"cats\n""purr"""' for i in range(50)] + [f"{i}{separator}dogs" for i in range(50)]
    good = "\n".join([f"id{separator}text", *records, ""])
    (tmp_path / name).write_text(good)
    assert len(fa.apps.read_corpus(tmp_path / name, column="text").documents) == 100
    (tmp_path / name).write_text(good.replace(f"\n0{separator}dogs", f'\n0{separator}"dogs'))
    with pytest.raises(fa.errors.StoreError, match="line 102: a quote is opened in this line and never closed"):
        fa.apps.read_corpus(tmp_path / name, column="text")


def test_quotes_have_the_meaning_of_the_separator_that_is_found(tmp_path):
    (tmp_path / "t.csv").write_text('id;text\n1;cats,"purr\n2;dogs\n')
    assert fa.apps.read_corpus(tmp_path / "t.csv", column="text").vocabulary == ["cats", "dogs", "purr"]


def test_missing_texts_of_json_are_empty(tmp_path):
    """pandas writes a missing text as NaN by json.dumps."""
    (tmp_path / "t.jsonl").write_text('{"t": "cats purr", "u": NaN}\n{"t": NaN, "u": "b"}\n{"t": null, "u": 3}\n')
    read = fa.apps.read_corpus(tmp_path / "t.jsonl", column="t", title="u")
    assert (read.vocabulary, read.documents) == (["cats", "purr"], ["", "b", "3"])
    assert read.notes == ("2 of 3 documents hold no words",)
    (tmp_path / "l.jsonl").write_text('{"t": "cats"}\n{"t": ["cats", "purr"]}\n')
    with pytest.raises(fa.errors.InvalidTypeError, match="text 1 is of type list, not text"):
        fa.apps.read_corpus(tmp_path / "l.jsonl")


def test_texts_of_parquet_as_bytes_are_utf_8(tmp_path):
    """Python's notation of bytes was counted: the words b'caf and xc3."""
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = pa.table({"t": ["café".encode(), b"dogs", None], "u": [b"A", "É".encode(), None], "l": [["a"]] * 3})
    pq.write_table(table, tmp_path / "t.parquet")
    read = fa.apps.read_corpus(tmp_path / "t.parquet", column="t", title="u")
    assert (read.vocabulary, read.documents) == (["café", "dogs"], ["A", "É", ""])
    pq.write_table(table.select(["t"]).append_column("n", [[1, 2, 3]]), tmp_path / "n.parquet")
    with pytest.raises(fa.errors.InvalidInputError, match=r"choose the column of the texts.*'t', 'n'"):
        fa.apps.read_corpus(tmp_path / "n.parquet")
    frame = table.append_column("s", [["cats", "purr", "dogs"]])
    assert fa.apps.as_corpus(frame, column="s", title="u").documents == ["A", "É", ""]
    for option in ({"column": "l"}, {"column": "t", "title": "l"}):
        with pytest.raises(fa.errors.InvalidTypeError, match="0 is of type list, not text"):
            fa.apps.read_corpus(tmp_path / "t.parquet", **option)
    pq.write_table(pa.table({"t": [b"cats", "café".encode("latin-1")]}), tmp_path / "l.parquet")
    with pytest.raises(fa.errors.StoreError, match="text 1: 0xe9 is not UTF-8 text"):
        fa.apps.read_corpus(tmp_path / "l.parquet")


def test_counts_with_their_vocabulary(tmp_path):
    (tmp_path / "c.dat").write_text("2 0:1 2:4\n1 1:2\n")
    (tmp_path / "words").write_text("cat\nthe\ndog\n")
    read = fa.apps.read_corpus(tmp_path / "c.dat", vocab=tmp_path / "words")
    assert read.vocabulary == ["cat", "dog"]
    assert read.counts.toarray().tolist() == [[1, 4], [0, 0]]
    (tmp_path / "docword.x.txt").write_text("2\n3\n3\n1 1 1\n1 3 4\n2 2 2\n")
    (tmp_path / "vocab.x.txt").write_text("cat\nthe\ndog\n")
    same = fa.apps.read_corpus(tmp_path / "docword.x.txt", stop_words=None)
    assert same.vocabulary == ["cat", "the", "dog"]
    assert same.counts.toarray().tolist() == [[1, 0, 4], [0, 2, 0]]


def test_documents_in_an_encoding_with_shifts_are_decoded_as_a_whole(tmp_path):
    (tmp_path / "a.txt").write_bytes("山川 cat\n森林".encode("iso2022-jp"))
    assert fa.apps.read_corpus(tmp_path / "a.txt", encoding="iso2022-jp").vocabulary == ["cat", "山川", "森林"]


def test_texts_that_are_not_utf_8_are_refused_and_empty_ones_reported(tmp_path):
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "a.txt").write_bytes("schön cat".encode("latin-1"))
    (folder / "b.txt").write_text("")
    with pytest.raises(fa.errors.StoreError, match=r"a.txt, byte 4: 0xf6 is not utf-8 text.*encoding='latin-1'"):
        fa.apps.read_corpus(folder)
    read = fa.apps.read_corpus(folder, encoding="latin-1")
    assert read.vocabulary == ["cat", "schön"]
    assert read.notes == ("1 of 2 documents hold no words",)


def test_a_vocabulary_file_beside_the_counts_is_reported(tmp_path):
    (tmp_path / "c.ldac").write_text("2 0:1 1:2\n1 2:1\n")
    (tmp_path / "vocab.txt").write_text("cat\ndog\nbird\n")
    assert fa.apps.read_corpus(tmp_path / "c.ldac").notes == (f"words from {tmp_path / 'vocab.txt'}",)
    assert fa.apps.read_corpus(tmp_path / "c.ldac", vocab=tmp_path / "vocab.txt").notes == ()


# --- the words that are shown, and the table beside scikit-learn ---------------------------------------------------


def test_relevant_words_are_the_formula(corpus):
    model = fa.apps.topics(corpus.A, 4)
    p = model.share @ model.topics + 30 / corpus.A.sum()
    for relevance in (0.0, 0.3, 1.0):
        for t, shown in enumerate(model.top(5, relevance)):
            law = model.topics[t]
            score = [
                relevance * np.log(law[w]) + (1 - relevance) * np.log(law[w] / p[w]) if law[w] > 0 else -np.inf
                for w in range(law.size)
            ]
            np.testing.assert_allclose(np.array(score)[shown], np.sort(score)[::-1][:5])
    assert model.top(7, 1.0).tolist() == np.argsort(-model.topics, axis=1, kind="stable")[:, :7].tolist()
    with pytest.raises(fa.errors.InvalidInputError, match="relevance"):
        model.top(5, 1.5)


def test_a_word_common_to_all_topics_is_probable_but_not_relevant():
    made = fa.datasets.topics(200, 120, 3, rng=3)
    counts = np.hstack([made.A.toarray(), np.full((200, 1), 20)])
    model = fa.apps.topics(counts, 3)
    assert np.all(np.any(model.top(3, relevance=1.0) == 120, axis=1))
    assert not np.any(model.top(10, relevance=0.0) == 120)


def test_comparison_with_scikit_learn(corpus):
    model = fa.apps.topics(corpus.A, 4)
    table = fa.apps.compare_topics(model, corpus.A)
    by_name = {row.method: row for row in table}
    assert list(by_name) == [
        "anchor words",
        "anchor words, most relevant words",
        "anchor words, most probable words",
        "scikit-learn NMF, tf-idf",
        "scikit-learn LDA",
        "scikit-learn LDA, most probable words",
    ]
    own = by_name["anchor words"]
    assert own.coherence == pytest.approx(model.coherence.mean())
    assert own.npmi == pytest.approx(model.npmi.mean())
    assert own.uniqueness == model.uniqueness
    for row in table:
        assert -1 <= row.npmi <= 1
        assert 0.25 <= row.uniqueness <= 1
        assert row.seconds > 0
    again = fa.apps.compare_topics(model, corpus.A)
    assert [row.npmi for row in again] == [row.npmi for row in table]


# --- words shown ------------------------------------------------------------------------------------------------------


def test_words_shown_are_the_relevant_ones_that_occur_together(corpus):
    model = fa.apps.topics(corpus.A, 5, vocabulary=corpus.vocabulary)
    H = sp.csr_array(corpus.A)
    relevant = model.top(25, 1 / 3)
    for t in range(5):
        left = relevant[t].tolist()
        while len(left) > 10:
            company = [sum(cautious_npmi(H, v, w) for w in left if w != v) for v in left]
            left.pop(int(np.argmin(company)))
        assert model.top()[t].tolist() == left
        assert model.top(25)[t].tolist() == left + [word for word in relevant[t] if word not in left]
    assert np.array_equal(model.top(40)[:, :25], model.descriptive)
    assert np.array_equal(np.sort(model.top(40)), np.sort(model.top(40, 1 / 3)))
    assert model.npmi.mean() >= fa.metrics.topic_coherence(relevant[:, :10], H, measure="npmi").mean()


def test_words_of_a_small_vocabulary_are_all_shown():
    model = fa.apps.topics(fa.datasets.topics(60, 8, 2, rng=0).A, 2)
    assert all(sorted(row) == list(range(8)) for row in model.top().tolist())


@pytest.mark.parametrize(
    "selection", ["auto", "spa", "smoothed", "smoothed-one", "pseudo-points", "lifted", "whitened"]
)
def test_every_selection_recovers_the_topics(corpus, selection):
    found = fa.apps.topics(corpus.A, 5, selection=selection)
    gaps = np.abs(found.topics[:, None] - corpus.topics[None]).sum(axis=2)
    assert np.unique(gaps.argmin(axis=1)).size == 5
    assert gaps.min(axis=1).max() < 0.5
    assert found.groups.shape == (5, 3 if selection in ("auto", "smoothed", "smoothed-one", "pseudo-points") else 1)


def test_an_unknown_selection(counts):
    with pytest.raises(fa.errors.InvalidInputError, match="selection must be one of"):
        fa.apps.topics(counts, 3, selection="best")


def test_starts_at_points_alone_find_the_vertices_too():
    rng = np.random.default_rng(0)
    corners = np.eye(4)
    points = np.vstack([np.repeat(corners, 3, axis=0), rng.dirichlet(np.ones(4), 200)])
    groups = groups_by_rule(points, 4, 3, "smoothed", starts="points")
    assert sorted(tuple(group // 3) for group in groups) == [(i, i, i) for i in range(4)]


def test_counts_of_any_type_give_the_same_points(counts):
    H = sp.csr_array(counts)
    one = word_space(H, 4)
    for kind in (np.uint8, np.int64, np.float64):
        np.testing.assert_array_equal(word_space(H.astype(kind), 4).points, one.points)
    many = sp.csr_array(counts * 300)  # more than a byte holds
    np.testing.assert_array_equal(_transposed(many).toarray(), many.toarray().T)


def test_topics_without_words_are_zero_and_the_curve_has_a_choice():
    rng = np.random.default_rng(3)
    mixtures, laws = rng.dirichlet(np.full(4, 0.3), 160), rng.dirichlet(np.full(12, 0.4), 4)
    found = fa.apps.topic_curve(rng.poisson(mixtures @ laws * 80))  # four topics; five and more are tried
    assert found.chosen in found.numbers
    assert np.isfinite(found.scores).all()


def test_a_vocabulary_beside_texts_is_refused(tmp_path):
    """It was ignored."""
    texts = ["cats purr milk", "dogs bark bone", "cats dogs pets"] * 20
    (tmp_path / "texts.txt").write_text("\n".join(texts))
    for source in (texts, tmp_path / "texts.txt", fa.apps.as_corpus(texts)):
        with pytest.raises(fa.errors.InvalidInputError, match="has its own words"):
            fa.apps.topics(source, 2, vocabulary=["cats", "dogs"])
