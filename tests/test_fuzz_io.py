"""Damaged files of every format are read, or refused with one short error of the library.

A short run of ``benchmarks/siege_io.py`` with fixed seeds. It shares the test's process, so only libraries that are
known not to crash on the damage chosen here see byte-level damage at length; the benchmark runs each format apart.
"""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from mutations import SAMPLES, attempt, damage

NEEDS = {"h5ad": "h5py", "mat 7.3": "h5py", "netcdf": "h5py", "parquet": "pyarrow", "zarr": "zarr"}
NEEDS |= {"geotiff": "rasterio", "texts parquet": "pyarrow"}
ROUNDS = 25


@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_files_are_read_or_refused(name, tmp_path):
    for start, package in NEEDS.items():
        if name.startswith(start):
            pytest.importorskip(package, reason="extra io")
    (tmp_path / "good").mkdir()
    path = SAMPLES[name](tmp_path / "good")
    assert attempt(path) == "read"
    outcomes = set()
    for seed in range(ROUNDS):
        place = tmp_path / "bad"
        shutil.copytree(tmp_path / "good", place)
        damage(place / path.name, np.random.default_rng([seed, 7]))
        outcome = attempt(place / path.name)
        assert outcome in ("read", "refused"), f"{name}, seed {seed}: {outcome}"
        outcomes.add(outcome)
        shutil.rmtree(place)
    assert "refused" in outcomes  # otherwise the damage is too small to test anything
