"""Options that would have no effect are refused, not ignored."""

from __future__ import annotations

import numpy as np
import pytest

import fastanchors as fa

pytest.importorskip("click", reason="extra cli")
pytest.importorskip("rich", reason="extra cli")

from click.testing import CliRunner

from fastanchors.cli.app import app


def call(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unused")
    np.save(folder / "a.npy", fa.datasets.separable(60, 6, 3, rng=0).A)
    for name in ("r.json", "r.csv"):
        assert call("seek", folder / "a.npy", "-k", 3, "--out", folder / name).exit_code == 0
    (folder / "docs.txt").write_text("cats purr\ndogs bark\ncats and dogs\nbirds sing\n" * 5)
    assert call("topics", folder / "docs.txt", "-k", 2, "-o", folder / "m.npz").exit_code == 0
    (folder / "spectra.csv").write_text("band,material 1\n" + "".join(f"{j},1\n" for j in range(6)))
    return folder


@pytest.mark.parametrize("option", [["--seed=0"], ["--solver=spa"], ["--robust=median"], ["--budget=5"]])
def test_a_result_is_not_sought_again(place, option):
    options = ["-o", place / "p.html", *option]
    answer = call("report", place / "r.json", *options)
    assert (answer.exit_code, f"{option[0].partition('=')[0]} has no effect" in answer.output) == (2, True)
    answer = call("report", place / "r.csv", "--data", place / "a.npy", *options)  # does not say how it was made
    assert answer.exit_code == (2 if option == ["--budget=5"] else 0)


@pytest.mark.parametrize("option", ["--transpose", "--layer=x", "--normalize=none"])
def test_a_topic_model_has_no_rows_of_numbers(place, option):
    for command in (
        ["encode", place / "docs.txt", place / "m.npz", "-o", place / "w.csv"],
        ["report", place / "m.npz"],
    ):
        answer = call(*command, option)
        assert (answer.exit_code, "has no effect" in answer.output) == (2, True)


@pytest.mark.parametrize("option", ["--column=3", "--title=x", "--replace-errors"])
def test_a_scene_has_no_texts(place, option):
    answer = call("encode", place / "a.npy", place / "spectra.csv", "-o", place / "w.csv", option)
    assert (answer.exit_code, "has no effect" in answer.output) == (2, True)


@pytest.mark.parametrize("option", ["--ngrams=2", "--html", "--title=x", "--header", "--encoding=latin-1"])
def test_counts_of_words_have_no_texts(place, option):
    np.savez(place / "counts.npz", np.eye(6))
    answer = call("topics", place / "counts.npz", "-k", 2, option)
    assert (answer.exit_code, "has no effect" in answer.output) == (2, True)
