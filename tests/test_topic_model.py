"""The topic estimator, texts of every kind, saved models, tables, and corpora that grow."""

from __future__ import annotations

import bz2
import gzip
import json

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.model_selection import GridSearchCV

import fastanchors as fa
from fastanchors.apps._mixtures import mixtures
from fastanchors.apps._tokens import Tokenizer, strip_html
from fastanchors.apps._topic_refine import best_sweeps, completion, refined
from fastanchors.errors import InvalidInputError, InvalidTypeError
from fastanchors.io.text import read_texts

TEXTS = ["The cat sat. The cat ran!", "Dogs bark, a dog's bark", "Cats and dogs don't mix"]


@pytest.fixture(scope="module")
def corpus():
    return fa.datasets.topics(900, 400, 4, length=60, anchor_words=5, rng=5)


@pytest.fixture(scope="module")
def texts(corpus):
    names = np.array(corpus.vocabulary)
    rows = sp.csr_array(corpus.A)
    return [" ".join(np.repeat(names[rows[[d]].indices], rows[[d]].data)) for d in range(300)]


# --- the estimator ----------------------------------------------------------------------------------------------------


def test_estimator_keeps_the_conventions(corpus):
    model = fa.TopicModel(n_topics=4)
    assert clone(model).get_params() == model.get_params()
    mixtures = model.fit_transform(corpus.A)
    np.testing.assert_array_equal(mixtures, model.topics_.mixtures)
    np.testing.assert_allclose(model.transform(corpus.A), mixtures, atol=1e-12)
    np.testing.assert_allclose(model.components_.sum(axis=1), 1)
    assert model.get_feature_names_out().tolist() == [f"topicmodel{t}" for t in range(4)]
    assert model.n_features_in_ == 400
    back = model.inverse_transform(mixtures)
    np.testing.assert_allclose(back.sum(axis=1), 1)
    columns = dict(zip(model.get_feature_names_out()[::-1], mixtures.T[::-1], strict=True))
    np.testing.assert_allclose(model.inverse_transform(pytest.importorskip("pyarrow").table(columns)), back)
    assert model.perplexity(corpus.A) == pytest.approx(np.exp(-model.score(corpus.A)))
    with pytest.raises(fa.errors.InvalidInputError, match="have 399 words, the model 400"):
        model.transform(corpus.A[:, :399])


def test_unseen_documents_get_their_true_mixtures(corpus):
    model = fa.TopicModel(n_topics=4).fit(corpus.A[:700])
    match = fa.metrics.matched_spectral_angle(corpus.topics, model.components_)
    found = model.transform(corpus.A[700:])
    assert fa.metrics.abundance_rmse(corpus.weights[700:], found, match=match) < 0.12


def test_grid_search_finds_the_true_number_of_topics(corpus):
    search = GridSearchCV(fa.TopicModel(), {"n_topics": [2, 4]}, cv=2).fit(corpus.A)
    assert search.best_params_ == {"n_topics": 4}


def test_auto_finds_the_true_number_and_has_its_curve(corpus):
    model = fa.TopicModel("auto").fit(corpus.A)
    curve = fa.apps.topic_curve(corpus.A, (2, 3, 4, 6, 8))
    assert curve.chosen in (4, 6)
    assert curve.scores[2] > curve.scores[0] + 3 * curve.errors[0]
    assert len(model.components_) == model.curve_.chosen
    assert len(model.curve_.numbers) == len(model.curve_.scores) == len(model.curve_.errors)


def test_texts_vectorisers_and_frames(texts, corpus):
    pd = pytest.importorskip("pandas")
    own = fa.TopicModel(4).fit(texts)
    assert "anchor0" not in own.vocabulary_  # words keep the part after an underscore
    assert own.transform(texts[:3]).shape == (3, 4)
    np.testing.assert_allclose(own.transform(pd.Series(texts[:3])), own.transform(texts[:3]))
    counted = fa.TopicModel(4, vectorizer=CountVectorizer(min_df=2)).fit(texts)
    weighted = fa.TopicModel(4, vectorizer=TfidfVectorizer(min_df=2)).fit(texts)
    np.testing.assert_array_equal(counted.components_, weighted.components_)
    assert counted.vocabulary_ == weighted.vocabulary_
    np.testing.assert_allclose(weighted.transform(texts[:3]), counted.transform(texts[:3]))
    frame = pd.DataFrame(corpus.A[:300].toarray(), columns=corpus.vocabulary)
    assert fa.apps.topics(frame, 4).vocabulary == corpus.vocabulary
    with pytest.raises(fa.errors.InvalidTypeError, match="document 1 is not text but float"):
        fa.TopicModel(2).fit(["a text", float("nan")])
    for wrong in ([None, "a text"], [float("nan"), "a text"]):
        with pytest.raises(fa.errors.InvalidTypeError, match="document 0 is not text"):
            own.transform(wrong)
    with pytest.raises(fa.errors.InvalidInputError, match="the list is empty"):
        fa.apps.topics([], 2)


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_frame_of_texts_asks_for_its_column(texts, corpus, package):
    module = pytest.importorskip(package)
    names = [f"story {d}" for d in range(len(texts))]
    mixed = module.DataFrame({"text": texts, "year": list(range(len(texts)))})
    for wrong in (mixed, mixed[["text"]], module.DataFrame({"text": texts, "name": names})):
        with pytest.raises(fa.errors.InvalidTypeError, match=r"holds texts .'text'.*column='text'"):
            fa.apps.topics(wrong, 4)
        with pytest.raises(fa.errors.InvalidTypeError, match="column='text'"):
            fa.TopicModel(4).fit(wrong)
    with pytest.raises(fa.errors.InvalidInputError, match="no column 'body'; its columns are text, year"):
        fa.apps.topics(mixed, 4, column="body")
    whole = module.DataFrame({"name": names, "text": texts})
    by_name, by_place = fa.apps.topics(whole, 4, column="text", title="name"), fa.apps.topics(whole, 4, column=1)
    assert by_name.vocabulary == fa.apps.topics(texts, 4).vocabulary
    assert by_name.document(7) == "story 7"
    np.testing.assert_array_equal(by_place.topics, by_name.topics)
    rows = corpus.A[:300].toarray().T.tolist()
    table = module.DataFrame({"name": names, **dict(zip(corpus.vocabulary, rows, strict=True))})
    assert fa.apps.topics(table, 4).documents == names  # names beside many numbers: a table of counts


# --- refinement -------------------------------------------------------------------------------------------------------


def test_sweeps_continue_while_held_out_documents_improve(corpus):
    H = sp.csr_array(corpus.A)
    model = fa.apps.topics(H[:600], 4)
    blurred = 0.5 * model.topics + 0.5 * model.share @ model.topics
    assert (
        best_sweeps(H[:600], lambda rest: (corpus.topics, np.full(4, 0.25))) <= 2
    )  # the true topics need none, or few
    sweeps = best_sweeps(H[:600], lambda rest: (blurred, model.share))
    assert sweeps > 0
    better, share = refined(H[:600], blurred, model.share, sweeps)
    assert completion(H[600:], better, share)[0] > completion(H[600:], blurred, model.share)[0] + 0.01
    np.testing.assert_allclose(better.sum(axis=1), 1)
    auto = fa.apps.topics(H[:600], 4, refine="auto")
    before, after = (completion(H[600:], each.topics, each.share)[0] for each in (model, auto))
    assert after >= before - 2e-3
    with pytest.raises(fa.errors.FastAnchorsError, match="refine"):
        fa.apps.topics(H, 4, refine=-1)


# --- texts ------------------------------------------------------------------------------------------------------------


def test_contractions_possessives_and_stop_words_go_together():
    split = Tokenizer(frozenset({"it", "is", "we"}))
    assert split("It's Labour’s plan; we don't, we'll see O'Brien's re-election") == [
        "labour",
        "plan",
        "see",
        "o'brien",
        "re-election",
    ]
    assert Tokenizer()("we don't") == ["we", "don't"]
    assert Tokenizer(ngrams=2)("red blue green") == ["red", "blue", "green", "red blue", "blue green"]
    assert Tokenizer(html=True)("<p class='x'>caf&eacute; <script>var a;</script>bar</p> 3 < 4") == ["café", "bar"]
    assert strip_html("a<!-- b -->c").split() == ["a", "c"]


def test_texts_from_every_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = [{"id": i, "text": text} for i, text in enumerate(TEXTS)]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    (tmp_path / "a.json").write_text(json.dumps(rows))
    (tmp_path / "plain.json").write_text(json.dumps(TEXTS))
    (tmp_path / "frame.json").write_text(json.dumps({name: {r["id"]: r[name] for r in rows} for name in rows[0]}))
    (tmp_path / "half.csv").write_text("id;text\n" + "".join(f'{i};"{text}"\n' for i, text in enumerate(TEXTS)))
    (tmp_path / "a.csv").write_text("id,text\n" + "".join(f'{i},"{text}"\n' for i, text in enumerate(TEXTS)))
    (tmp_path / "bare.csv").write_text("".join(f'{i},"{text}"\n' for i, text in enumerate(TEXTS)))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("\n".join(TEXTS).encode()))
    (tmp_path / "a.csv.bz2").write_bytes(bz2.compress((tmp_path / "a.csv").read_bytes()))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    for name, column in {
        "a.jsonl": "text",
        "a.json": "text",
        "plain.json": None,
        "frame.json": "text",
        "half.csv": "text",
        "a.csv": "text",
        "bare.csv": "1",
        "a.txt.gz": None,
        "a.csv.bz2": 1,
        "a.parquet": "text",
    }.items():
        read = fa.apps.read_corpus(tmp_path / name, column=column)
        assert read.vocabulary == ["bark", "cat", "cats", "dog", "dogs", "mix", "ran", "sat"], name
    assert read_texts(tmp_path / "a.csv", column="text", title="id").names == ["0", "1", "2"]
    with pytest.raises(fa.errors.InvalidInputError, match=r"has no column 'txt'.*did you mean 'text'"):
        fa.apps.read_corpus(tmp_path / "a.parquet", column="txt")
    (tmp_path / "loose.csv").write_text("id,text\n1,cats purr\n2,dogs, too\n")
    with pytest.raises(fa.errors.StoreError, match=r"record 3: 3 fields where the first has 2; .* must be in quotes"):
        fa.apps.read_corpus(tmp_path / "loose.csv", column="text")
    (tmp_path / "bad.jsonl").write_text('{"text": "a"}\n{"text": \n')
    with pytest.raises(fa.errors.StoreError, match=r"bad.jsonl, line 2: not JSON"):
        fa.apps.read_corpus(tmp_path / "bad.jsonl", column="text")
    (tmp_path / "cut.txt.gz").write_bytes((tmp_path / "a.txt.gz").read_bytes()[:-6])
    with pytest.raises(fa.errors.StoreError, match=r"cannot read .*cut.txt.gz"):
        fa.apps.read_corpus(tmp_path / "cut.txt.gz")


def test_bad_bytes_are_replaced_and_counted_on_request(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"good words\nb\xffd words\ngood \xef\xbf\xbd")
    with pytest.raises(fa.errors.StoreError, match="0xff is not utf-8"):
        fa.apps.read_corpus(tmp_path / "a.txt")
    read = fa.apps.read_corpus(tmp_path / "a.txt", errors="replace")
    assert read.notes[0] == "1 byte was not text and replaced"
    assert "words" in read.vocabulary


def test_parquet_of_texts_asks_for_the_column(tmp_path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"id": ["a", "b"], "body": ["one two", "two three"]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(fa.errors.InvalidInputError, match="choose the column of the texts"):
        fa.apps.read_corpus(tmp_path / "t.parquet")
    mixed = pandas.DataFrame({"body": ["green tea", "black tea"], "year": [1998, 1999]})
    mixed.to_parquet(tmp_path / "m.parquet")
    (tmp_path / "m.parquet.gz").write_bytes(gzip.compress((tmp_path / "m.parquet").read_bytes()))
    for name in ("m.parquet", "m.parquet.gz"):
        with pytest.raises(fa.errors.InvalidInputError, match=r"choose the column of the texts.*'body', 'year'"):
            fa.apps.read_corpus(tmp_path / name)
        assert fa.apps.read_corpus(tmp_path / name, column="body").vocabulary == ["black", "green", "tea"]
    (tmp_path / "cut.parquet.gz").write_bytes((tmp_path / "m.parquet.gz").read_bytes()[:200])
    with pytest.raises(fa.errors.StoreError, match=r"cut\.parquet\.gz"):
        fa.apps.read_corpus(tmp_path / "cut.parquet.gz", column="body")
    counts = pandas.DataFrame({"tea": [1, 0, 2], "coffee": [0, 3, 1]})
    counts.to_parquet(tmp_path / "c.parquet")
    assert fa.apps.read_corpus(tmp_path / "c.parquet").vocabulary == ["tea", "coffee"]


def test_words_of_one_document_are_dropped_except_in_tiny_corpora():
    many = [f"shared unique{letter}" for letter in "abcdefghij"]
    assert fa.apps.as_corpus(many).vocabulary == ["shared"]
    assert len(fa.apps.as_corpus(many[:9]).vocabulary) == 10
    assert len(fa.apps.as_corpus(many, min_df=1).vocabulary) == 11


def test_stop_words_by_language_with_a_note_where_they_do_not_fit():
    german = ["der Hund und die Katze sind in dem Haus mit einer Maus"] * 40
    read = fa.apps.as_corpus(german)
    assert "'german'" in read.notes[0]
    assert fa.apps.as_corpus(german, stop_words="german").vocabulary == ["haus", "hund", "katze", "maus"]
    assert fa.apps.as_corpus(german, stop_words="german").notes == ()
    strange = ["xylo brak morvu tenk"] * 100
    assert "no list of stop words fits" in fa.apps.as_corpus(strange).notes[0]
    with pytest.raises(fa.errors.InvalidInputError, match=r"no stop words for 'germn'.*did you mean 'german'"):
        fa.apps.as_corpus(german, stop_words="germn")


# --- on disk ----------------------------------------------------------------------------------------------------------


def test_invalid_vectorisers_and_columns_raise(texts):
    from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer

    with pytest.raises(fa.errors.InvalidTypeError, match=r"such as CountVectorizer\(\), not the class"):
        fa.apps.topics(texts, 2, vectorizer=CountVectorizer)
    with pytest.raises(fa.errors.InvalidInputError, match="alternate_sign=False and norm=None"):
        fa.apps.topics(texts, 2, vectorizer=HashingVectorizer())
    hashed = HashingVectorizer(n_features=512, alternate_sign=False, norm=None)
    assert fa.apps.topics(texts, 2, vectorizer=hashed).topics.shape == (2, 512)
    pandas = pytest.importorskip("pandas")
    with pytest.raises(fa.errors.InvalidTypeError, match="pass the column that holds them"):
        fa.apps.topics(pandas.DataFrame({"id": ["a", "b", "c"], "body": texts[:3]}), 2)


def test_a_saved_model_is_restored(tmp_path, corpus):
    model = fa.apps.topics(corpus.A, 4, vocabulary=corpus.vocabulary)
    fa.apps.save_topics(model, tmp_path / "m.npz")
    again = fa.apps.load_topics(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.topics, model.topics)
    np.testing.assert_array_equal(again.mixtures, model.mixtures)
    assert again.words(5) == model.words(5)
    assert again.documents is None
    (tmp_path / "cut.npz").write_bytes((tmp_path / "m.npz").read_bytes()[:-100])
    with pytest.raises(fa.errors.StoreError, match="not a topic model"):
        fa.apps.load_topics(tmp_path / "cut.npz")


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_have_names(tmp_path, suffix):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    path = tmp_path / f"t{suffix}"
    values = np.array([[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]])
    fa.apps.save_table(values, path, rows=["a", "b", "c"], columns=["x", "y"])
    frame = pd.read_csv(path) if suffix == ".csv" else pd.read_parquet(path)
    assert list(frame.columns) == ["document", "x", "y"]
    np.testing.assert_array_equal(frame[["x", "y"]].to_numpy(), values)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_pyldavis_gets_laws_that_sum_to_one(corpus):
    padded = sp.csr_array(sp.block_array([[corpus.A, None], [None, sp.csr_array((2, 3))]]))
    model = fa.apps.topics(padded, 4)
    given = fa.apps.pyldavis(model, padded)
    np.testing.assert_allclose(given["topic_term_dists"].sum(axis=1), 1)
    np.testing.assert_allclose(given["doc_topic_dists"].sum(axis=1), 1)
    assert given["topic_term_dists"].shape[1] == len(given["vocab"]) == given["term_frequency"].size
    assert len(given["doc_topic_dists"]) == given["doc_lengths"].size == 900


def test_examples_of_a_topic_have_the_largest_share_of_it(corpus):
    model = fa.apps.topics(corpus.A, 4)
    shown = model.examples(2)
    assert shown.shape == (4, 2)
    for t in range(4):
        assert model.mixtures[shown[t, 0], t] == model.mixtures[:, t].max()


# --- corpora that grow ------------------------------------------------------------------------------------------------


def test_topics_of_a_store_are_those_of_its_counts(tmp_path, corpus):
    with fa.build(corpus.A, tmp_path / "s", normalize="l1") as store:
        found = fa.apps.topics(store, 4)
    same = fa.apps.topics(corpus.A, 4)
    np.testing.assert_allclose(found.topics, same.topics, atol=1e-10)
    by_path = fa.apps.topics(tmp_path / "s", 4)  # all words, also those of one document
    assert by_path.anchors.tolist() == same.anchors.tolist()


def test_a_fit_of_more_documents_continues_from_the_last(corpus):
    H = sp.csr_array(corpus.A)
    first = fa.apps.topics(H[:700], 4)
    onward, fresh = fa.apps.topics(H, 4, since=first), fa.apps.topics(H, 4)
    changes = fa.apps.topic_changes(fresh, onward)
    assert len(changes.same) == 4
    assert max(changes.distances.values()) < 0.05
    assert not changes.new
    assert not changes.gone


def test_anchors_stay_until_new_documents_are_unlike_the_old_ones():
    made = fa.datasets.topics(1600, 500, 6, length=60, anchor_words=5, rng=8)
    largest = np.asarray(made.weights).argmax(axis=1)
    last = np.asarray(made.weights)[:, 5] > 0.1
    old, new = np.flatnonzero(~last), np.flatnonzero(last & (largest == 5))
    H = sp.csr_array(made.A)
    first = fa.apps.topics(H[old[:-100]], 5)
    alike = fa.apps.topics(H[old], 5, since=first)
    assert alike.anchors.tolist() == first.anchors.tolist()
    assert len(fa.apps.topic_changes(first, alike).same) == 5
    np.testing.assert_allclose(alike.mixtures.sum(axis=1), 1)
    before = fa.apps.topics(H[old], 6)
    grown = fa.apps.topics(H[np.concatenate([old, new[:100]])], 6, since=before)
    gaps = [np.abs(made.topics[5] - model.topics).sum(axis=1).min() / 2 for model in (before, grown)]
    assert gaps[0] > 0.5  # total variation: there was no such topic
    assert gaps[1] < 0.3
    assert fa.apps.topic_changes(before, grown).new


@pytest.fixture(scope="module")
def growing():
    """Counts of 4,000 documents of six topics, those with the last topic kept for later, and where the first is."""
    made = fa.datasets.topics(5000, 600, 6, length=60, anchor_words=5, rng=11)
    weights = np.asarray(made.weights)
    H = sp.csr_array(made.A)
    old, late = H[np.flatnonzero(weights[:, 5] <= 0.05)], H[np.flatnonzero(weights[:, 5] > 0.5)]
    first = weights[weights[:, 5] <= 0.05][:, 0] > 0.05
    return made, old, late, np.flatnonzero(first)


def nearest(model, law):
    """The topic nearest to a true one, if its total variation is below 0.3."""
    gaps = np.abs(model.topics - law).sum(axis=1) / 2
    assert gaps.min() < 0.3
    return int(gaps.argmin())


def test_a_store_tells_of_a_topic_that_appears_and_one_that_vanishes(tmp_path, growing):
    made, old, late, first = growing
    with fa.build(old, tmp_path / "s", column_names=made.vocabulary) as store:
        before = fa.apps.topics(store, 5)
        assert before.changes is None
        gone = nearest(before, made.topics[0])
        store.append(late)
        appeared = fa.apps.topics(store, 6, since=before)
        part = old[first]
        rows = np.repeat(first, np.diff(part.indptr))
        store.update(rows, part.indices, np.zeros(rows.size))  # the documents of the first topic are emptied
        model = fa.apps.topics(store, since=before)
    assert (appeared.changes.new, appeared.changes.gone, appeared.changes.moved) == ((5,), (), ())
    assert nearest(appeared, made.topics[5]) == 5
    assert len(model.topics) == 5
    assert (model.changes.new, model.changes.gone) == ((gone,), (gone,))  # the new topic takes the free place
    assert nearest(model, made.topics[5]) == gone
    assert {i for i, _ in (*model.changes.same, *model.changes.moved)} == set(range(5)) - {gone}
    assert all(i == j for i, j in model.changes.distances)
    assert f"new: {gone}; gone: {gone}; moved: none; 4 the same" in repr(model)


def test_mixtures_are_kept_or_continued_as_the_topics_are(growing):
    _, old, late, _ = growing
    before = fa.apps.topics(old[:-200], 5)
    after = fa.apps.topics(old, 5, since=before)
    assert not after.changes.new
    np.testing.assert_array_equal(after.mixtures[: len(before.mixtures)], before.mixtures)
    both = sp.csr_array(sp.vstack([old, late]))
    grown = fa.apps.topics(both, 6, since=fa.apps.topics(old, 5))
    best = mixtures(both, grown.topics, grown.share, gap=1e-5)
    np.testing.assert_allclose(grown.mixtures, best, atol=0.03)
    assert np.abs(grown.mixtures - best).mean() < 1e-3


def test_changes_are_found_if_texts_have_new_words(texts):
    first = fa.apps.topics(texts[:80], 3)
    later = fa.apps.topics([*texts[:80], *[f"{text} novelty" for text in texts[80:100]]], 3, since=first)
    assert "novelty" in set(later.vocabulary) - set(first.vocabulary)
    changes = fa.apps.topic_changes(first, later)
    assert len(changes.same) + len(changes.moved) + len(changes.gone) == 3
    assert all(0 <= gap <= 1 for gap in changes.distances.values())


def test_new_and_removed_topics_are_found(corpus):
    made = fa.datasets.topics(900, 400, 4, length=60, anchor_words=5, rng=6)
    before, after = fa.apps.topics(corpus.A, 4), fa.apps.topics(made.A, 4)
    changes = fa.apps.topic_changes(before, after)
    assert len(changes.new) == len(changes.gone) > 0
    with pytest.raises(fa.errors.InvalidInputError, match="one vocabulary"):
        fa.apps.topic_changes(before, fa.apps.topics(made.A[:, :399], 4))


@pytest.mark.parametrize("bad", [2, None, "model.npz", np.eye(3)])
def test_what_is_no_topic_model_is_refused(corpus, bad):
    model = fa.apps.topics(corpus.A, 4)
    calls = [
        lambda: fa.apps.topic_changes(bad, model),
        lambda: fa.apps.topic_changes(model, bad),
        lambda: fa.apps.compare_topics(bad, corpus.A),
    ]
    if bad is not None:
        calls.append(lambda: fa.apps.topics(corpus.A, 4, since=bad))
    for call in calls:
        with pytest.raises(fa.errors.InvalidTypeError, match="must be the result of"):
            call()


def test_counts_of_other_words_and_mixtures_that_are_no_numbers_are_refused(corpus):
    model = fa.TopicModel(n_topics=4).fit(corpus.A)
    with pytest.raises(fa.errors.InvalidInputError, match="must agree"):
        fa.apps.compare_topics(model.topics_, corpus.A[:, :50])
    with pytest.raises(fa.errors.InvalidInputError, match=r"mixtures\[0, 0\] is NaN"):
        model.inverse_transform(np.full((1, 4), np.nan))
    with pytest.raises(fa.errors.InvalidInputError, match="4 columns"):
        model.inverse_transform(np.ones((1, 3)))
    with pytest.raises(fa.errors.InvalidTypeError, match="mixtures must hold real numbers"):
        model.inverse_transform([["a", "b", "c", "d"]])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_counts_that_no_integer_holds_are_refused(make):
    counts = (np.random.default_rng(0).random((40, 12)) * 9).astype(int)
    for find in (lambda H: fa.apps.topics(H, 2), fa.apps.topic_curve):
        with pytest.raises(fa.errors.InvalidInputError, match=r"below 2\^63"):
            find(make(counts * 1e200))


def test_weights_are_no_counts_wherever_a_model_takes_them(corpus, tmp_path):
    model, weights = fa.TopicModel(n_topics=4).fit(corpus.A), sp.csr_array(corpus.A * 0.5)
    sp.save_npz(tmp_path / "weights.npz", weights)
    for call in (model.fit, model.transform, model.score, model.perplexity, fa.apps.topic_curve):
        for source in (weights, weights.toarray(), str(tmp_path / "weights.npz")):
            with pytest.raises(InvalidInputError, match="whole numbers"):
                call(source)
    np.testing.assert_array_equal(model.transform(corpus.A * 1.0), model.transform(corpus.A))


def test_documents_without_words_to_score_are_refused(texts):
    model = fa.TopicModel(n_topics=4).fit(texts)
    for documents in ([""], ["unheard of"], [texts[0].split()[0]]):
        for call in (model.score, model.perplexity):
            with pytest.raises(InvalidInputError, match="too few words of the model"):
                call(documents)
    assert model.score([texts[0], ""]) == model.score([texts[0]]) < 0
    single = [*texts[:30], *("word" for _ in range(3000))]
    order = np.random.default_rng(0).permutation(len(single))  # of topic_curve: the first fifth is held out
    documents = np.empty(len(single), dtype=object)
    documents[order] = single[::-1]
    with pytest.raises(InvalidInputError, match="too few words"):
        fa.apps.topic_curve(documents.tolist(), (2,))


def test_numbers_of_topics_are_several():
    with pytest.raises(fa.errors.InvalidTypeError, match="numbers must be values of k"):
        fa.apps.topic_curve(fa.datasets.topics(60, 40, 3, rng=0).A, 5)


@pytest.mark.parametrize("kind", ["frame", "numbered frame", "sample matrix", "store"])
def test_words_in_another_order_are_refused(tmp_path, kind):
    """The mixtures of the same documents were wrong by up to 0.99, without an error."""
    pd = pytest.importorskip("pandas")
    counts = fa.datasets.topics(200, 60, 3, rng=0).A.toarray()
    frame = pd.DataFrame(counts) if "numbered" in kind else pd.DataFrame(counts, columns=[f"w{j}" for j in range(60)])
    model = fa.TopicModel(n_topics=3).fit(frame)
    other, given = frame.iloc[:, ::-1], frame
    if kind == "sample matrix":
        given, other = fa.SampleMatrix(frame), fa.SampleMatrix(other)
    if kind == "store":
        given, other = (fa.build(source, tmp_path / name) for source, name in ((given, "a"), (other, "b")))
    np.testing.assert_allclose(model.transform(given), model.transform(counts))
    for method in (model.transform, model.score, model.perplexity):
        with pytest.raises(InvalidInputError, match=r"column 0 is named 'w?59' in the counts and 'w?0' in the model"):
            method(other)
    if kind != "numbered frame":  # numbers of columns are no names
        with pytest.raises(InvalidInputError, match="column 7 is named 'z'"):
            model.transform(frame.rename(columns={"w7": "z"}))
    assert list(model.feature_names_in_) == [str(name) for name in frame.columns]
    assert not hasattr(model.fit(counts), "feature_names_in_")
    model.transform(frame)  # a model without words takes the columns as they are


def test_a_model_is_not_used_with_counts_of_words_in_another_order(tmp_path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(fa.datasets.topics(200, 60, 3, rng=0).A.toarray(), columns=[f"w{j}" for j in range(60)])
    model, other = fa.apps.topics(frame, 3), frame.iloc[:, ::-1]
    for use in (
        lambda counts: fa.apps.pyldavis(model, counts),
        lambda counts: fa.apps.compare_topics(model, counts),
        lambda counts: model.report(tmp_path / "page.html", counts),
    ):
        with pytest.raises(InvalidInputError, match="column 0 is named 'w59'"):
            use(other)
    assert fa.apps.pyldavis(model, frame)["vocab"] == list(frame.columns)


def test_the_vocabulary_of_a_vectoriser_gives_the_column_of_each_word(tmp_path, texts):
    """A mapping was read in the order in which it was filled, so that every word had a wrong name."""
    vectorizer = CountVectorizer()
    counts = vectorizer.fit_transform([*reversed(texts)])
    words = list(vectorizer.get_feature_names_out())
    assert list(vectorizer.vocabulary_) != words
    expected = fa.apps.topics(counts, 3, vocabulary=words).anchor_words
    fa.build(counts, tmp_path / "store")
    for vocabulary in (vectorizer.vocabulary_, dict(enumerate(words)), tuple(words), np.array(words)):
        assert fa.apps.topics(counts, 3, vocabulary=vocabulary).anchor_words == expected
        corpus = fa.apps.read_corpus(tmp_path / "store", vocab=vocabulary, stop_words=None)
        assert corpus.vocabulary == words
    for bad, error in (
        (set(words), InvalidTypeError),
        (vectorizer.vocabulary_.keys(), InvalidTypeError),
        (dict.fromkeys(words, 0), InvalidInputError),
        ({word: at + 1 for at, word in enumerate(words)}, InvalidInputError),
        ({word: word for word in words}, InvalidInputError),
        (words[:-1], InvalidInputError),
    ):
        with pytest.raises(error):
            fa.apps.topics(counts, 3, vocabulary=bad)


@pytest.mark.parametrize("kind", [list, tuple, set, frozenset])
def test_stop_words_can_be_given_as_words(kind):
    corpus = fa.apps.as_corpus(TEXTS, stop_words=kind(["The", "cat"]), min_df=1)
    assert "the" not in corpus.vocabulary
    assert "dogs" in corpus.vocabulary
    with pytest.raises(InvalidTypeError, match="stop words are"):
        fa.apps.as_corpus(TEXTS, stop_words=kind([3]), min_df=1)


@pytest.mark.parametrize("suffix", [".npz", ".mtx", ".mtx.gz"])
@pytest.mark.parametrize("vocab", ["s.vocab", "vocab.txt"])
def test_words_beside_counts_are_found_for_every_format(tmp_path, suffix, vocab):
    """Only beside LDA-C and docword files; docs/topics.md names the others too."""
    corpus = fa.datasets.topics(60, 30, 3, rng=0)
    path = tmp_path / f"s{suffix}"
    if suffix == ".npz":
        sp.save_npz(path, corpus.A)
    else:
        scipy.io.mmwrite(tmp_path / "s.mtx", sp.coo_array(corpus.A))
        if suffix == ".mtx.gz":
            path.write_bytes(gzip.compress((tmp_path / "s.mtx").read_bytes()))
    (tmp_path / vocab).write_text("\n".join(corpus.vocabulary) + "\n")
    read = fa.apps.read_corpus(path, min_df=0, stop_words=None)
    assert read.vocabulary == list(corpus.vocabulary)
    assert read.notes == (f"words from {tmp_path / vocab}",)
    (tmp_path / vocab).write_text("one\ntwo\n")
    with pytest.warns(fa.errors.GuessWarning, match="it is not used"):
        assert fa.apps.read_corpus(path, min_df=0, stop_words=None).vocabulary is None


def _write_counts(kind, corpus, folder):
    """Counts with a stop word and a word of a single document, at a path."""
    counts, words = corpus.A[:, :60].tolil(), ["the", *(f"w{j}" for j in range(1, 60))]
    counts[:, 5] = 0
    counts[3, 5] = 1
    counts = sp.csr_array(counts)
    path = folder / f"counts{kind}"
    if kind == ".npz":
        sp.save_npz(path, counts)
    elif kind == ".store":
        fa.build(counts, path, column_names=words).close()
    else:
        frame = pytest.importorskip("pandas").DataFrame(counts.toarray(), columns=words)
        if kind == ".parquet":
            pytest.importorskip("pyarrow")
            frame.to_parquet(path)
        else:
            frame.to_csv(path, index=False)
    return path


def _write_texts(kind, texts, folder):
    if kind == "folder":
        (folder / "texts").mkdir()
        for number, text in enumerate(texts):
            (folder / "texts" / f"{number:04}.txt").write_text(text)
        return folder / "texts"
    (folder / "texts.txt").write_text("\n".join(texts))
    return folder / "texts.txt"


@pytest.mark.parametrize("kind", [".npz", ".store", ".csv", ".parquet", "folder", "texts.txt", "ngrams", "vectorizer"])
@pytest.mark.parametrize("as_path", [str, lambda path: path], ids=["str", "Path"])
def test_a_path_that_was_fitted_can_be_transformed_scored_and_reported(tmp_path, corpus, texts, kind, as_path):
    """transform, score and report refused what fit had read: texts, and counts of which fit leaves out words."""
    options = {"ngrams": {"ngrams": 2}, "vectorizer": {"vectorizer": CountVectorizer(min_df=2)}}.get(kind, {})
    path = as_path(_write_counts(kind, corpus, tmp_path) if kind[0] == "." else _write_texts(kind, texts, tmp_path))
    model = fa.TopicModel(3, **options)
    own = model.fit_transform(path)
    np.testing.assert_allclose(model.transform(path), own, atol=1e-6)
    assert np.isfinite(model.score(path))
    if kind != "vectorizer":  # a result does not have the vectoriser
        page = model.topics_.report(tmp_path / "page.html", path).read_text(encoding="utf-8")
        assert (texts[0][:20] in page) == (kind[0] != ".")
    if kind[0] != ".":
        np.testing.assert_allclose(model.transform(texts), own, atol=1e-6)
        model.topics_.report(tmp_path / "texts.html", texts)
    if kind == ".store":
        np.testing.assert_allclose(model.transform(fa.open(path)), own, atol=1e-6)


def test_documents_at_a_path_have_the_mixtures_that_encode_writes(tmp_path, corpus, texts):
    pytest.importorskip("click")
    from click.testing import CliRunner

    from fastanchors.cli.encode import encode

    model = fa.TopicModel(3).fit(_write_counts(".npz", corpus, tmp_path))
    fa.apps.save_topics(model.topics_, tmp_path / "model.npz")
    new = tmp_path / "new.npz"
    sp.save_npz(new, corpus.A[:40, :60])
    ran = CliRunner().invoke(encode, [str(new), str(tmp_path / "model.npz"), "-o", str(tmp_path / "w.npy")])
    assert ran.exit_code == 0, ran.output
    np.testing.assert_array_equal(model.transform(new), np.load(tmp_path / "w.npy"))


def test_a_corpus_and_an_address_can_be_fitted_and_transformed(tmp_path, corpus):
    read = fa.apps.read_corpus(_write_counts(".store", corpus, tmp_path))
    model = fa.TopicModel(3)
    np.testing.assert_allclose(model.fit_transform(read), model.transform(read), atol=1e-6)
    model.topics_.report(tmp_path / "page.html", read)
    pytest.importorskip("fsspec")
    address = f"memory://topics-{tmp_path.name}/a.store"
    fa.build(read.counts, address, column_names=read.vocabulary).close()
    np.testing.assert_allclose(fa.TopicModel(3).fit_transform(address), model.transform(address), atol=1e-6)


def test_a_fit_that_fails_leaves_the_model_as_it_was(texts, corpus):
    """The next transform counted words with the vectoriser of the failed fit, also words that the model has not."""
    model = fa.TopicModel(n_topics=4, vectorizer=CountVectorizer()).fit(texts)
    expected = model.transform(texts[:9])
    model.n_topics = 500
    with pytest.raises(fa.errors.RankError):
        model.fit([f"{text} further{at % 9}" for at, text in enumerate(texts[:20])])
    np.testing.assert_array_equal(model.transform(texts[:9]), expected)
    with pytest.raises(fa.errors.RankError):
        model.fit(corpus.A[:9])
    np.testing.assert_array_equal(model.transform(texts[:9]), expected)
    model.vectorizer_.fit(texts[:30])
    with pytest.raises(InvalidInputError, match="vectoriser has other words than the model"):
        model.transform(texts[:9])


def test_the_score_of_weights_is_refused(corpus):
    """They were cut to whole numbers."""
    model = fa.TopicModel(n_topics=4).fit(corpus.A)
    with pytest.raises(InvalidInputError, match="whole numbers"):
        model.score(corpus.A * 0.5)


def test_options_of_a_corpus_that_was_read_are_refused(texts):
    """They were ignored."""
    read = fa.apps.as_corpus(texts)
    with pytest.raises(InvalidTypeError, match="'min_df' is an option of read_corpus, and this corpus has been read"):
        fa.apps.topics(read, 4, min_df=50)


def test_words_with_marks_of_their_own_are_the_same_words():
    """They ended at the mark, so that half words were counted."""
    assert Tokenizer()("Äpfel größer Äpfel") == ["äpfel", "größer", "äpfel"]
    assert Tokenizer()("A\u0308pfel gro\u0308ßer") == ["äpfel", "größer"]


def test_files_that_come_between_the_old_ones_do_not_take_their_mixtures(tmp_path, texts):
    """The first documents of the folder were taken for those of the earlier model, although others had come between."""
    for at, text in enumerate(texts):
        (tmp_path / f"{at:03d}b.txt").write_text(text)
    before = fa.apps.topics(tmp_path, 4)
    for at, text in enumerate(texts[::-1][:3]):
        (tmp_path / f"{at:03d}a.txt").write_text(text)
    after = fa.apps.topics(tmp_path, 4, since=before)
    expected = mixtures(fa.apps.read_corpus(tmp_path).counts, after.topics, after.share)
    np.testing.assert_allclose(after.mixtures, expected, atol=0.1)


def test_a_model_fitted_to_counts_does_not_keep_the_vectoriser_of_an_earlier_fit(texts, corpus):
    model = fa.TopicModel(3, vectorizer=CountVectorizer(min_df=2)).fit(texts)
    model.fit(corpus.A)
    with pytest.raises(InvalidInputError, match="the model has no vocabulary"):
        model.transform(texts)


def test_vocab_is_another_name_of_vocabulary(tmp_path, corpus):
    """A bare TypeError of an internal function said that vocab has multiple values."""
    path, words = tmp_path / "counts.npz", tmp_path / "words.txt"
    sp.save_npz(path, corpus.A)
    words.write_text("\n".join(corpus.vocabulary))
    model = fa.apps.topics(path, 3, vocab=words)
    assert set(model.vocabulary) <= set(corpus.vocabulary)
    calls = (
        lambda **options: fa.apps.topics(path, 3, **options).anchor_words,
        lambda **options: fa.apps.topics(corpus.A, 3, **options).anchor_words,
        lambda **options: fa.apps.as_corpus(path, **options).vocabulary,
        lambda **options: fa.apps.topic_curve(path, (2, 3), **options),
        lambda **options: fa.apps.pyldavis(model, path, **options)["vocab"],
    )
    for call in calls:
        for given in (words, str(words), corpus.vocabulary):
            assert call(vocab=given) == call(vocabulary=given)
        with pytest.raises(InvalidTypeError, match="pass vocabulary=… only"):
            call(vocab=words, vocabulary=words)


def test_unknown_options_of_a_corpus_are_refused(tmp_path, corpus, texts):
    path = tmp_path / "counts.npz"
    sp.save_npz(path, corpus.A)
    for source in (path, texts, corpus.A):
        with pytest.raises(InvalidTypeError, match="has no option 'ngram'; did you mean 'ngrams'"):
            fa.apps.topics(source, 3, ngram=2)
    with pytest.raises(InvalidTypeError, match="texts in memory have no option 'encoding'"):
        fa.apps.topics(texts, 3, encoding="latin-1")


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"min_df": 0.5}, InvalidTypeError, "min_df is a number of documents"),
        ({"min_df": -3}, InvalidInputError, "min_df must be at least 0"),
        ({"min_df": "2"}, InvalidTypeError, "min_df must be an integer"),
        ({"min_df": True}, InvalidTypeError, "min_df must be an integer"),
        ({"max_df": 2}, InvalidInputError, "max_df is a fraction of the documents"),
        ({"max_df": -1}, InvalidInputError, "max_df must be a finite number between 0 and 1"),
        ({"max_df": np.nan}, InvalidInputError, "max_df must be a finite number"),
        ({"max_df": None}, InvalidTypeError, "max_df must be a real number"),
        ({"max_df": True}, InvalidTypeError, "max_df must be a real number"),
        ({"ngrams": 9}, InvalidInputError, "ngrams must be at most 5"),
        ({"html": "no"}, InvalidTypeError, "html must be True or False"),
    ],
)
def test_options_of_words_are_checked(tmp_path, options, error, match):
    """Counts and fractions as in scikit-learn were accepted, and had no effect."""
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    counts = np.ones((4, 3), int)
    np.save(tmp_path / "counts.npy", counts)
    for call in (
        lambda: fa.apps.as_corpus(TEXTS, **options),
        lambda: fa.apps.read_corpus(tmp_path / "texts.txt", **options),
        lambda: fa.apps.read_corpus(tmp_path / "counts.npy", **options),
        lambda: fa.apps.topics(TEXTS, 2, **options),
        lambda: fa.TopicModel(2, **options).fit(TEXTS),
        lambda: fa.TopicModel(2, **options).fit(counts),
    ):
        with pytest.raises(error, match=match):
            call()
