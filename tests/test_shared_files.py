"""Files that threads, or a process and its forks, read at once: each gets what is there, and no piece of another."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.io

import fastanchors as fa
from fastanchors.io.name_spool import NameSpool
from fastanchors.io.positions import read_bytes, write_bytes
from fastanchors.io.scratch import scratch_file

ROWS = 3000
NAMES = [f"name-{i}-" + "x" * (i % 17) for i in range(ROWS)]


@pytest.fixture
def matrix(tmp_path):
    lines = [f"{name},{i},{i % 7},1" for i, name in enumerate(NAMES)]
    (tmp_path / "a.csv").write_text("\n".join(["name,a,b,c", *lines]))
    found = fa.open_matrix(tmp_path / "a.csv")
    assert isinstance(found.row_names, NameSpool)
    return found


def wrong(names, seed: int, count: int) -> int:
    chosen = np.random.default_rng(seed).integers(0, ROWS, count).tolist()
    return sum(names[i] != NAMES[i] for i in chosen) + (list(names) != NAMES)


def test_names_read_by_threads(matrix):
    """Each thread moved the position of the file for all, so that names of other rows and pieces of names came out."""
    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(lambda seed: wrong(matrix.row_names, seed, 2000), range(8))) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_names_read_by_forks(matrix):
    children = []
    for seed in range(3):
        child = os.fork()
        if child == 0:
            os._exit(min(wrong(matrix.row_names, seed, 4000), 100))
        children.append(child)
    assert wrong(matrix.row_names, 9, 4000) == 0
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]


@pytest.mark.parametrize("packed", [True, False])
def test_a_mat_file_read_by_threads(tmp_path, packed):
    cube = np.arange(24_000.0).reshape(40, 30, 20)
    scipy.io.savemat(tmp_path / "a.mat", {"cube": cube}, do_compression=packed)
    expected, source = cube.reshape(1200, 20, order="F"), fa.apps.read_cube(tmp_path / "a.mat").source
    start = threading.Barrier(4)

    def read(max_bytes):
        start.wait()
        return [np.array_equal(np.concatenate(list(source.blocks(max_bytes))), expected) for _ in range(5)]

    with ThreadPoolExecutor(4) as pool:
        assert np.all(list(pool.map(read, [400, 500, 3000, 70_000])))


@pytest.mark.parametrize("system", [True, False], ids=["positions", "seek"])
def test_bytes_at_positions(monkeypatch, system):
    if not system:
        for name in ("pread", "pwrite"):
            monkeypatch.delattr(os, name, raising=False)
    with scratch_file() as file:
        write_bytes(file, 3, b"defg")
        write_bytes(file, 0, b"abc")
        assert [read_bytes(file, *at) for at in ((2, 3), (0, 7), (5, 9), (7, 1))] == [b"cde", b"abcdefg", b"fg", b""]
