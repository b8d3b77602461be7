"""The writer renews the coordinates of a store when many rows, or rows of a new kind, are committed."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse

import fastanchors as fa
from fastanchors.errors import CorruptStoreError, StoreError
from fastanchors.fas.following import Watched
from fastanchors.fas.noise_aware import summary_of
from fastanchors.greedy import coordinates
from fastanchors.greedy.anchoring import spread_of_noise
from fastanchors.greedy.coordinates import block_coordinates
from fastanchors.greedy.extremes import Extremes, towards
from fastanchors.store import renew as renew_module
from fastanchors.store import store as store_module
from fastanchors.store.manifest import Manifest
from fastanchors.store.shards import MappedShards
from fastanchors.store.sidecars import commit_of

ROWS, COLUMNS = 20_000, 40


def rows(count: int, seed: int = 0) -> np.ndarray:
    """Noisy mixtures of four components; a fifth one is in :func:`new_kind`."""
    rng = np.random.default_rng(seed)
    H = np.random.default_rng(9).gamma(0.3, size=(4, COLUMNS)) + 1e-3
    H /= H.sum(axis=1, keepdims=True)
    return np.maximum(
        rng.dirichlet(np.full(4, 0.4), count) @ H + 0.2 / COLUMNS * rng.standard_normal((count, COLUMNS)), 0
    )


def new_kind(count: int, seed: int = 1) -> np.ndarray:
    noise = np.abs(np.random.default_rng(seed).standard_normal((count, COLUMNS)))
    return np.eye(1, COLUMNS, 7) + 0.2 / COLUMNS * noise


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """20,000 rows, of which the store keeps the coordinates of the extreme ones and a sample; few directions."""
    path = tmp_path_factory.mktemp("renewal") / "s"
    fa.build(rows(ROWS), path, directions=8).close()
    return path


@pytest.fixture
def path(built, tmp_path) -> Path:
    shutil.copytree(built, tmp_path / "s")
    return tmp_path / "s"


def commit(path: Path, *parts: np.ndarray) -> None:
    with fa.open(path, "r+") as S:
        for part in parts:
            S.append(part)
            S.commit()


def described(path: Path) -> tuple[int, int]:
    """Generation and commit of the coordinates that the manifest names."""
    manifest = Manifest.read(path)
    return manifest.extras["coordinates.whole"]["generation"], commit_of(manifest, "coordinates")


def wholes(path: Path) -> list[str]:
    return sorted(name for name in os.listdir(path) if ".coordinates." in name)


def test_the_writer_renews_once_and_readers_read_only_what_came_later(path):
    commit(path, rows(20, 2), new_kind(40), rows(10, 3))
    assert described(path) == (1, 2)
    assert wholes(path) == ["whole-000001-000002.coordinates.bin"]  # the file before is removed
    with fa.open(path) as S:
        found = fa.FAS().seek(S, 5)
        assert found.cost.rows_read == 10
        assert found.certificate.kind == "sampled"  # candidates and sample are those of before
        assert found.points[:, 7].max() > 0.9
    script = (
        "import sys, fastanchors as fa; found = fa.FAS().seek(fa.open(sys.argv[1]), 5)\n"
        "print(*found.indices, found.cost.rows_read)"
    )
    other = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
    assert other.stdout.split() == [*map(str, found.indices), "10"]
    fa.verify(path)


def test_ordinary_rows_and_single_outliers_renew_nothing(path):
    before = (path / "manifest.json").read_bytes()
    far = np.vstack([np.eye(1, COLUMNS, 3) * 9, np.eye(1, COLUMNS, 11), np.eye(1, COLUMNS, 29)])
    commit(path, rows(50, 4), far, rows(5, 5))
    assert (path / "manifest.json").read_bytes() == before


def test_a_kind_that_comes_row_by_row_is_noticed(path):
    commit(path, *new_kind(60)[:, None])
    assert described(path)[1] > 2
    with fa.open(path) as S:
        assert fa.FAS().seek(S, 5).points[:, 7].max() > 0.9


def test_writer_and_readers_agree(path):
    with fa.open(path, "r+") as S:
        S.append(new_kind(40))
        unwritten = fa.FAS().seek(S, 5)  # from the coordinates of before, and the rows in memory
        S.commit()
        assert fa.FAS().seek(S, 5) == unwritten
        with fa.open(path) as R:
            assert fa.FAS().seek(R, 5) == unwritten


def test_new_coordinates_are_those_of_their_frame(path):
    commit(path, new_kind(40), rows(30, 6))
    with fa.open(path) as S:
        summary = summary_of(S, 5)
        at, V = summary.coordinates, summary.coordinates.frame.directions
        np.testing.assert_allclose(V.T @ V, np.eye(8), atol=1e-12)
        values, left, _ = block_coordinates(0, S.rows(summary.rows), at.frame)
        np.testing.assert_allclose(at.values, values, atol=1e-6)
        np.testing.assert_allclose(at.left, left, atol=1e-6)
        assert np.linalg.norm((np.eye(1, COLUMNS, 7) - at.frame.centre) * at.frame.scale @ V) > 0.9 * np.linalg.norm(
            (np.eye(1, COLUMNS, 7) - at.frame.centre) * at.frame.scale
        )


def test_compaction_makes_them_from_all_rows_again(path):
    commit(path, new_kind(40))
    with fa.open(path, "r+") as S:
        S.compact()
    assert described(path) == (2, 0)
    assert len(wholes(path)) == 1
    with fa.open(path) as S:
        found = fa.FAS().seek(S, 5)
        assert (found.cost.rows_read, found.certificate.kind) == (0, "exact")
        assert found.points[:, 7].max() > 0.9


def test_a_renewed_sidecar_beside_an_earlier_journal_is_not_used(path):
    journal = next(path.glob("journal-*.log"))
    before = journal.read_bytes()
    with fa.open(path) as S:
        expected = fa.FAS().seek(S, 4)
    commit(path, new_kind(40))
    journal.write_bytes(before)  # a copy from before the commit
    with fa.open(path) as S:
        assert S.sidecar_arrays("coordinates") is None
        assert fa.FAS().seek(S, 4).indices.max() < ROWS
        np.testing.assert_allclose(fa.FAS().seek(S, 4).points, expected.points, atol=0.01)
    with pytest.raises(CorruptStoreError, match="of commit 1, but its journal has 0"):
        fa.verify(path)


@pytest.mark.parametrize("kinds", [None, ()])
def test_a_writer_drops_a_sidecar_of_a_later_commit(path, kinds):
    """A copy made during commits can have the journal of before; later commits must not make the sidecar valid."""
    journal = path / Manifest.read(path).journal
    before = journal.read_bytes()
    commit(path, rows(20, 2), new_kind(40))
    assert described(path) == (1, 2)
    journal.write_bytes(before)
    for seed in range(3, 7):
        with fa.open(path, "r+", sidecars=kinds) as S:
            S.append(rows(60, seed))
    assert "coordinates.whole" not in Manifest.read(path).extras
    assert wholes(path) == []
    fa.verify(path)


def test_a_full_disk_keeps_a_commit_from_reviving_a_sidecar(path, monkeypatch):
    journal = path / Manifest.read(path).journal
    before = journal.read_bytes()
    commit(path, new_kind(40))
    journal.write_bytes(before)

    def full(*_):
        raise OSError(errno.ENOSPC, "no space")

    with fa.open(path, "r+") as S:
        S.append(rows(60, 3))
        with monkeypatch.context() as patch:
            patch.setattr("fastanchors.store.manifest.replace_file", full)
            with pytest.raises(StoreError, match="disk is full"):
                S.commit()
        S.commit()
    assert fa.verify(path)["rows"] == ROWS + 60


def test_threads_that_seek_first_get_one_answer(path):
    commit(path, new_kind(40), rows(30, 6))
    with fa.open(path) as S:
        expected = fa.FAS().seek(S, 5)
    for _ in range(3):
        with fa.open(path) as S:
            barrier, found = threading.Barrier(4), []

            def seek(S=S, barrier=barrier, found=found):
                barrier.wait()
                found.append(fa.FAS().seek(S, 5))

            threads = [threading.Thread(target=seek) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert found == [expected] * 4


def test_readers_open_while_another_process_renews(path):
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import numpy as np, fastanchors as fa\n"
        "from test_store_renewal import new_kind, COLUMNS\n"
        "with fa.open(sys.argv[2], 'r+') as S:\n"
        "    for j in range(12):\n"
        "        S.append(np.roll(new_kind(12, j), 3 * j, axis=1)); S.commit()\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script, str(Path(__file__).parent), str(path)])
    seen = set()
    while writer.poll() is None or not seen:
        with fa.open(path) as S:
            heights = S.shape[0], fa.FAS().seek(S, 5).indices.max()
            assert (heights[0] - ROWS) % 12 == 0
            assert heights[1] < heights[0]
            seen.add(heights[0])
    assert writer.returncode == 0
    assert described(path)[1] > 1
    fa.verify(path)


@pytest.mark.parametrize("place", ["sync_directory", "manifest", "remove_leftovers"])
def test_a_writer_killed_while_renewing_leaves_a_complete_store(path, place):
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); import fastanchors as fa\n"
        "from fastanchors.store import renew, store\n"
        "from test_store_renewal import new_kind\n"
        "S = fa.open(sys.argv[2], 'r+'); S.append(new_kind(40))\n"
        "die = lambda *_: os._exit(9)\n"
        "if sys.argv[3] == 'manifest': renew.Manifest.write = die\n"
        "else: setattr(renew if sys.argv[3] == 'sync_directory' else store, sys.argv[3], die)\n"
        "S.commit()"
    )
    parts = [sys.executable, "-c", script, str(Path(__file__).parent), str(path), place]
    assert subprocess.run(parts, check=False).returncode == 9
    renewed = place == "remove_leftovers"
    assert described(path) == (1, int(renewed))
    assert len(wholes(path)) == 2
    fa.verify(path)
    with fa.open(path) as S:
        assert S.shape[0] == ROWS + 40
        found = fa.FAS().seek(S, 5)
        assert found.points[:, 7].max() > 0.9
        assert found.cost.rows_read == 0 if renewed else 40 < found.cost.rows_read < ROWS // 2  # no pass
    commit(path, new_kind(5))  # the next writer removes the file that nothing names, and renews
    assert len(wholes(path)) == 1
    assert described(path) == (1, 1 if renewed else 2)
    fa.verify(path)


def test_a_full_disk_leaves_the_commit_and_the_coordinates_of_before(path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with fa.open(path, "r+") as S:
        monkeypatch.setattr(renew_module.Manifest, "write", full)
        S.append(new_kind(40))
        with pytest.warns(UserWarning, match="committed, but not renewed its sidecars"):
            S.commit()
        monkeypatch.undo()
        assert wholes(path) == ["whole-000001.coordinates.bin"]
        assert fa.FAS().seek(S, 5).points[:, 7].max() > 0.9
        S.append(new_kind(3))
        S.commit()
    assert described(path) == (1, 2)
    fa.verify(path)


@pytest.mark.parametrize(("step", "what"), [("renew", "renewed its sidecars"), ("compact", "compacted")])
@pytest.mark.parametrize("error", [MemoryError, RuntimeError("can't start new thread")])
def test_a_commit_is_done_though_memory_or_threads_do_not_suffice_for_what_follows(
    path, monkeypatch, step, what, error
):
    """A MemoryError came out, and who repeated the append doubled the rows."""

    def short(*_):
        raise error

    with fa.open(path, "r+") as S:
        monkeypatch.setattr(store_module, "worth_compacting", lambda _: step == "compact")
        monkeypatch.setattr(store_module, step, short)
        S.append(new_kind(40))
        with pytest.warns(UserWarning, match=f"committed, but not {what}: (MemoryError|can't start)"):
            S.commit()
        monkeypatch.undo()
        S.append(new_kind(3))
        S.commit()
        rows = S.shape[0]
    fa.verify(path)
    with fa.open(path) as S:
        assert S.shape[0] == rows


def test_a_renewal_that_fails_after_its_manifest_is_in_place_closes_the_store(path, monkeypatch):
    """The manifest names the new files: they must stay, and further commits must not go on from the old manifest."""

    def failing(self, manifest):
        raise OSError(errno.EIO, "Input/output error")

    S = fa.open(path, "r+")
    S.append(new_kind(40))
    with monkeypatch.context() as patch:
        patch.setattr(MappedShards, "follow", failing)
        with pytest.raises(StoreError, match="renew the sidecars of"):
            S.commit()
    with pytest.raises(StoreError, match="is closed; open it again"):
        S.append(new_kind(3))
    assert described(path) == (1, 1)
    assert "whole-000001-000001.coordinates.bin" in wholes(path)
    fa.verify(path)
    commit(path, new_kind(3))
    assert wholes(path) == ["whole-000001-000001.coordinates.bin"]  # the file before is removed
    with fa.open(path) as R:
        assert R.shape[0] == ROWS + 43
        assert fa.FAS().seek(R, 5).points[:, 7].max() > 0.9
    fa.verify(path)


def test_compaction_keeps_the_number_of_directions(path, tmp_path):
    with fa.open(path, "r+") as S:
        S.append(rows(3))
        S.compact()
        assert S.sidecar_arrays("coordinates")[0]["directions"].shape[1] == 8
    with fa.build(rows(30), tmp_path / "small") as S:  # too few rows for the usual number
        assert S.sidecar_arrays("coordinates")[0]["directions"].shape[1] == 29
        S.append(rows(300))
        S.compact()
        assert S.sidecar_arrays("coordinates")[0]["directions"].shape[1] == 32


@pytest.mark.parametrize("number", ["1", -1, 1 << 70, None, 1.0])
def test_a_forged_number_of_commits_is_refused(path, number):
    manifest = Manifest.read(path)
    manifest.extras["coordinates.whole"]["commit"] = number
    manifest.write(path)
    with pytest.raises(CorruptStoreError, match="commit"):
        fa.open(path)


# --- many changed rows ------------------------------------------------------------------------------------------------


def truth() -> np.ndarray:
    H = np.random.default_rng(9).gamma(0.3, size=(4, COLUMNS)) + 1e-3
    return H / H.sum(axis=1, keepdims=True)


def angle(points: np.ndarray, expected: np.ndarray) -> float:
    """The largest angle between an expected profile and the nearest point."""
    a, b = (X / np.linalg.norm(X, axis=1, keepdims=True) for X in (points, expected))
    return float(np.arccos(np.minimum(1, b @ a.T).max(axis=1)).max())


@pytest.mark.parametrize("count", [600, 5_000, 12_000])
def test_no_reader_pays_for_many_changed_rows(path, count):
    commit(path, rows(count, 2), rows(7, 3))
    assert described(path) == (1, 1)
    with fa.open(path) as S:
        found = fa.FAS().seek(S, 4)
        assert (found.cost.rows_read, found.certificate.kind) == (7, "sampled")
        assert angle(found.points, truth()) < 0.05
        summary = summary_of(S, 4)
        assert len(summary.candidates) < 8_000  # not all of the new rows
        assert abs((summary.rows[summary.sample] >= ROWS).mean() - count / (ROWS + count)) < 0.05
    fa.verify(path)


def test_rows_that_changed_more_and_more_are_followed_without_a_pass(path):
    with fa.open(path, "r+") as S:
        new = rows(3_600, 4)
        for start in range(0, 3_600, 400):  # 18 % of the rows in 9 commits
            at = np.arange(start, start + 400)
            S.update(at[:, None], np.arange(COLUMNS), new[at])
            S.commit()
    assert described(path) == (1, 8)  # the last 400 rows are not many
    with fa.open(path) as S:
        found = fa.FAS().seek(S, 4)
        assert found.cost.rows_read == 400
        assert angle(found.points, truth()) < 0.05


def test_coordinates_are_made_again_when_half_of_the_rows_have_changed(path):
    commit(path, rows(9_000, 5), rows(9_000, 6))
    with fa.open(path) as S:
        assert fa.FAS().seek(S, 4).certificate.kind == "sampled"
    commit(path, rows(3_000, 7))
    assert described(path) == (1, 3)
    with fa.open(path) as S:
        found = fa.FAS().seek(S, 4)
        assert (found.cost.rows_read, found.certificate.kind) == (0, "exact")


@pytest.mark.parametrize("piece", [100, 1 << 16])
def test_appended_rows_enter_the_sample_in_pieces_too(path, piece, monkeypatch):
    monkeypatch.setattr("fastanchors.fas.following._PIECE", piece)
    with fa.open(path, "r+") as S:
        before = summary_of(S, 4)
        S.append(rows(900, 8))
        after = summary_of(S, 4)
        assert (after.height, after.total) == (ROWS + 900, ROWS + 900)
        step = round(before.total / len(before.sample))
        new = after.rows[after.sample][after.rows[after.sample] >= ROWS]
        np.testing.assert_array_equal(new, [row for row in range(ROWS, ROWS + 900) if row % step == 0])


def test_coordinates_that_cannot_be_kept_are_not_tried_at_each_commit(path, monkeypatch):
    monkeypatch.setattr("fastanchors.fas.noise_aware.CoordinatesSidecar._can_be_kept", lambda *_: False)
    tried = []
    follow = Watched.current
    monkeypatch.setattr(Watched, "current", lambda self, store: (tried.append(1), follow(self, store))[1])
    commit(path, rows(600, 2), rows(300, 3), rows(300, 4), rows(100, 5))
    assert len(tried) == 2  # with 600 and with 1,200 rows
    assert described(path) == (1, 0)


def test_only_extreme_candidates_are_kept_of_many_new_rows(path):
    with fa.open(path, "r+") as S:
        S.append(rows(900, 8))
        kept = summary_of(S, 4)
        at = kept.coordinates
        again = Extremes(towards(at.values[kept.sample]))
        noise = spread_of_noise(at.frame, at.left)
        again.look(at.values, noise, np.arange(len(kept.rows)))  # also of the rows that are in the sample only
        assert set(kept.candidates) <= set(again.rows())
        assert len(kept.candidates) > 0.9 * len(again.rows())
        new = np.arange(ROWS, ROWS + 900)
        values = block_coordinates(0, S.rows(new), at.frame)[0]
        all_new = Extremes(again.directions)
        all_new.look(values, np.full(900, np.median(noise)), new)
        assert 0 < np.isin(all_new.rows(), kept.rows[kept.candidates]).sum() < 900


def test_a_small_store_without_coordinates_is_read_once_in_a_process(tmp_path):
    fa.build(rows(5_000), tmp_path / "s").close()
    with fa.open(tmp_path / "s") as S:
        assert S.sidecar_arrays("coordinates") is None  # they would make it much larger
        assert 5_000 <= fa.FAS().seek(S, 4).cost.rows_read <= 10_000  # directions, then a pass
        assert fa.FAS().seek(S, 5).cost.rows_read == 0


def test_a_store_that_grows_from_few_rows_gets_a_sample(tmp_path):
    fa.build(rows(4_000), tmp_path / "s", directions=4).close()
    with fa.open(tmp_path / "s", "r+") as S:
        assert S.sidecar_arrays("coordinates") is not None
        assert summary_of(S, 4).complete
        for part in range(6):
            S.append(rows(2_000, 20 + part))
            S.commit()
        summary = summary_of(S, 4)
        assert not summary.complete
        assert len(summary.rows) < 12_000
        assert (summary.height, summary.total) == S.shape[:1] * 2
        assert angle(fa.FAS().seek(S, 4).points, truth()) < 0.05


@pytest.mark.parametrize("first", [1, 3, 10])
@pytest.mark.parametrize("later", [5, 300, 7000])
def test_a_store_that_begins_with_few_rows_gets_all_directions(tmp_path, first, later):
    """Few rows, some of them zero, have few directions; the store keeps more once it has more rows."""
    A = rows(first + later)
    A[1:first:3] = 0
    with fa.build(A[:first], tmp_path / "s") as S:
        S.append(A[first:])
        for state in ("in memory", "committed", "compacted"):
            found = fa.FAS(selection="lifted").seek(S, 4)
            assert found.indices.tolist() == fa.FAS(selection="lifted").seek(A, 4).indices.tolist(), state
            assert found.certificate.details["coordinates"] == min(32, np.count_nonzero(A.any(axis=1)) - 1)
            S.commit() if state == "in memory" else S.compact()


@pytest.mark.parametrize("changed", [1, 5000])
def test_negative_entries_of_changed_rows_are_refused(tmp_path, changed):
    with fa.build(rows(ROWS), tmp_path / "s", normalize=None) as S:
        S.update(np.arange(changed), 0, -1.0)
        for _ in ("in memory", "committed"):
            with pytest.raises(fa.errors.InvalidInputError, match="negative entries"):
                fa.FAS(selection="lifted").seek(S, 4)
            S.commit()
        S.update(np.arange(changed), 0, 1.0)
        assert len(fa.FAS(selection="lifted").seek(S, 4)) == 4


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("height", [3000, 20_000])
def test_a_negative_entry_outside_the_pilot_is_refused(tmp_path, sparse, height, monkeypatch):
    """Directions come from a pilot (here of 2,048 rows); the pass that computes coordinates sees every row."""
    monkeypatch.setattr(coordinates, "PILOT_ENTRIES", 1 << 10)
    A = rows(height)
    drawn = np.random.default_rng(0).choice(height, 2048, replace=False)
    A[np.setdiff1d(np.arange(height), drawn)[height // 3 % 700], 4] = -1e-3
    refused = pytest.raises(fa.errors.InvalidInputError, match="negative entries")
    source = scipy.sparse.csr_array(A) if sparse else A
    with refused:
        fa.FAS(selection="lifted").seek(fa.SampleMatrix(source, normalize=None), 4)
    with fa.build(source, tmp_path / "s", normalize=None, directions=8) as S:
        assert S.sidecar_arrays("coordinates") is None
        for state in ("built", "changed", "committed", "compacted"):
            with refused:
                fa.FAS(selection="lifted").seek(S, 4)
            if state == "built":
                S[0, 0] = 1.0
            elif state == "changed":
                S.commit()
            else:
                S.compact()
        where = np.argwhere(A < 0)[0]
        S[tuple(where)] = 0.25
        S.compact()
        assert len(fa.FAS(selection="lifted").seek(S, 4)) == 4
    fa.verify(tmp_path / "s")


def test_coordinates_of_an_earlier_release_are_used_as_they_are(tmp_path, monkeypatch):
    """It noticed negative entries of the pilot only: such a store opens and answers as it did."""
    monkeypatch.setattr(coordinates, "PILOT_ENTRIES", 1 << 10)
    A = rows(ROWS)
    drawn = np.random.default_rng(0).choice(ROWS, 2048, replace=False)
    A[np.setdiff1d(np.arange(ROWS), drawn)[100], 4] = -1e-3
    with monkeypatch.context() as before:
        before.setattr("fastanchors.greedy.notable.check_not_negative", lambda rows: None)
        fa.build(A, tmp_path / "s", normalize=None, directions=8).close()
    fa.verify(tmp_path / "s")
    with fa.open(tmp_path / "s", mode="r+") as S:
        assert len(fa.FAS(selection="lifted").seek(S, 4)) == 4
        S.compact()  # makes them again
    with fa.open(tmp_path / "s") as S, pytest.raises(fa.errors.InvalidInputError, match="negative entries"):
        fa.FAS(selection="lifted").seek(S, 4)


def test_rows_that_are_too_few_for_k_are_a_rank_error_in_a_store_too(tmp_path):
    A = np.zeros((20, 12))
    A[[3, 7]] = rows(2)[:, :12]
    with fa.build(A, tmp_path / "s") as S, pytest.raises(fa.errors.RankError, match="at most 2 anchors"):
        fa.FAS(selection="lifted").seek(S, 4)


def test_coordinates_with_rows_that_became_zero_are_valid(tmp_path):
    A = fa.datasets.separable(300, 13, 3, rng=0).A
    path = tmp_path / "rows.store"
    fa.build(A, path).close()
    with fa.open(path, mode="r+") as S:
        S.update(np.full(13, 5), np.arange(13), np.zeros(13))
        for row in (10, 20, 30, 40):  # a new kind: the commit adds directions
            S.update(np.full(13, row), np.arange(13), np.eye(13)[2] * 9)
    fa.verify(path)
    with fa.open(path) as S:
        assert S.sidecar_arrays("coordinates") is not None
        assert len(fa.FAS(selection="lifted").seek(S, 3)) == 3
