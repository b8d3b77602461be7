"""The report in Chromium: no console errors, no further requests; phones, dark mode and print."""

from __future__ import annotations

import os

import numpy as np
import pytest

import fastanchors as fa
from browser import CHROMIUM, Browser
from fastanchors import report

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and os.environ.get("CI") != "true", reason="no Chromium on PATH (Debian: apt install chromium)"
)

# The contrast ratio of WCAG 2.1 between the colour of every visible text and the first opaque background behind it;
# for letters in a drawing, behind the drawing (the numbers in the corners' marks are checked separately).
CONTRAST = """
(() => {
  const probe = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = c => { probe.clearRect(0,0,1,1); probe.fillStyle = c; probe.fillRect(0,0,1,1);
                     return [...probe.getImageData(0,0,1,1).data]; };
  const light = c => { const [r,g,b] = c.map(v => { v /= 255; return v <= .03928 ? v/12.92 : ((v+.055)/1.055)**2.4; });
                       return .2126*r + .7152*g + .0722*b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor);
                        if (c[3] === 255) return c; } return [255,255,255,255]; };
  let worst = [99, ''];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length || ['title', 'desc', 'TITLE'].includes(e.tagName)) continue;
    const style = getComputedStyle(e), drawn = e.tagName === 'text';
    const corner = e.closest('.corner');
    const back = corner ? rgb(getComputedStyle(corner.querySelector('circle')).fill) : behind(e);
    const [a, b] = [light(rgb(drawn ? style.fill : style.color)), light(back)].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    if (ratio < worst[0]) worst = [ratio, e.outerHTML.slice(0, 120)];
  }
  return worst;
})()
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.fixture(scope="module", params=["features", "spectra"])
def address(request, tmp_path_factory):
    bands = np.linspace(0, 1, 60)
    spectra = np.array([np.exp(-((bands - c) ** 2) / 0.02) + 0.1 for c in (0.1, 0.3, 0.5, 0.7, 0.9)])
    rng = np.random.default_rng(0)
    A = rng.dirichlet(np.full(5, 0.4), 150) @ spectra + 0.001 * rng.random((150, 60))
    names = [
        f'<b onclick="x()">{i}</b> a rather long name of a row, and an_unbroken_one_{"x" * 60}' for i in range(150)
    ]
    path = tmp_path_factory.mktemp("report") / "report.html"
    columns = [f"{j}_{'c' * 40}" for j in range(60)] if request.param == "features" else None
    anchors = fa.SPA().seek(A, 5)
    report.write(path, A, anchors, row_names=names, column_names=columns, title="t" * 90, kind=request.param, seed=0)
    return path.as_uri()


def test_the_page_loads_without_errors_and_requests(browser, address):
    browser.problems.clear()
    browser.requests.clear()
    browser.open(address)
    shown = "[...document.querySelectorAll('section')].filter(each => !each.hidden).map(each => each.id)"
    assert browser.ask(shown) == ["explore", "rank", "held-back", "cost"]
    assert browser.ask("document.querySelectorAll('#plot circle.p, #plot circle.q').length") == 150
    assert browser.ask("document.querySelectorAll('[onclick]').length") == 0
    assert browser.ask("document.querySelectorAll('script').length") == 2
    assert browser.problems == []
    assert browser.requests == [address]


@pytest.mark.parametrize(("width", "phone"), [(390, True), (320, True), (820, False), (1400, False)])
def test_fits_its_window(browser, address, width, phone):
    browser.size(width, 800, phone=phone)
    browser.open(address)
    assert browser.ask("innerWidth") == width
    assert browser.ask("document.documentElement.scrollWidth") <= width
    outside = (
        "[...document.querySelectorAll('h1,h2,h3,p,td,th,figure,svg,li')].filter(e => "
        "{const r = e.getBoundingClientRect(); "
        "return r.width && !e.closest('.scroll') && (r.left < -1 || r.right > innerWidth + 1)}).length"
    )
    assert browser.ask(outside) == 0
    over = (
        "[...document.querySelectorAll('.cards th, .cards td')].filter(e => "
        "e.getBoundingClientRect().right > e.closest('li').getBoundingClientRect().right || "
        "e.scrollWidth > e.clientWidth + 1).length"
    )
    assert browser.ask(over) == 0
    smallest = (
        "Math.min(...[...document.querySelectorAll('section:not([hidden]) svg[role=img] text')].map(t => "
        "{const s = t.ownerSVGElement, wide = s.getBoundingClientRect().width; "
        "return parseFloat(getComputedStyle(t).fontSize) * wide / s.viewBox.baseVal.width}))"
    )
    assert browser.ask(smallest) >= 8  # letters of drawings, in pixels


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast(browser, address, scheme):
    browser.size(1000, 800)
    browser.media(scheme)
    browser.open(address)
    paper = browser.ask("getComputedStyle(document.body).backgroundColor")
    assert (sum(int(part) for part in paper[4:-1].split(",")) > 384) == (scheme == "light")
    ratio, where = browser.ask(CONTRAST)
    assert ratio >= 4.5, where


def test_prints(browser, address, tmp_path):
    browser.media("dark")  # a dark screen prints on white paper all the same
    browser.open(address)
    browser.pdf(tmp_path / "r.pdf")
    assert (tmp_path / "r.pdf").read_bytes().startswith(b"%PDF")
    browser.media("dark", "print")
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    browser.media("light")


def test_a_tap_and_the_arrow_keys_show_names(browser, address):
    browser.size(390, 800, phone=True)
    browser.open(address)
    told = "document.getElementById('row').textContent"
    assert "Pick a row" in browser.ask(told)
    place = (
        "(() => {const c = document.querySelectorAll('#plot circle.p')[7]; c.scrollIntoView({block: 'center'}); "
        "const r = c.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]})()"
    )
    x, y = browser.ask(place)
    browser.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    browser.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    after = browser.ask(told)
    assert "explained" in after
    assert browser.ask("document.querySelectorAll('#plot .ring').length") == 1
    key = "document.querySelector('#plot svg').dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight'}))"
    browser.ask(key)
    assert browser.ask(told) != after
    assert browser.problems == []


def test_without_scripts_the_figures_are_there(browser, address):
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(address)
        shown = "[...document.querySelectorAll('section')].filter(each => !each.hidden).map(each => each.id)"
        assert browser.ask(shown) == ["anchors", "shares", "simplex", "rank", "held-back", "cost"]
        assert browser.ask("document.querySelectorAll('#simplex circle.p, #simplex circle.q').length") == 150
    finally:
        browser.call("Emulation.setScriptExecutionDisabled", value=False)
