"""The interface to numba: kernels are cached if possible, work without a cache, and never run old code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import fastanchors
from fastanchors._jit import jit

PACKAGE = Path(fastanchors.__file__).parent
DRAW = "import fastanchors as fa; v = fa.VectorSampler([0.0, 2.0, 0.0]); print(v.sample(5, rng=0).tolist(), v.norm)"
# Root without capabilities may write only where the permissions say so.
GIVE_UP_RIGHTS = (
    "import ctypes, os, sys; sys.platform == 'linux' and os.getuid() == 0 and "
    "ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)());"
)


def bare_environment(package: Path, **variables: str) -> dict[str, str]:
    """An environment without a home directory and bytecode, with the package in that folder."""
    keep = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return keep | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(package)} | variables


def run(code: str, cwd: Path, env: dict[str, str]) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def copy_package(to: Path) -> Path:
    shutil.copytree(PACKAGE, to / "fastanchors", ignore=shutil.ignore_patterns("__pycache__"))
    return to


def test_a_kernel_compiles_on_first_call_and_not_before():
    @jit
    def double(x):
        return 2 * x

    assert double.signatures == []
    assert double(21) == 42
    assert len(double.signatures) == 1


def test_a_kernel_called_with_literals_has_one_signature():
    @jit
    def add(x, y):
        return x + y

    @jit
    def count(n):
        total = 0
        for _ in range(n):
            total = add(total, 1)
        return add(total, y=0)

    assert count(5) == 5
    assert len(add.signatures) == 1


def test_kernels_run_as_plain_python_where_numba_is_switched_off():
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run([sys.executable, "-c", DRAW], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[1, 1, 1, 1, 1] 2.0\n"


def test_kernels_release_the_gil_and_keep_the_order_of_sums():
    @jit
    def total(x):
        s = 0.0
        for k in range(x.size):
            s += x[k]
        return s

    x = np.random.default_rng(0).random(1001)
    in_order = 0.0
    for value in x:
        in_order += value
    assert total(x) == in_order
    assert total.targetoptions["nogil"]
    assert not total.targetoptions.get("fastmath")
    assert not total.targetoptions.get("parallel")


def test_a_read_only_install_without_a_home_draws(tmp_path):
    """Compiles in memory when nothing can be written: the package is read-only and there is no home directory."""
    if os.getuid() == 0 and sys.platform != "linux":
        pytest.skip("the super-user may write anywhere, and its rights can be given up on Linux only")
    site = copy_package(tmp_path / "site")
    env = bare_environment(site, HOME=str(site / "no/home"), XDG_CACHE_HOME=str(site / "no/cache"))
    where = "import fastanchors.sampling.sum_tree as s; print(s.__file__, s.draw.stats.cache_path);"
    folders = [site, *(path for path in site.rglob("*") if path.is_dir())]
    for path in folders:
        path.chmod(0o555)
    try:
        place, drawn = run(GIVE_UP_RIGHTS + where + DRAW, tmp_path, env).splitlines()
    finally:
        for path in folders:
            path.chmod(0o755)
    assert place == f"{site / 'fastanchors/sampling/sum_tree.py'} None"
    assert drawn == "[1, 1, 1, 1, 1] 2.0"
    assert not list(site.rglob("__pycache__"))


def test_kernels_run_if_the_cache_cannot_be_saved(tmp_path):
    """A full disk: files can be created but not written."""
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0));"
    env = bare_environment(PACKAGE.parent, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    code = (
        "import numpy as np, fastanchors.sampling.sum_tree as s; print(s.parent_sum(np.ones(16), 0), file=sys.stderr)"
    )
    command = [sys.executable, "-c", "import sys;" + full + code]
    done = subprocess.run(command, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "16.0")
    assert not list(tmp_path.rglob("*.nb[ci]"))


def test_a_writable_place_gets_a_cache_that_the_next_process_uses(tmp_path):
    hits = "import fastanchors.sampling.sum_tree as s; print(sum(s.parent_sum.stats.cache_hits.values()))"
    draw = "import numpy as np, fastanchors.sampling.sum_tree as s; s.parent_sum(np.ones(16), 0);"
    env = bare_environment(PACKAGE.parent, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert run(draw + hits, tmp_path, env).strip() == "0"
    assert run(draw + hits, tmp_path, env).strip() == "1"


def test_a_changed_callee_or_constant_in_another_file_is_noticed(tmp_path):
    """numba checks only the file of the cached kernel and would run the old callee."""
    env = bare_environment(PACKAGE.parent, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    (tmp_path / "outer.py").write_text(
        textwrap.dedent("""
        from fastanchors._jit import jit
        from inner import SCALE, value
        @jit
        def scaled(x):
            return SCALE * value(x)
        """)
    )

    def result(inner: str) -> str:
        (tmp_path / "inner.py").write_text("from fastanchors._jit import jit\n" + inner)
        return run("import outer; print(outer.scaled(1))", tmp_path, env).strip()

    assert result("SCALE = 2\n@jit\ndef value(x): return x + 1\n") == "4"
    assert result("SCALE = 2\n@jit\ndef value(x): return x + 10\n") == "22"
    assert result("SCALE = 3\n@jit\ndef value(x): return x + 10\n") == "33"


def test_a_cache_with_missing_types_is_cleared(tmp_path):
    """A type that a kernel was compiled for may be in another module, or missing, in a later version."""
    (tmp_path / "shapes.py").write_text(
        "from typing import NamedTuple\n\n\nclass Pair(NamedTuple):\n    a: int\n    b: int\n"
    )
    (tmp_path / "kernel.py").write_text(
        "from fastanchors._jit import jit\n\n\n@jit\ndef total(pair):\n    return pair[0] + pair[1]\n"
    )
    env = bare_environment(PACKAGE.parent, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert run("from kernel import total; from shapes import Pair; print(total(Pair(1, 2)))", tmp_path, env) == "3\n"
    (tmp_path / "shapes.py").rename(tmp_path / "forms.py")
    for _ in range(2):
        code = "from kernel import total; from forms import Pair; print(total(Pair(1, 2)))"
        assert run(code, tmp_path, env) == "3\n"


def test_code_for_other_types_in_the_cache_is_not_run(tmp_path):
    """Processes that compile at the same time can give the code for two types the same file name."""
    (tmp_path / "kernel.py").write_text(
        "from fastanchors._jit import jit\n\n\n@jit\ndef total(values):\n    return values.sum()\n"
    )
    env = bare_environment(PACKAGE.parent, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    code = "import numpy as np; from kernel import total; print(total(np.ones(3)), total(np.ones(3, np.float32)))"
    assert run(code, tmp_path, env) == "3.0 3.0\n"
    first, second = sorted((tmp_path / "cache").rglob("*.nbc"))
    first.rename(first.with_suffix(".kept"))
    second.rename(first)
    first.with_suffix(".kept").rename(second)
    for _ in range(2):
        assert run(code, tmp_path, env) == "3.0 3.0\n"


@pytest.mark.parametrize("again", [False, True], ids=["compiled", "read from the cache"])
def test_a_handler_that_raises_waits_until_a_kernel_is_ready(tmp_path, again):
    """LLVM calls Python functions while it works: exceptions in them would be printed and lost."""
    (tmp_path / "kernel.py").write_text(
        "from fastanchors._jit import jit\n\n\n@jit\ndef double(x):\n    return 2 * x\n"
    )
    interrupted = """
        import signal, sys
        from kernel import double

        class Interrupted(Exception):
            pass

        def handler(*_):
            raise Interrupted

        def profile(frame, event, arg):
            if event == "call" and frame.f_code.co_name.startswith("_raw_object_cache"):
                sys.setprofile(None)
                print("called by LLVM")
                signal.raise_signal(signal.SIGINT)

        signal.signal(signal.SIGINT, handler)
        sys.setprofile(profile)
        try:
            double(21)
        except Interrupted:
            print("interrupted")
        print(double(21), len(double.signatures), sum(double.stats.cache_hits.values()))
    """
    env = bare_environment(PACKAGE.parent, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    if again:
        run("from kernel import double; double(1)", tmp_path, env)
    assert run(textwrap.dedent(interrupted), tmp_path, env).splitlines() == [
        "called by LLVM",
        "interrupted",
        f"42 1 {int(again)}",
    ]
