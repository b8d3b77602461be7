"""The report: every section exists, nothing is loaded or escapes its element, and the figures are right."""

from __future__ import annotations

import base64
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls

import fastanchors as fa
from fastanchors import report
from fastanchors._text import clean, count, percent
from fastanchors.errors import InvalidInputError
from fastanchors.report import svg
from fastanchors.report.facts import curve_of, gather

VOID = {"meta", "link", "input"}
SECTIONS = ["explore", "anchors", "shares", "simplex", "rank", "held-back", "cost"]


class Page(HTMLParser):
    """Elements of a page with their attributes, and its text outside of style."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.open, self.words = [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        assert len(dict(attributes)) == len(attributes), f"an attribute of {tag} is given twice"
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


def check(path):
    """Properties of every report."""
    text = path.read_text(encoding="utf-8")
    assert len(text.encode()) < 3_000_000
    page = Page(text)
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert page.all("script") == [{"type": "application/json", "id": "data"}, {}]  # data and one script, in place
    assert {"iframe", "object", "embed", "img", "base"} & {tag for tag, _ in page.elements} == set()
    for _, attributes in page.elements:
        assert not any(name.startswith("on") for name in attributes)
        for name in ("src", "href", "xlink:href", "action"):
            assert attributes.get(name, "#").startswith(("#", "data:,"))
        for name in ("aria-labelledby", "aria-describedby"):
            assert set(attributes.get(name, "").split()) <= set(ids)
    assert not re.search(r"url\(|@import|https?:", text)
    assert [a["id"] for a in page.all("section")] == SECTIONS
    assert [tag for tag, _ in page.elements if tag == "h1"] == ["h1"]
    assert len(page.all("h2")) == len(SECTIONS)
    assert len(page.all("caption")) == len(page.all("table"))
    assert all("scope" in a for a in page.all("th"))
    pictures = [a for a in page.all("svg") if a.get("aria-hidden") != "true"]
    assert all(a["role"] == "img" and len(a["aria-labelledby"].split()) == 2 for a in pictures)
    assert page.all("html") == [{"lang": "en"}]
    assert not re.search(r'="[^"]*\b(nan|inf)\b', text)  # numbers in drawings
    return page


def planted(m=300, n=40, k=4, noise=0.01, seed=0):
    A = fa.datasets.separable(m, n, k, noise=noise, rng=seed).A
    return A / A.sum(axis=1, keepdims=True)


def test_the_page_has_every_section(tmp_path):
    A = planted()
    names = [f"row number {i}" for i in range(300)]
    words = [f"word{j}" for j in range(40)]
    anchors = fa.FAS(selection="spa").seek(A, 4, rng=0)
    path = report.write(
        tmp_path / "r.html", A, anchors, title="My data", row_names=names, column_names=words, kind="features", seed=1
    )
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]
    page = check(path)
    for index in anchors.indices:
        assert f"row number {index}" in page.text
    heaviest = A[anchors.indices[0]].argmax()
    assert f"word{heaviest}" in page.text
    assert "Proved." in page.text
    assert "full SPA" in page.text
    assert "1,500" in page.text  # rows that full SPA reads: (k + 1)·m
    assert "60 rows were held back" in page.text
    circles = [a for a in page.all("circle") if a.get("class") in ("p", "q")]
    assert len(circles) == 300
    assert "k = 4" in page.text
    titles = len(page.all("title"))
    assert titles >= len(circles) + 4  # a name on every row and every anchor


def test_the_same_seed_gives_the_same_page(tmp_path):
    A = planted()
    anchors = fa.SPA().seek(A, 4)
    one = report.write(tmp_path / "1.html", A, anchors, seed=3).read_text()
    assert one == report.write(tmp_path / "2.html", A, anchors, seed=3).read_text()


@pytest.mark.parametrize("k", [1, 2, 3, 16])
def test_any_number_of_anchors(tmp_path, k):
    A = planted(k=max(k, 2), seed=k)
    page = check(report.write(tmp_path / "r.html", A, fa.SPA().seek(A, k), seed=0))
    assert len([a for a in page.all("g") if a.get("class") == "corner"]) == k
    assert f"{k} anchor{'' if k == 1 else 's'}" in page.text


def test_names_cannot_break_out(tmp_path):
    A = planted(m=60)
    evil = '</title><script>alert(1)</script>"\' onmouseover="x" \x00\x1b[31m\ud800\u202e &amp; '
    anchors = fa.SPA().seek(A, 4)
    path = report.write(
        tmp_path / "r.html",
        A,
        anchors,
        title=evil,
        row_names=[evil + str(i) for i in range(60)],
        column_names=[evil + str(j) for j in range(40)],
        seed=0,
    )
    page = check(path)
    assert "<script>alert(1)</script>" in page.text  # as text, and nowhere as an element (checked above)
    for bad in ("\x00", "\x1b", "\u202e"):
        assert bad not in path.read_text(encoding="utf-8")


def test_long_names_keep_the_page_small(tmp_path):
    A = planted(m=700)
    anchors = fa.SPA().seek(A, 4)
    check(report.write(tmp_path / "r.html", A, anchors, row_names=["x" * 5000 + str(i) for i in range(700)], seed=0))


def test_spectra_are_drawn_as_lines(tmp_path):
    bands = np.linspace(0, 1, 120)
    spectra = np.array([np.exp(-((bands - c) ** 2) / 0.02) + 0.1 for c in (0.2, 0.5, 0.8)])
    A = np.random.default_rng(0).dirichlet(np.full(3, 0.3), 200) @ spectra
    anchors = fa.SPA().seek(A, 3)
    page = check(report.write(tmp_path / "r.html", A, anchors, seed=0))
    assert "Spectrum of" in page.text
    assert len(page.all("use")) == 3
    named = report.write(tmp_path / "n.html", A, anchors, column_names=[f"{400 + j}" for j in range(120)], seed=0)
    assert "519" in check(named).text
    words = report.write(tmp_path / "w.html", A, anchors, column_names=[f"w{j}" for j in range(120)], seed=0)
    assert "Spectrum of" not in check(words).text
    assert "Spectrum of" not in check(report.write(tmp_path / "f.html", A, anchors, kind="features", seed=0)).text


@pytest.mark.parametrize("make", [sp.csr_array, np.float32, fa.SampleMatrix], ids=["sparse", "float32", "sample"])
def test_any_kind_of_matrix(tmp_path, make):
    A = planted(m=120)
    A[A < 0.01] = 0.0
    A[7] = 0.0
    A = make(A)
    check(report.write(tmp_path / "r.html", A, fa.FAS(selection="spa").seek(A, 3, rng=0), seed=0))


def test_a_large_store_is_reported_from_samples(tmp_path):
    A = planted(m=5000, n=20, k=3)
    with fa.build(A, tmp_path / "s", row_names=[f"n{i}" for i in range(5000)]) as S:
        facts = gather(S, fa.FAS(selection="spa").seek(S, 3, rng=0), title="s", seed=0)
        whole = report.anchor_shares(A, facts.components, rows=10_000)
    assert facts.shares.sampled
    assert not whole.sampled
    # 2000 draws: the standard error is below 0.5/√2000 = 0.011; five of them, three anchors: false alarms below 1e-5
    np.testing.assert_allclose(facts.shares.shares, whole.shares, atol=0.056)
    assert facts.curve.rows <= 2003
    assert len(facts.picture.names) == 600
    assert facts.named
    assert "about" in report.page(facts)


def test_few_rows(tmp_path):
    A = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    page = check(report.write(tmp_path / "r.html", A, fa.SPA().seek(A, 2), seed=0))
    assert "too few rows" in page.text


def test_averaged_anchors_are_shown_as_averages():
    rng = np.random.default_rng(0)
    A = np.repeat(np.eye(4), 30, axis=0) + 0.01 * rng.random((120, 4))
    anchors = fa.SPA(robust="average").seek(A, 3)
    facts = gather(A, anchors, title="t", seed=0, solver=fa.SPA(robust="average"))
    np.testing.assert_array_equal(facts.components, anchors.points)
    assert "Not proved." in report.page(facts)


def test_shares_split_the_squared_norm():
    A = planted(m=50, n=12, k=4, noise=0.3)
    C = A[[3, 11, 20]]
    found = report.anchor_shares(A, C)
    total = np.sum(A**2)
    left, parts = 0.0, np.zeros(3)
    for row in A:
        f, norm = nnls(C.T, row)
        parts += f * (C @ row)
        left += norm**2
    np.testing.assert_allclose(found.shares, parts / total, rtol=1e-8)
    assert found.unexplained == pytest.approx(left / total, rel=1e-8)
    assert found.shares.sum() + found.unexplained == pytest.approx(1.0)
    assert found.error == pytest.approx(np.sqrt(left / total))


def test_held_back_rows_are_not_used_in_the_search():
    A = planted(m=100, n=12, k=3, noise=0.0)
    facts = gather(A, fa.SPA().seek(A, 3), title="t", seed=0)
    held = facts.held_back
    assert (len(held.explained), held.kept, held.k) == (20, 80, 3)
    assert 0 < held.total <= 1 + 1e-12
    assert held.total == pytest.approx(held.total_kept)  # all rows are mixtures
    A = np.vstack([np.eye(12)[:10], np.full((40, 12), 1 / 12)])  # whichever anchor is held back, no other is like it
    facts = gather(A, fa.SPA().seek(A, 10), title="t", seed=1)
    lost = 10 - facts.held_back.same
    assert lost > 0
    assert np.count_nonzero(facts.held_back.explained < 0.999) >= lost


def test_invalid_arguments():
    A = planted(m=30)
    anchors = fa.SPA().seek(A, 3)
    with pytest.raises(fa.errors.InvalidInputError, match="kind must be"):
        gather(A, anchors, title="t", kind="pictures")
    with pytest.raises(fa.errors.InvalidInputError, match="out of range"):
        gather(A[: anchors.indices.max()], anchors, title="t")


def test_a_curve_is_restored_from_json():
    curve = fa.rank_curve(planted(), 8, rng=0)
    again = curve_of(curve.as_dict())
    assert str(again) == str(curve)


def test_formatted_numbers():
    shown = [percent(x).replace("\N{NO-BREAK SPACE}", " ") for x in (0, 1e-6, 0.004, 0.042, 0.73, 0.9961, 0.999999, 1)]
    assert shown == ["0 %", "< 0.01 %", "0.40 %", "4.2 %", "73 %", "99.6 %", "> 99.99 %", "100 %"]
    assert [count(x) for x in (5, 12345, 2_500_000, 3e9)] == ["5", "12,345", "2.5 million", "3 billion"]
    assert clean("a\n b\x1b[0m\ud800" + "c" * 300, 12) == "a b[0m?cccc…"


@pytest.mark.parametrize("values", [[1.0], [5, 5, 5], [1, 1e-3, 0.0], [0.08, 0.036], [3e4, 2.0, 1e-9], [0.999, 0.101]])
@pytest.mark.parametrize("log", [True, False])
def test_curves_stay_inside(values, log):
    drawn = svg.curve("c", "t", "d", list(range(1, len(values) + 1)), values, 1, log=log)
    for x, y in re.findall(r'cx="([^"]+)" cy="([^"]+)"', drawn):
        assert 0 <= float(x) <= svg.WIDTH
        assert 0 <= float(y) <= 230
    assert len(re.findall('class="grid"', drawn)) >= 2


@pytest.mark.parametrize(("least", "label"), [(0.2, ">0 %<"), (0.93, ">90 %<"), (0.995, ">99 %<")])
def test_the_histogram_s_scale_starts_where_the_values_need_it(least, label):
    values = np.linspace(least, 1.0, 50)
    drawn = svg.histogram("h", "t", "d", values)
    assert label in drawn
    assert sum(int(number) for number in re.findall(r"(\d+) rows:", drawn)) == 50


@pytest.mark.parametrize(
    ("index", "said", "unsaid"),
    [
        ("none: the matrix is small", "This was full SPA too", "fewer rows were read"),
        ("kept with the matrix", "is not counted", "This was full SPA too"),
        ("one pass over the rows", "fewer rows were read", "is not counted"),
    ],
)
def test_the_cost_is_compared_fairly(tmp_path, index, said, unsaid):
    A = planted(m=60)
    found = fa.SPA().seek(A, 3)
    certificate = fa.Certificate("exact", "proved", {"index": index})
    anchors = fa.Anchors(found.indices, "fas", fa.Cost(rows_read=70), 0.1, certificate)
    text = check(report.write(tmp_path / "r.html", A, anchors, seed=0)).text
    assert said in text
    assert unsaid not in text


def test_fit_and_certificate_are_reported_separately(tmp_path):
    rng = np.random.default_rng(0)
    A = rng.dirichlet(np.full(500, 0.02), 100)  # rows that are no mixtures of a few others
    poor = check(report.write(tmp_path / "poor.html", A, fa.FAS(selection="spa").seek(A, 3, rng=0), seed=0)).text
    assert "Proved." in poor
    assert "Poorly." in poor
    assert poor.index("Poorly.") < poor.index("Proved.")
    assert "a few stand for the rest" not in poor
    assert "The anchors themselves are" in poor
    A = planted()
    good = check(report.write(tmp_path / "good.html", A, fa.FAS(selection="spa").seek(A, 4, rng=0), seed=0)).text
    assert "Yes. All 4 anchors would be found again near the same place." in good
    one = check(report.write(tmp_path / "one.html", A, fa.FAS(selection="spa").seek(A, 1, rng=0), seed=0)).text
    assert re.search(r"(Yes\. It would|No\. It would not) be found again near the same place\.", one)
    assert "Well." in good
    assert "Poorly." not in good


def test_the_explained_share_is_the_same_everywhere():
    """The share explained of rows that are not anchors is the same figure everywhere."""
    rng = np.random.default_rng(1)
    A = rng.gamma(0.3, size=(200, 30)) * rng.gamma(2.0, size=(200, 1))  # lengths differ: means over rows would not do
    anchors = fa.SPA().seek(A, 6)
    facts = gather(A, anchors, title="t", seed=0)
    rest = np.setdiff1d(np.arange(200), anchors.indices)
    F = fa.encode(A[rest], A[anchors.indices])
    direct = 1 - np.linalg.norm(A[rest] - F @ A[anchors.indices]) ** 2 / np.linalg.norm(A[rest]) ** 2
    overall = facts.own + (1 - facts.own) * direct
    assert 1 - facts.shares.unexplained == pytest.approx(overall, rel=1e-6)
    held = facts.held_back
    both = (held.total * len(held.explained) + held.total_kept * (held.kept - 6)) / 194
    assert both == pytest.approx(direct, abs=0.05)  # a second search, and rows of unlike lengths


def test_words_are_called_words(tmp_path):
    rng = np.random.default_rng(0)
    letters = "abcdefghij"
    words = [f"w{a}{b}{c}" for a in letters for b in letters for c in letters]
    A = sp.random_array((80, 1000), density=0.05, format="csr", rng=rng)
    anchors = fa.SPA().seek(A, 3)
    page = check(report.write(tmp_path / "r.html", A, anchors, column_names=words, seed=0))
    assert "Heaviest words" in page.text
    genes = [f"GENE{j}" for j in range(1000)]
    page = check(report.write(tmp_path / "r.html", A, anchors, column_names=genes, seed=0))
    assert "Heaviest columns" in page.text
    page = check(report.write(tmp_path / "r.html", A, anchors, column_names=genes, kind="words", seed=0))
    assert "Heaviest words" in page.text


def corner_names(page):
    return [a for a in page.all("text") if a.get("class") == "name"]


def test_names_of_corners_are_whole_where_there_is_room(tmp_path):
    A = planted(k=4)
    names = [f"case number {i}" for i in range(300)]
    anchors = fa.FAS(selection="spa").seek(A, 4, rng=0)
    path = report.write(tmp_path / "r.html", A, anchors, row_names=names, kind="features", seed=0)
    drawn = re.findall(r'<text [^>]*class="name">([^<]*)<', path.read_text())
    assert sorted(drawn) == sorted(names[i] for i in anchors.indices)
    A = planted(k=12)
    anchors = fa.FAS(selection="spa").seek(A, 12, rng=0)
    page = check(report.write(tmp_path / "r.html", A, anchors, row_names=names, kind="features", seed=0))
    assert corner_names(page) == []
    assert [a for a in page.all("ol") if a.get("class") == "legend"] != []


def test_a_name_that_is_only_the_row_number_is_shown_as_row_number(tmp_path):
    A = planted(m=50)
    anchors = fa.SPA().seek(A, 3)
    facts = gather(A, anchors, title="t", row_names=[str(i) for i in range(50)], seed=0)
    assert facts.names == [f"row {i}" for i in anchors.indices]


@pytest.mark.parametrize("unit", [1e160, 1e-170])
def test_data_whose_squares_overflow_or_vanish_are_one_error(tmp_path, unit):
    A = fa.datasets.separable(20, 6, 3, rng=0).A
    with pytest.raises(InvalidInputError, match="divide A by its largest entry"):
        fa.SPA().seek(A, 2).report(tmp_path / "r.html", A * unit)
    assert not list(tmp_path.iterdir())


def test_shares_of_the_result_of_a_solver():
    A = fa.datasets.separable(20, 6, 3, rng=0).A
    found = fa.SPA().seek(A, 2)
    np.testing.assert_array_equal(
        fa.report.anchor_shares(A, found).shares, fa.report.anchor_shares(A, A[found.indices]).shares
    )


def test_rows_in_another_order_are_refused_for_points_too(tmp_path):
    """The page had the names of other rows: points were not compared with rows."""
    frame = pd.DataFrame(fa.datasets.separable(30, 6, 3, noise=0.05, rng=0).A, index=[f"r{i}" for i in range(30)])
    found = fa.FAS().seek(frame, 3, rng=0)
    assert found.points is not None
    with pytest.raises(InvalidInputError, match="these are other data"):
        found.report(tmp_path / "r.html", frame[::-1])


@pytest.mark.parametrize("kind", ["features", "scene"])
def test_leads_are_counted_as_the_page_says(tmp_path, kind):
    """The page spoke of the largest weight and counted the largest weight times the sum of the anchor."""
    mixed = np.random.default_rng(0).dirichlet([1, 2], 400)
    mixed[0], mixed[1] = (1, 0), (0, 1)
    A = mixed @ np.array([[100.0, 1, 2], [1, 5, 1]])
    anchors = fa.SPA().seek(A, 2)
    image = {"image": (20, 20)} if kind == "scene" else {}
    page = Page(anchors.report(tmp_path / "page.html", A, kind=kind, **image).read_text(encoding="utf-8"))
    sizes = np.ones(2) if kind == "scene" else A[anchors.indices].sum(axis=1)
    shares = np.array([nnls(A[anchors.indices].T, row)[0] for row in A]) * sizes
    named = "weight" if kind == "scene" else "share, its weight times its sum"
    said = f"“Leads” is the percentage of rows, of 400 drawn evenly, in which the anchor has the largest {named}."
    assert said in page.text
    shown = re.findall(r"[\d.]+ % ([\d.]+ %)", page.text.partition(said)[2])
    leads = np.bincount(shares.argmax(axis=1), minlength=2) / 400
    assert shown[:2] == [percent(float(lead)).replace("\xa0", " ") for lead in leads]


def test_rows_far_longer_than_every_anchor_are_numbers_in_the_page():
    rows = np.array([[1e150, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    given = replace(fa.SPA().seek(rows[1:], 2), indices=np.array([1, 2]), solver="given")
    facts = gather(rows, given, title="a")
    for name, kind in (("squares", "<f8"), ("coordinates", "<f4")):
        assert np.isfinite(np.frombuffer(base64.b64decode(facts.explorer["rows"][name]), kind)).all()


def test_a_page_with_lone_surrogates_is_written(tmp_path):
    anchors = fa.SPA().seek(planted(), 3)
    anchors = replace(anchors, certificate=replace(anchors.certificate, statement="a \ud800 b"))
    assert "A ? b" in report.write(tmp_path / "a.html", planted(), anchors).read_text(encoding="utf-8")
