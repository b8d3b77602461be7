"""A system without POSIX calls: everything but stores works, and a store raises a clear error."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import ctypes, multiprocessing, os, socket, subprocess, sys, tempfile, threading
import numba, numpy as np, scipy.sparse, sklearn.base

for name in ("fcntl", "resource", "pwd", "grp"):
    sys.modules[name] = None  # as where there is none
for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK", "register_at_fork", "sched_getaffinity", "getuid"):
    if hasattr(os, name):
        delattr(os, name)

import fastanchors as fa
from fastanchors.cli import main

folder = sys.argv[1]
X = fa.datasets.separable(300, 20, 4, rng=0).A
anchors = sorted(fa.FAS().seek(X, 4))
assert fa.SeparableNMF(4).fit_transform(X).shape == (300, 4)
for name, save in (("x.npy", np.save), ("x.csv", lambda path, X: np.savetxt(path, X, delimiter=","))):
    path = os.path.join(folder, name)
    save(path, X)
    assert sorted(fa.FAS().seek(path, 4)) == anchors, name
try:
    sys.argv = ["fastanchors", "seek", path, "-k", "4"]
    main()
except SystemExit as end:
    assert not end.code, end.code
S = fa.SampleMatrix(X)
S[0, 0] = 2.0
assert fa.fkv(S, 3, rows=100, columns=20, rng=0) is not None
for call in (lambda: fa.build(X, os.path.join(folder, "x.store")), lambda: fa.open(folder)):
    try:
        call()
    except fa.errors.StoreError as error:
        assert "WSL" in str(error), error
    else:
        raise AssertionError("a store without locks")
print("done")
"""


def test_everything_but_stores_works_without_posix_calls(tmp_path):
    end = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, text=True, timeout=300)
    assert end.stdout.endswith("done\n"), end.stderr
