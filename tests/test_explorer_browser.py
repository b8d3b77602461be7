"""The explorer in Chromium: slider, picking, renaming, comparing, disabling anchors, search, keys; its figures."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import nnls

import fastanchors as fa
from browser import CHROMIUM, Browser
from fastanchors import report
from fastanchors._text import percent
from fastanchors.report.script import inlined

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and os.environ.get("CI") != "true", reason="no Chromium on PATH (Debian: apt install chromium)"
)
HEBREW, EVIL = "\u05e9\u05dc\u05d5\u05dd", "</script><img src=x onerror=alert(1)>\u202egnp.exe\nsecond line"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        browser.size(1000, 800)
        yield browser


@pytest.fixture
def no_problems(browser):
    browser.problems.clear()
    browser.requests.clear()
    yield
    assert browser.problems == []
    assert all(address.startswith("file:") or address == "about:blank" for address in browser.requests)


def load(browser, modules, *names):
    """Make functions of the page's modules available to the test."""
    body = inlined(modules).removesuffix("})();\n")
    browser.ask(f"{body}Object.assign(globalThis, ...Object.values(modules));}})();")
    assert browser.ask(f"[{', '.join(names)}].every(each => each)")


def table(tmp_path_factory, name="table", **options):
    data = fa.datasets.separable(200, 30, 5, noise=0.05, rng=3)
    A = data.A / data.A.sum(axis=1, keepdims=True)
    names = [f"case {i}" for i in range(200)]
    anchors = fa.SPA().seek(A, 5)
    for place, text in zip(anchors.indices, (EVIL, HEBREW, "plain")):
        names[place] = text
    path = tmp_path_factory.mktemp(name) / "r.html"
    report.write(path, A, anchors, row_names=names, kind="features", seed=0, **options)
    return A, anchors, names, path.as_uri()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return table(tmp_path_factory)


def click(browser, selector, at=0):
    pressed = "dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))"
    browser.ask(f"document.querySelectorAll({json.dumps(selector)})[{at}].{pressed}")


def text(browser, selector):
    return browser.ask(f"document.querySelector({json.dumps(selector)}).textContent")


def slide(browser, selector, value):
    browser.ask(
        f"(() => {{const e = document.querySelector({json.dumps(selector)}); e.value = {value}; "
        "e.dispatchEvent(new Event('input'))})()"
    )


def key(browser, name):
    for kind in ("keyDown", "keyUp"):
        letter = {"text": name} if len(name) == 1 else {"text": "\r"} if name == "Enter" else {}
        code = {"ArrowLeft": 37, "ArrowRight": 39, "Enter": 13, "Escape": 27, "Tab": 9}.get(name, 0)
        browser.call("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code, **letter)


def test_least_squares_are_those_of_scipy(browser, no_problems):
    load(browser, ("nnls",), "nnls")
    rng = np.random.default_rng(0)
    for n, k in [(8, 1), (8, 3), (30, 12), (60, 40), (5, 9)]:
        C = rng.random((k, n))
        for b in (rng.random(n), rng.standard_normal(n), -rng.random(n), np.zeros(n)):
            G, products = (C @ C.T).tolist(), (C @ b).tolist()
            f = np.array(browser.ask(f"[...nnls({json.dumps(G)}, {json.dumps(products)})]"))
            assert (f >= 0).all()
            # More anchors than columns: the weights are not unique, the distance is.
            assert np.linalg.norm(b - f @ C) == pytest.approx(nnls(C.T, b)[1], rel=1e-5, abs=1e-6)
            if k <= n:
                np.testing.assert_allclose(f, nnls(C.T, b)[0], atol=1e-6)


def test_numbers_are_written_as_in_the_rest_of_the_page(browser, no_problems):
    load(browser, ("dom",), "percent")
    for share in (0, 1e-6, 0.004, 0.042, 0.73, 0.9961, 0.99996, 0.999999, 1):
        assert browser.ask(f"percent({share})") == percent(share)


def test_relevance_is_that_of_the_library(browser, no_problems):
    from fastanchors.apps._topic_words import RARE, relevant_words

    rng = np.random.default_rng(1)
    laws, overall = rng.dirichlet(np.full(30, 0.3), 4), rng.dirichlet(np.ones(30))
    load(browser, ("dom", "words"), "relevantWords")
    data = {
        "features": [[[j, p] for j, p in enumerate(law)] for law in laws.tolist()],
        "overall": dict(enumerate(overall.tolist())),
        "rare": RARE / 500,
    }
    for relevance in (0.0, 0.35, 1.0):
        for j, expected in enumerate(relevant_words(laws, overall, 500, 6, relevance)):
            found = browser.ask(f"relevantWords({json.dumps(data)}, {j}, {relevance}, 6).map(word => word[0])")
            assert found == expected.tolist()


def test_the_slider_shows_every_number_of_anchors(browser, page, no_problems):
    A, anchors, _, address = page
    browser.open(address)
    for k in (1, 3, 5):
        slide(browser, "#k", k - 1)
        assert text(browser, "#k-shown") == str(k)
        assert browser.ask("document.querySelectorAll('#cards > li').length") == k
        left = report.anchor_shares(A, A[anchors.indices[:k]]).unexplained
        assert percent(left) in text(browser, "#summary")
    click(browser, "#curve circle", 1)
    assert text(browser, "#k-shown") == "2"
    assert browser.ask("document.querySelector('#k').value") == "1"


def test_turning_off_computes_the_shares_again(browser, page, no_problems):
    A, anchors, _, address = page
    browser.open(address)
    click(browser, "[data-key^=off-]", 1)
    found = report.anchor_shares(A, A[np.delete(anchors.indices, 1)])
    assert f"4 of 5 anchors explain {percent(1 - found.unexplained)}" in text(browser, "#summary")
    cards = browser.ask("[...document.querySelectorAll('#cards .share')].map(each => each.textContent)")
    assert cards[1].endswith("turned off")
    for card, share in zip(np.delete(cards, 1), found.shares):
        assert percent(share) in card
    click(browser, "[data-key^=off-]", 1)
    assert "5 anchors" in text(browser, "#summary")
    for at in range(5):
        click(browser, "[data-key^=off-]", at)
    assert "1 of 5 anchors explains" in text(browser, "#summary")  # the last one stays on


def test_picking_links_anchors_and_rows(browser, page, no_problems):
    _, anchors, names, address = page
    browser.open(address)
    click(browser, "button.pick", 3)
    assert browser.ask("document.querySelectorAll('#cards > li.picked').length") == 1
    assert text(browser, "#typical h4") == f"Rows that show {names[anchors[3]]}"
    click(browser, "#typical button")
    assert text(browser, "#row h4") == names[anchors[3]]  # the anchor has the largest share of itself
    assert "100 %" in text(browser, "#row .mixture li").replace("\N{NO-BREAK SPACE}", " ")
    slide(browser, "#k", 4)
    assert browser.ask("document.querySelectorAll('#cards > li.picked').length") == 1
    slide(browser, "#k", 1)
    assert browser.ask("document.querySelectorAll('#cards > li.picked').length") == 0  # not among the first two


def test_the_mixture_of_a_row_is_that_of_encode(browser, page, no_problems):
    A, anchors, _, address = page
    browser.open(address)
    slide(browser, "#find", "'case 77'")
    click(browser, "#found button")
    shown = browser.ask("[...document.querySelectorAll('#row .mixture .n')].map(each => each.textContent)")
    weights = fa.encode(A[[77]], A[anchors.indices])[0]
    expected = np.sort(weights / weights.sum())[::-1]
    assert shown == [percent(share) for share in expected if share > 0.005]


def test_rows_that_fit_worst(browser, page, no_problems):
    A, anchors, names, address = page
    browser.open(address)
    rows = browser.ask("[...document.querySelectorAll('#worst tbody th')].map(each => each.textContent)")
    C = A[anchors.indices]
    left = np.linalg.norm(A - fa.encode(A, C) @ C, axis=1) ** 2 / np.linalg.norm(A, axis=1) ** 2
    assert rows == [names[i] for i in np.argsort(-left)[:10]]


def test_search_by_name_and_number(browser, page, no_problems):
    browser.open(page[3])
    slide(browser, "#find", "'CASE 12'")
    assert browser.ask("document.querySelectorAll('#found button').length") == 10
    slide(browser, "#find", "'9'")
    assert text(browser, "#found p").endswith(" rows; the first 10 are:")
    assert text(browser, "#found button") == "case 9"  # by its number, before case 19
    slide(browser, "#find", "'no such row'")
    assert "No row of this name" in text(browser, "#found")
    assert text(browser, "#find-note") == ""  # all rows are in the page
    slide(browser, "#find", json.dumps(HEBREW))
    browser.ask("document.querySelector('#find').focus()")
    key(browser, "Enter")
    assert text(browser, "#row h4") == HEBREW


def test_a_page_of_many_rows_says_what_it_finds(browser, tmp_path, no_problems):
    A = np.random.default_rng(0).dirichlet(np.ones(3), 4000) @ np.eye(5)[:3]
    anchors = fa.SPA().seek(A, 3)
    browser.open(report.write(tmp_path / "r.html", A, anchors, kind="features", seed=0).as_uri())
    assert "kept in this page, out of 4,000" in text(browser, "#find-note")
    assert "out of 4,000; among them are the worst of all for 3 anchors" in text(browser, "#worst caption")
    for row in anchors:  # the anchors are always among them
        slide(browser, "#find", f"'{row}'")
        assert text(browser, "#found button") == f"row {row:,}"


def test_pointing_at_a_row_names_it(browser, page, no_problems):
    browser.open(page[3])
    browser.ask("document.querySelector('#plot').scrollIntoView({block: 'center'})")
    place = "(({x, y, width}) => [x + width / 2, y + width / 2])(document.querySelectorAll('#plot circle.p')[7]"
    x, y = browser.ask(f"{place}.getBoundingClientRect())")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert "explained" in text(browser, ".tip")
    assert browser.ask("document.querySelector('.tip').checkVisibility()")
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=2, y=2)
    assert not browser.ask("document.querySelector('.tip').checkVisibility()")


def test_every_k_shows_the_stability_of_its_anchors(browser, page, no_problems):
    browser.open(page[3])
    for k in range(5):
        slide(browser, "#k", k)
        said = "of 1; the largest move is" if k == 0 else f"of {k + 1} anchors are firm, the largest move is"
        assert said in text(browser, "#sure")
        assert (
            browser.ask("document.querySelectorAll('#cards .verdict .firm, .verdict .loose, .verdict .noise').length")
            == k + 1
        )
    assert browser.ask("document.querySelectorAll('#curve .dot').length") == 5


def test_very_large_values_are_drawn(browser, tmp_path, no_problems):
    A = 1e30 * fa.datasets.separable(80, 6, 3, noise=0.01, rng=0).A
    browser.open(report.write(tmp_path / "r.html", A, fa.SPA().seek(A, 3), kind="features", seed=0).as_uri())
    click(browser, "#worst button")
    assert "NaN" not in browser.ask("document.body.innerText")
    assert browser.ask("document.querySelectorAll('#row li').length") >= 1


def test_renaming_holds_for_every_k_and_everywhere(browser, page, no_problems):
    browser.open(page[3])
    click(browser, "[data-key^=rename-]", 2)
    browser.ask("new Promise(requestAnimationFrame).then(() => 1)")
    browser.ask("document.querySelector('.rename input').value = '<b>grain</b>'")
    click(browser, ".rename button")
    assert browser.ask("[...document.querySelectorAll('#cards h3 bdi')][2].textContent") == "<b>grain</b>"
    assert browser.ask("document.querySelectorAll('#explore b').length") == 0
    slide(browser, "#k", 2)
    assert browser.ask("[...document.querySelectorAll('#cards h3 bdi')][2].textContent") == "<b>grain</b>"
    assert "<b>grain</b>" in text(browser, "#plot")


def test_choices_survive_a_reload(browser, page, no_problems):
    browser.open("about:blank")
    browser.open(page[3])
    slide(browser, "#k", 3)
    click(browser, "[data-key^=rename-]", 1)
    browser.ask("document.querySelector('#cards input').value = '<b>mine</b>'")
    browser.ask("document.querySelector('#cards form').requestSubmit()")
    click(browser, "[data-key^=off-]", 0)
    summary = text(browser, "#summary")
    address = browser.ask("location.href")
    browser.open("about:blank")
    browser.open(address)
    assert text(browser, "#summary") == summary
    assert text(browser, "#k-shown") == "4"
    assert "<b>mine</b>" in text(browser, "#cards")
    for wrong in (
        "nonsense",
        "%7B%22k%22%3A99%2C%22names%22%3A%5B3%2C%5B%22x%22%5D%5D%2C%22off%22%3A7%7D",
        "null",
        "%",
    ):
        browser.open("about:blank")
        browser.open(f"{page[3]}#{wrong}")
        assert text(browser, "#k-shown") == "5"


def test_two_anchors_are_compared(browser, page, no_problems):
    A, anchors, _, address = page
    browser.open(address)
    click(browser, "button.pick", 0)
    click(browser, "[data-key^=compare-]", 4)
    a, b = A[anchors[0]], A[anchors[4]]
    angle = np.degrees(np.arccos(a @ b / np.linalg.norm(a) / np.linalg.norm(b)))
    assert f"{angle:.1f}°" in text(browser, "#compare")
    click(browser, "[data-key=end-compare]")
    assert browser.ask("document.querySelector('#compare').hidden")


def test_the_keyboard_is_enough(browser, page, no_problems):
    browser.open(page[3])
    browser.ask("document.querySelector('#k').focus()")
    key(browser, "ArrowLeft")
    assert text(browser, "#k-shown") == "4"
    browser.ask("document.querySelector('button.pick').focus()")
    key(browser, "Enter")
    assert browser.ask("document.activeElement.getAttribute('aria-pressed')") == "true"  # the focus stays
    assert browser.ask("document.activeElement.className") == "pick"
    browser.ask("document.querySelector('#plot svg').focus()")
    key(browser, "ArrowRight")
    first = text(browser, "#row h4")
    key(browser, "ArrowRight")
    assert text(browser, "#row h4") != first


def test_names_are_escaped(browser, page, no_problems):
    browser.open(page[3])
    shown = browser.ask("[...document.querySelectorAll('#cards h3 bdi')].slice(0, 3).map(each => each.textContent)")
    assert shown == ["</script><img src=x onerror=alert(1)>gnp.exe second line", HEBREW, "plain"]
    assert browser.ask("document.querySelectorAll('img').length") == 0
    assert browser.ask("[...document.querySelectorAll('#cards h3 bdi')].length") == 5


def test_a_scene_has_maps_that_pick_pixels(browser, tmp_path, no_problems):
    bands = np.linspace(0, 1, 40)
    spectra = np.array([np.exp(-((bands - c) ** 2) / 0.02) + 0.1 for c in (0.2, 0.5, 0.8)])
    height, width = 12, 20
    F = np.random.default_rng(0).dirichlet(np.full(3, 0.3), height * width)
    A = F @ spectra
    A[:, 10:14] = 0.0  # bands without data
    anchors = fa.SPA().seek(A, 3)
    waves = [str(400 + 10 * j) for j in range(40)]
    path = report.write(tmp_path / "s.html", A, anchors, image=(height, width), order="F", column_names=waves, seed=0)
    browser.open(path.as_uri())
    assert browser.ask("document.querySelectorAll('#maps canvas').length") == 5
    assert browser.ask("document.querySelector('#maps canvas').width") == width
    assert browser.ask("document.querySelectorAll('#cards .band').length") == 3
    assert browser.ask("document.querySelector('#cards .line').getAttribute('d').split('M').length") == 3  # two pieces
    place = (
        "(() => {const c = document.querySelectorAll('#maps canvas')[2]; c.scrollIntoView({block: 'center'}); "
        "const r = c.getBoundingClientRect(); return [r.x + 7.5 * r.width / 20, r.y + 4.5 * r.height / 12]})()"
    )
    x, y = browser.ask(place)
    for kind in ("mousePressed", "mouseReleased"):
        browser.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
    assert text(browser, "#row h4") == "pixel (4, 7)"
    assert f"row {7 * height + 4} " in text(browser, "#row .share")
    light = "[...document.querySelectorAll('#maps canvas')[2].getContext('2d').getImageData(7, 4, 1, 1).data]"
    share = fa.encode(A[[7 * height + 4]], A[anchors.indices])[0]
    load(browser, ("dom", "maps"), "colour")
    assert browser.ask(light)[:3] == browser.ask(f"colour({float(share[0] / share.sum())})")


def test_words_have_a_relevance_slider_and_a_map(browser, tmp_path, no_problems):
    rng = np.random.default_rng(0)
    words = [a + b + c for a in "bcdfg" for b in "aeiou" for c in "lmnrst"]
    laws = rng.dirichlet(np.full(len(words), 0.05), 4)
    counts = sp.csr_array(np.array([rng.multinomial(80, rng.dirichlet(np.full(4, 0.2)) @ laws) for _ in range(200)]))
    counts = counts.astype(float)
    A = sp.csr_array(counts.multiply(1 / counts.sum(axis=1)[:, None]))
    texts = [f"text of document {i} <i>" for i in range(200)]
    anchors = fa.SPA().seek(A, 4)
    path = report.write(tmp_path / "w.html", A, anchors, column_names=words, texts=texts, seed=0)
    browser.open(path.as_uri())
    assert browser.ask("document.querySelectorAll('#topic-map .topic').length") == 4
    lists = "[...document.querySelectorAll('#cards tbody')].map(each => each.textContent)"
    slide(browser, "#relevance", 1)
    frequent = browser.ask(lists)
    row = A[[anchors[0]]].toarray().ravel()
    assert frequent[0].startswith(words[row.argmax()])
    slide(browser, "#relevance", 0)
    assert browser.ask(lists) != frequent
    click(browser, "button.pick")
    assert "text of document" in text(browser, "#typical .text")


def test_cells_are_drawn_at_their_embedding(browser, tmp_path, no_problems):
    A = fa.datasets.separable(80, 12, 3, noise=0.01, rng=0).A
    places = np.random.default_rng(0).normal(size=(80, 2))
    genes = [f"GENE{j}" for j in range(12)]
    options = {"kind": "cells", "embedding": places, "column_names": genes, "seed": 0}
    path = report.write(tmp_path / "c.html", A, fa.SPA().seek(A, 3), **options)
    browser.open(path.as_uri())
    assert "Heaviest genes" in text(browser, "#cards")
    xs = "[...document.querySelectorAll('#plot circle')].map(each => each.cx.baseVal.value)"
    order = np.argsort(np.array(browser.ask(xs))[:80])
    assert (np.diff(places[order, 0]) >= -0.05).all()  # coordinates are rounded to a tenth of a unit
    browser.ask("document.querySelector('#plot-kind').value = 'mixtures'")
    browser.ask("document.querySelector('#plot-kind').dispatchEvent(new Event('change'))")
    assert browser.ask("document.querySelectorAll('#plot .corner').length") == 3


@pytest.mark.parametrize("width", [320, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_fits_its_window(browser, page, no_problems, width, scheme):
    browser.size(width, 800, phone=width < 500)
    browser.media(scheme)
    browser.open(page[3])
    click(browser, "button.pick", 0)
    click(browser, "[data-key^=compare-]", 1)
    click(browser, "[data-key^=rename-]", 2)
    click(browser, "#worst button")
    assert browser.ask("document.documentElement.scrollWidth") <= width
    outside = (
        "[...document.querySelectorAll('#explore *')].filter(e => {const r = e.getBoundingClientRect(); "
        "return r.width && !e.closest('.scroll') && (r.left < -1 || r.right > innerWidth + 1)}).map(e => e.outerHTML)"
    )
    assert browser.ask(outside) == []
    browser.size(1000, 800)
    browser.media("light")
