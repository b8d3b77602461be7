"""The command line overwrites no input, reports every guess, and names options in its errors."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import fastanchors as fa

pytest.importorskip("click", reason="extra cli")
pytest.importorskip("rich", reason="extra cli")

import click
from click.testing import CliRunner

from fastanchors.cli._messages import in_options
from fastanchors.cli.app import app, run

A = fa.datasets.separable(60, 6, 3, noise=0.01, rng=0).A


def call(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


@pytest.fixture
def shell(monkeypatch, capfd):
    """Run the command as a shell does: exit code, standard output, standard error."""

    def started(*arguments):
        monkeypatch.setattr("sys.argv", ["fastanchors", *map(str, arguments)])
        with pytest.raises(SystemExit) as exited:
            run()
        captured = capfd.readouterr()
        return exited.value.code, captured.out, captured.err

    return started


def write_table(path, header, names=None):
    lines = [] if header is None else [header]
    for i, row in enumerate(A.tolist()):
        lines.append(",".join(map(str, row if names is None else [names[i], *row])))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_no_command_overwrites_what_it_reads(tmp_path, link):
    table = write_table(tmp_path / "d.csv", ",".join("abcdef"))
    np.save(tmp_path / "scene.npy", A.reshape(10, 6, 6))
    np.savez(tmp_path / "c.npz", A)
    out = tmp_path / "o.csv" if link else table
    if link:
        link(table, out)
    before = table.read_bytes()
    names = tmp_path / "names.csv"
    names.write_text("".join(f"n{i}\n" for i in range(60)))
    for command in (
        ["seek", table, "-k", 3, "--out", out],
        ["encode", table, "1,2", "-o", out],
        ["seek", table, "-k", 3, "--row-names", names, "--out", names],
    ):
        refused = call(*command)
        assert refused.exit_code == 2
        assert "would be overwritten" in refused.output
    assert table.read_bytes() == before
    call("seek", table, "-k", 3, "--out", tmp_path / "r.csv")
    refused = call("encode", table, tmp_path / "r.csv", "-o", tmp_path / "r.csv")
    assert (refused.exit_code, "would be overwritten" in refused.output) == (2, True)
    refused = call("topics", tmp_path / "c.npz", "-k", 3, "-o", tmp_path / "c.npz")
    assert (refused.exit_code, "would be overwritten" in refused.output) == (2, True)
    (tmp_path / "scene.npy").rename(tmp_path / "abundances.npy")
    refused = call("unmix", tmp_path / "abundances.npy", "-k", 3, "-o", tmp_path)
    assert (refused.exit_code, "would be overwritten" in refused.output) == (2, True)


def test_topics_writes_to_the_given_path(tmp_path):
    (tmp_path / "c.ldac").write_text("2 0:1 1:2\n2 1:1 2:2\n" * 10)
    for out, message in ((tmp_path / "t.txt", "must end in .npz"), (tmp_path / "no" / "t.npz", "does not exist")):
        refused = call("topics", tmp_path / "c.ldac", "-k", 2, "-o", out)
        assert (refused.exit_code, message in refused.output) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.ldac"]


def test_a_guess_is_reported_once_and_avoided_by_an_option(tmp_path, shell):
    table = write_table(tmp_path / "t.csv", "2019,2020,2021,2022,2023,2024")
    code, out, err = shell("seek", table, "-k", 3, "--json")
    assert (code, json.loads(out)["shape"]) == (0, [60, 6])
    assert err.count("note: ") == 1
    assert "--no-header" in err
    for option, rows in (("--header", 60), ("--no-header", 61)):
        code, out, err = shell("seek", table, "-k", 3, "--json", option)
        assert (code, json.loads(out)["shape"], err) == (0, [rows, 6], "")
    write_table(table, "id,a,b,c,d,e,f", names=range(500, 560))
    code, out, err = shell("seek", table, "-k", 3, "--json")
    assert json.loads(out)["anchor_names"][0].startswith("5")
    assert (err.count("note: "), "--names-column none" in err) == (1, True)
    code, out, err = shell("seek", table, "-k", 3, "--json", "--names-column", "none")
    assert (json.loads(out)["shape"], err) == ([60, 7], "")
    code, out, err = shell("build", table, tmp_path / "s", "--names-column", "id", "--json")
    assert (code, json.loads(out)["columns"], json.loads(out)["row_names"], err) == (0, 6, True, "")


def test_written_weights_are_read_without_their_row_numbers(tmp_path, shell):
    np.save(tmp_path / "a.npy", A)
    shell("encode", tmp_path / "a.npy", "1,2,3", "-o", tmp_path / "w.csv")
    code, out, err = shell("seek", tmp_path / "w.csv", "-k", 2, "--json")
    assert (code, json.loads(out)["shape"]) == (0, [60, 3])
    assert "column 'row'" in err


def test_the_report_reads_a_table_as_the_seek_did(tmp_path, shell):
    table = write_table(tmp_path / "t.csv", "key;a;b;c;d;e;f".replace(";", ","), names=[f"ü{i}" for i in range(60)])
    table.write_bytes(table.read_text().replace(",", ";").encode("latin-1"))
    reader = ("--separator", ";", "--encoding", "latin-1", "--names-column", "key")
    assert shell("seek", table, "-k", 3, "--out", tmp_path / "r.json", *reader)[0] == 0
    assert shell("report", tmp_path / "r.json", "-o", tmp_path / "r.html")[::2] == (0, "")
    assert "ü" in (tmp_path / "r.html").read_text()
    code, _, err = shell("seek", table, "-k", 3)
    assert (code, "--separator ';'" in err) == (1, True)
    code, _, err = shell("seek", table, "-k", 3, "--separator", ";")
    assert (code, "--encoding 'latin-1'" in err) == (1, True)


def test_report_of_a_table_of_anchors(tmp_path, shell):
    table = write_table(tmp_path / "t.csv", "key,a,b,c,d,e,f", names=[f"r{i}" for i in range(60)])
    shell("seek", table, "-k", 3, "--out", tmp_path / "r.csv")
    code, _, err = shell("report", tmp_path / "r.csv", "-o", tmp_path / "r.html")
    assert (code, "--data" in err) == (1, True)
    code, out, _ = shell("report", tmp_path / "r.csv", "--data", table, "-o", tmp_path / "r.html")
    assert (code, out.startswith("report on 3 anchors")) == (0, True)
    page = (tmp_path / "r.html").read_text()
    assert "Not proved." in page
    assert "the rows were given" in page.lower()
    assert "What it cost" not in page
    write_table(table, "key,a,b,c,d,e,f", names=[f"x{i}" for i in range(60)])
    code, _, err = shell("report", tmp_path / "r.csv", "--data", table, "-o", tmp_path / "r.html")
    assert (code, "these are other data" in err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "a.npy", "s"], "pass --overwrite"),
        (["info", "a.npy"], "fastanchors build SOURCE STORE"),
        (["encode", "a.npy", "t.csv", "-o", "w.npy"], "no column 'row'"),
        (["encode", "a.npy", "a.jsn", "-o", "w.npy"], "did you mean a.json?"),
        (["encode", "a.npy", "1,1", "-o", "w.npy"], "row 1 is an anchor more than once"),
        (["seek", "zero.npy", "-k", "2"], "every row of zero.npy is zero"),
        (["seek", "zero.npy", "-k", "auto"], "every row of zero.npy is zero"),
        (["seek", "a.npy", "-k", "2", "--header"], "has no option --header"),
        (["seek", "t.csv", "-k", "2", "--names-column", "lable"], "did you mean 'label'?"),
        (["topics", "t.csv", "--column", "labell"], "did you mean 'label'?"),
        (["topics", "t.cvs"], "did you mean t.csv?"),
        (["topics", "c.ldac", "-k", "9"], "use -k 3 or fewer"),
        (["topics", "one.txt", "-k", "3"], "below k = 3; topics need more documents"),
        (["topics", "one.txt", "-k", "3", "--vocab", "t.csv"], "--vocab names the columns of counts; remove it\n"),
        (["unmix", "x.bin", "-k", "2"], "the format of x.bin; give its name the suffix of one of npy, "),
        (["representatives", "same.npy", "-k", "2"], "use -k 1 or fewer\n"),
        (["seek", "same.npy", "-k", "2"], "has only 1 independent anchor, fewer than 2"),
        (["unmix", "b.npy", "-k", "2"], "did you mean a.npy?"),
    ],
)
def test_errors_name_options_of_the_command_line(tmp_path, shell, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", A)
    np.save("zero.npy", np.zeros((4, 3)))
    np.save("same.npy", np.ones((4, 3)))
    (tmp_path / "x.bin").write_bytes(b"\xff" * 20)
    (tmp_path / "one.txt").write_text("cats sat near dogs with another happy cat\n")
    fa.build(A, "s").close()
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "t.csv").write_text("a,label\n1,x\n2,y\n")
    (tmp_path / "c.ldac").write_text("2 0:1 1:2\n2 1:1 2:2\n" * 10)
    code, out, err = shell(*arguments)
    assert (code, out) == (1, "")
    assert message in err
    assert err.count("\n") == 1


def test_messages_in_options():
    @click.command()
    @click.option("-k")
    @click.option("--min-df")
    @click.option("--overwrite", is_flag=True)
    def command():
        pass

    said = "pass overwrite=True, min_df=3, k=4, other=5, min_df='x', format=… or option 'overwrite'; x.k=1"
    expected = "pass --overwrite, --min-df 3, -k 4, other=5, --min-df 'x', format=… or option --overwrite; x.k=1"
    assert in_options(said, command) == expected
    assert in_options(said, None) == said


def test_completion_knows_values():
    for words, offered in (("fastanchors seek -k a", "auto"), ("fastanchors seek --format do", "docword")):
        environment = {
            "_FASTANCHORS_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
        }
        result = CliRunner().invoke(app, prog_name="fastanchors", env=environment)
        assert f",{offered}" in result.output
