"""Every code block of the README and the documentation runs.

Python blocks of a page run in order in one namespace, in a separate directory. The lines of shell blocks that call
``fastanchors`` run there too, with what is piped into them. The block of text right below a Python block is its
expected output. A comment ``<!-- python … -->`` is run as well: it prepares what a block needs, and prints nothing.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import fastanchors as fa

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(
    r"^```(python|bash)\n(.*?)^```$(?:\n+^```text\n(.*?)^```$)?|^<!-- (python)\n(.*?)^-->$", re.DOTALL | re.MULTILINE
)


def blocks(page: Path) -> list[tuple[str, str, str | None, int]]:
    """(kind, code, output or None, line) of every block that runs."""
    text = page.read_text(encoding="utf-8")
    found = []
    for match in BLOCK.finditer(text):
        kind, code, output = (match[1], match[2], match[3]) if match[1] else (match[4], match[5], None)
        found.append((kind, code, output, text.count("\n", 0, match.start()) + 2))
    return found


def tidy(printed: str) -> list[str]:
    """The lines of an output without times and costs, which differ from run to run."""
    return [re.sub(r"[\d.e-]+ (?:m|µ)?s\b", "… s", line.rstrip()) for line in printed.strip("\n").splitlines()]


def commands(code: str) -> list[str]:
    """The lines of a shell block that call the command line, continuation lines joined."""
    joined = code.replace("\\\n", " ")
    return [line for line in joined.splitlines() if re.search(r"(^|\| *)fastanchors ", line)]


def run(command: str, where: str) -> None:
    """Run the stages of a pipe, one after the other."""
    given = ""
    for stage in command.split(" | "):
        words = shlex.split(stage, comments=True)
        if words[0] == "fastanchors":
            words[:1] = [sys.executable, "-c", "from fastanchors.cli import main; main()"]
        done = subprocess.run(words, input=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{where}: {command}\n{done.stderr}"
        given = done.stdout


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.stem)
def test_page_runs(page, tmp_path, monkeypatch, recwarn, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for kind, code, output, line in blocks(page):
        if kind == "python":
            capsys.readouterr()
            exec(compile("\n" * (line - 1) + code, str(page), "exec"), namespace)
            printed = capsys.readouterr().out
            assert tidy(printed) == tidy(output or ""), f"{page.name}:{line} prints\n{printed}"
        else:
            for command in commands(code):
                run(command, f"{page.name}:{line}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_is_in_blocks_that_run_and_show_their_output(page):
    kinds = set(re.findall(r"^```(\w+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert kinds <= {"python", "bash", "text", "json"}
    silent = [line for line in shown_python(page) if line[1] is None]
    assert not silent, f"blocks of {page.name} without output, at lines {[line for line, _ in silent]}"


def shown_python(page: Path) -> list[tuple[int, str | None]]:
    """(line, output) of the Python blocks that readers see."""
    text = page.read_text(encoding="utf-8")
    return [
        (text.count("\n", 0, found.start()) + 1, found[3]) for found in BLOCK.finditer(text) if found[1] == "python"
    ]


def test_every_public_name_has_a_page():
    listed = set(re.findall(r"^   fastanchors\.(\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.M))
    named = {name for name in fa.__all__ if callable(getattr(fa, name)) and name != "FastAnchorsError"}
    for place in ("apps", "dask", "datasets", "io", "lowrank", "metrics", "report", "solvers"):
        room = getattr(fa, place)
        named |= {
            f"{place}.{name}" for name in room.__all__ if callable(getattr(room, name)) and name not in fa.__all__
        }
    assert named - {"apps.TopicModel"} == listed - {"fas.seek.IndexedFAS", "fas.paper.PaperFAS"}


def test_pictures_exist_and_have_alternative_texts():
    for page in PAGES:
        for words, path in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text(encoding="utf-8")):
            assert len(words) > 20, f"{page.name}: {path} needs words for those who do not see it"
            assert (page.parent / path).is_file(), f"{page.name}: there is no {path}"


def test_every_table_of_benchmarks_is_on_their_page():
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for table in (ROOT / "benchmarks" / "results").glob("*.md"):
        assert f"../benchmarks/results/{table.name}\n" in page
