"""Many blocks as one matrix: items sorted by block, work split between threads, and buffered entries."""

from __future__ import annotations

import copy
import pickle
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import fastanchors as fa
from fastanchors._parallel import one_thread
from fastanchors.sampling import merging
from fastanchors.sampling.block_stack import by_block, sorted_places
from fastanchors.sampling.block_stack_kernels import choose_blocks, holding_blocks
from fastanchors.sampling.drawing import split
from fastanchors.sampling.make_block import make_block
from fastanchors.sampling.row_block import Block
from fastanchors.sampling.sparse_block import SparseBlock
from naive import stack as naive

SEEDS = st.integers(0, 2**32 - 1)


def matrix_of(parts, normalize="l1"):
    blocks = [make_block(part, l1=normalize is not None) for part in parts]
    return fa.SampleMatrix.from_blocks(blocks, normalize)


def some_parts(rng, heights=(300, 1, 200, 77, 400), n=60, density=0.3):
    return [sp.csr_array(sp.random(m, n, density, rng=rng, format="csr")) for m in heights]


# --- kernels and their twins ------------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.integers(0, 50), SEEDS)
def test_holding_blocks(blocks, count, seed):
    rng = np.random.default_rng(seed)
    starts = np.append(0, np.cumsum(rng.integers(0, 4, blocks)))
    values = rng.integers(0, starts[-1] + 3, count)
    which = np.empty(count, np.int32)
    holding_blocks(starts, blocks, values, which)
    assert which.tolist() == naive.holding(starts[:-1], values)


@given(st.integers(1, 40), SEEDS)
def test_split_and_choose_never_take_a_block_of_weight_zero(blocks, seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 3, blocks).astype(float)  # sums of small integers are exact
    weights[rng.integers(0, blocks)] = 2.0
    r = np.append(rng.random(30), [0.0, np.nextafter(1.0, 0.0)])
    want = [naive.choose(weights, x) for x in r]
    which, u = split(weights, r)
    assert which.tolist() == want
    below = np.cumsum(weights) - weights
    np.testing.assert_array_equal(u, r * weights.sum() - below[want])
    chosen = np.empty(len(r), np.int32)
    choose_blocks(np.cumsum(weights)[None, :], np.zeros(len(r), np.int64), r, chosen)
    assert chosen.tolist() == want


def test_choose_blocks_beyond_the_last_sum_takes_the_last_nonzero_block():
    """A uniform of 1 represents one that rounding has moved to the total."""
    sums = np.cumsum([[1.0, 0.0, 2.0, 0.0], [0.5, 0.0, 0.0, 0.0]], axis=1)
    chosen = np.empty(2, np.int32)
    choose_blocks(sums, np.array([0, 1]), np.ones(2), chosen)
    assert chosen.tolist() == [2, 0]
    assert split(np.array([1.0, 0.0, 2.0, 0.0]), np.ones(1))[0].tolist() == [2]


@given(st.integers(1, 30), st.integers(0, 60), SEEDS)
def test_sorted_places(blocks, count, seed):
    which = np.random.default_rng(seed).integers(0, blocks, count).astype(np.int32)
    order, bounds = sorted_places(which, blocks)
    assert (order.tolist(), bounds) == naive.sorted_places(which, blocks)
    groups = dict(by_block(which, blocks))
    assert sorted(groups) == np.unique(which).tolist()
    assert all((which[at] == b).all() for b, at in groups.items())


def test_places_sorted_in_threads():
    which = np.random.default_rng(0).integers(0, 300, 250_001)
    order, bounds = sorted_places(which, 301)
    np.testing.assert_array_equal(order, np.argsort(which, kind="stable"))
    np.testing.assert_array_equal(bounds, np.searchsorted(np.sort(which), np.arange(302)))


@pytest.mark.parametrize("normalize", ["l1", None])
@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
def test_one_kernel_gives_the_same_as_several(normalize, columns, dtype):
    """Stored entries, with and without inserted ones: every array is the same, bit for bit."""
    rng = np.random.default_rng(1)
    A = sp.csr_array((rng.integers(1, 9, (500, 90)) * (rng.random((500, 90)) < 0.5)).astype(dtype))
    fast, slow = (SparseBlock.build(A, l1=normalize is not None, columns=columns) for _ in range(2))
    slow._set_stored = lambda i, j, x: False
    for step in range(6):
        entry = rng.integers(0, A.nnz, 200 if step % 2 else 1)
        i, j = np.searchsorted(A.indptr, entry, side="right") - 1, A.indices[entry].astype(np.int64)
        x = rng.integers(0, 40 if step < 3 else 2, len(i)).astype(dtype)
        for block in (fast, slow):
            if step == 3:  # inserted entries from here on
                block.write(np.arange(40), np.full(40, 7), np.full(40, 3, dtype))
            block.write(i, j, x)
        for one, other in zip(_everything(fast), _everything(slow), strict=True):
            np.testing.assert_array_equal(one, other)
        fast.check()
    absent = np.flatnonzero(A.toarray()[0] == 0)[-1:]
    before = [array.copy() for array in _everything(fast)]
    assert not fast._set_stored(np.append(i, 0), np.append(j, absent), np.append(x, dtype(1)))
    assert all(map(np.array_equal, before, _everything(fast)))  # nothing is done if an entry does not exist
    assert fast._set_stored(i, j, x)
    assert fast.inserted is not None


def _everything(block: Block):
    view = block.view
    arrays = [*block.sides.rows[:8], *block.sides.columns[:8], *view.weights, *view.totals, *view[2:]]
    return arrays + (block.inserted.arrays() if block.inserted is not None else [])


# --- answers of many blocks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drifted", [False, True])
def test_draws_do_not_depend_on_threads(drifted):
    rng = np.random.default_rng(2)
    S = matrix_of(some_parts(rng))
    if drifted:
        S.update(rng.integers(0, 978, 300), rng.integers(0, 60, 300), rng.random(300))
    rows, columns = S.sample_rows(120_000, rng=1), S.sample_columns(120_000, rng=2)
    inside = S.sample_in_row(rows, rng=3), S.sample_in_column(columns, rng=4)
    with one_thread():
        np.testing.assert_array_equal(rows, S.sample_rows(120_000, rng=1))
        np.testing.assert_array_equal(columns, S.sample_columns(120_000, rng=2))
        np.testing.assert_array_equal(inside[0], S.sample_in_row(rows, rng=3))
        np.testing.assert_array_equal(inside[1], S.sample_in_column(columns, rng=4))


def test_blocks_of_columns_are_the_same_by_table_and_one_by_one(monkeypatch):
    """Many draws use the sums of all columns at once; few columns, or very many, only the requested sums."""
    S = matrix_of(some_parts(np.random.default_rng(3)))
    columns = S.sample_columns(5000, rng=1)
    whole = S.sample_in_column(columns, rng=2)
    monkeypatch.setattr("fastanchors.sampling.drawing._SUMS", 64)
    np.testing.assert_array_equal(whole, S.sample_in_column(columns, rng=2))


@pytest.mark.parametrize("times", [1, 200])
def test_zero_rows_and_columns_are_named(times):
    parts = some_parts(np.random.default_rng(4))
    dense = [part.toarray() for part in parts]
    dense[2][5] = 0
    for part in dense:
        part[:, 11] = 0
    S = matrix_of([sp.csr_array(part) for part in dense])
    with pytest.raises(fa.errors.InvalidInputError, match="row 306 is zero"):
        S.sample_in_row(np.repeat([0, 306, 900], times), rng=0)
    with pytest.raises(fa.errors.InvalidInputError, match="column 11 is zero"):
        S.sample_in_column(np.repeat([0, 11, 12], times), rng=0)


@pytest.mark.parametrize("normalize", ["l1", None])
def test_rows_from_blocks_with_zeros_and_with_new_entries(normalize):
    rng = np.random.default_rng(5)
    parts = some_parts(rng)
    S, stored = matrix_of(parts, normalize), np.concatenate([part.toarray() for part in parts])
    asked = rng.integers(0, len(stored), 400)
    for step in range(3):
        i, j = rng.integers(0, 301 if step == 1 else len(stored), 50), rng.integers(0, 60, 50)
        x = rng.random(50) * (rng.random(50) < 0.6)
        if step > 0:
            S.update(i, j, x)
            stored[i, j] = x  # in NumPy the last one wins, too
        l1 = stored.sum(axis=1, keepdims=True)
        view = stored / np.where(l1 > 0, l1, 1) if normalize else stored
        got = S.rows(asked)
        np.testing.assert_allclose(got.toarray(), view[asked], rtol=1e-14)
        assert got.has_canonical_format
        assert got.nnz == np.count_nonzero(stored[asked])
    assert S.rows([]).shape == (0, 60)


# --- entries buffered -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_once", [1, 50, 1 << 17])
@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.uint8])
def test_merged_entries_are_those_of_scipy(dtype, columns, at_once, monkeypatch):
    monkeypatch.setattr(merging, "_AT_ONCE", at_once)
    monkeypatch.setattr(merging, "_PARTS", 1000)
    rng = np.random.default_rng(0)
    A = (rng.integers(1, 9, (200, 30)) * (rng.random((200, 30)) < 0.1)).astype(dtype)
    A[50:60] = A[199] = 0
    block = SparseBlock.build(sp.csr_array(A), l1=True, columns=columns)
    for new in (0, 300):
        i, j, x = rng.integers(0, 199, new), rng.integers(0, 30, new), rng.integers(0, 3, new).astype(dtype)
        block.write(i, j, x)
        for each in zip(i, j, x, strict=True):
            A[each[0], each[1]] = each[2]
        rows, across = merging.merged(block, merging.in_memory)
        expected = sp.csr_array(A)
        for found, wanted in [(rows, expected), (across, expected.tocsc() if columns else sp.csc_array((200, 0)))]:
            assert found.shape == wanted.shape
            np.testing.assert_array_equal(found.indptr, wanted.indptr)
            np.testing.assert_array_equal(found.indices, wanted.indices)
            np.testing.assert_array_equal(found.data, wanted.data)
        block.rebuilt().check()


def test_single_entries_are_visible_to_every_reader():
    rng = np.random.default_rng(6)
    for look in (
        lambda S: S.nnz,
        lambda S: S[3, 4],
        lambda S: S.frobenius_norm,
        lambda S: S.column_norm(4),
        lambda S: S.sample_in_row(3, rng=0),
        lambda S: S.rows([3]).toarray(),
        lambda S: S.l1_norm(3),
        lambda S: next(S.blocks(5))[1].toarray(),
        lambda S: S.memory > 0,
    ):
        parts = some_parts(np.random.default_rng(7))
        S, T = matrix_of(parts), matrix_of(parts)
        for i, j, x in zip(
            rng.integers(0, 978, 20).tolist(), rng.integers(0, 60, 20).tolist(), rng.random(20).tolist()
        ):
            S[i, j] = x
            T.update(i, j, x)
        S[3, 4], T._unused = 5.0, T.update(3, 4, 5.0)
        assert S._log.buffered
        np.testing.assert_array_equal(look(S), look(T))
        assert not S._log.buffered


def test_buffered_entries_keep_their_order_among_other_changes():
    S = fa.SampleMatrix(np.ones((4, 3)), None)
    S[0, 0] = 2.0
    S.update(0, 0, 3.0)
    assert S.raw(0, 0) == 3.0
    S[0, 0] = 4.0
    S.add(0, 0, 1.0)
    assert S.raw(0, 0) == 5.0
    S[1, 1] = 6.0
    S[1, 1] = 7.0
    S.append(np.full((1, 3), 9.0))
    S[4, 0] = 8.0
    assert (S.raw(1, 1), S.raw(4, 0), S.raw(4, 1)) == (7.0, 8.0, 9.0)
    S.check()


def test_buffered_entries_are_copied_and_pickled():
    S = fa.SampleMatrix(np.ones((4, 3)))
    S[2, 1] = 5.0
    for other in (copy.deepcopy(S), pickle.loads(pickle.dumps(S))):
        assert other.raw(2, 1) == 5.0
        other[2, 1] = 6.0
        assert S.raw(2, 1) == 5.0


def test_a_long_buffer_is_flushed():
    S = fa.SampleMatrix(sp.csr_array(np.eye(300)))
    for k in range(5000):
        S[k % 300, k % 299] = float(k + 1)
    assert len(S._log._buffer[0]) < 5000 - 4000
    assert S.raw(4999 % 300, 4999 % 299) == 5000.0


def test_readers_in_threads_see_all_that_was_buffered():
    S = matrix_of(some_parts(np.random.default_rng(8)))
    for round_ in range(20):
        for k in range(60):
            S[k * 16, k] = float(round_ + k + 1)
        seen, gate = [], threading.Barrier(4)

        def look(seen=seen, gate=gate):
            gate.wait()
            seen.append(S.raw(np.arange(60) * 16, np.arange(60)))

        readers = [threading.Thread(target=look) for _ in range(4)]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        assert len(seen) == 4
        for values in seen:
            np.testing.assert_array_equal(values, round_ + np.arange(60) + 1.0)


def test_an_interrupted_reader_loses_no_buffered_entry(monkeypatch):
    S = matrix_of(some_parts(np.random.default_rng(9)))
    S[0, 0], S[977, 3] = 2.0, 4.0

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(S._held[4], "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            S.raw(0, 0)
    assert (S.raw(0, 0), S.raw(977, 3)) == (2.0, 4.0)
    S.check()


@pytest.mark.parametrize("normalize", ["l1", None])
def test_many_entries_set_in_threads_are_as_set_one_after_another(normalize):
    """Also repeated entries, stored and new ones: the last wins, and every array is the same."""
    rng = np.random.default_rng(10)
    parts = some_parts(rng)
    S, T = matrix_of(parts, normalize), matrix_of(parts, normalize)
    i, j, x = rng.integers(0, 978, 6000), rng.integers(0, 60, 6000), rng.random(6000)
    S.update(i, j, x)
    with one_thread():
        T.update(i, j, x)
    for one, other in zip(S._blocks, T._blocks, strict=True):
        for a, b in zip(_everything(one), _everything(other), strict=True):
            np.testing.assert_array_equal(a, b)
    stored = np.concatenate([part.toarray() for part in parts])
    for k in range(6000):
        stored[i[k], j[k]] = x[k]
    np.testing.assert_array_equal(S.raw(*np.indices(stored.shape)), stored)
    S.check()
