"""Options that would have no effect are refused, not ignored."""

from __future__ import annotations

import json

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


@pytest.mark.parametrize("option", ["--column=0", "--title=0", "--header", "--no-header"])
def test_folders_and_lines_of_texts_have_no_columns(place, option):
    (place / "folder").mkdir(exist_ok=True)
    (place / "folder" / "a.txt").write_text("cats and dogs\n")
    for source in (place / "folder", place / "docs.txt"):
        for command in (["topics", source, "-k", 2], ["encode", source, place / "m.npz", "-o", place / "w.csv"]):
            answer = call(*command, option)
            known = "--header" if "header" in option else option.partition("=")[0]
            assert (answer.exit_code, f"has no option {known}" in str(answer.exception)) == (1, True)


def test_options_of_texts_that_a_format_does_not_have(place):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"text": ["cats purr", "dogs bark", "cats and dogs"] * 5})
    frame.to_parquet(place / "t.parquet")
    (place / "t.json").write_text(json.dumps({"text": frame["text"].tolist()}))
    options = [("t.parquet", "--header"), ("t.parquet", "--encoding=latin-1"), ("t.parquet", "--replace-errors")]
    for name, option in [*options, ("t.json", "--header")]:
        answer = call("topics", place / name, "-k", 2, option)
        assert (answer.exit_code, f"no option {option.partition('=')[0]}" in str(answer.exception)) == (1, True)
    call("build", place / "a.npy", place / "a.store")
    for command in (["topics", place / "a.store", "-k", 2], ["build", place / "a.store", place / "b.store"]):
        assert "remove --format" in str(call(*command, "--format=npy").exception)
    assert not (place / "b.store").exists()


def test_recorded_options_are_left_out_for_documents_of_another_kind(place):
    (place / "t.csv").write_text("text,id\n" + "".join(f"cats and dogs purr,{j}\nbirds sing,b{j}\n" for j in range(9)))
    made = call("topics", place / "t.csv", "-k", 2, "--column=text", "--title=id", "--header", "-o", place / "of.npz")
    assert made.exit_code == 0
    report = ["report", place / "of.npz", "-o", place / "p.html", "--data"]
    assert call(*report, place / "docs.txt").exit_code == 0
    assert call(*report, place / "t.csv").exit_code == 0
    assert "no column 'text'" in str(call(*report, place / "t.csv", "--no-header").exception)


def test_formulas_are_escaped_in_csv_only(place):
    seek = ["seek", place / "a.npy", "-k", 2, "--escape-formulas"]
    weights = ["encode", place / "a.npy", "1,2", "--escape-formulas", "-o"]
    for command in (seek, [*seek, "--out", place / "f.json"], [*weights, place / "w.npy"]):
        answer = call(*command)
        assert (answer.exit_code, "--escape-formulas has no effect" in answer.output) == (2, True)
    assert call(*weights, place / "w.csv").exit_code == 0


def test_an_array_has_no_variables(place):
    np.save(place / "cube.npy", np.ones((4, 4, 6)))
    answer = call("unmix", place / "cube.npy", "-k", 2, "-o", place / "u", "--variable=x")
    assert (answer.exit_code, "remove --variable" in str(answer.exception)) == (1, True)
