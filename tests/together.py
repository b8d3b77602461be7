"""Run one writer and many readers of a store, in processes and threads, against a model of every committed state.

State number v is computed from v alone, and the store contains v. A reader that opens the store must find exactly one
of these states: not older than the last one confirmed before opening, not newer than the last one begun. All threads of
the reader then read and seek in that state, whatever the writer does meanwhile.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import fastanchors as fa

ROWS, COLUMNS = 60, 7
THREADS = 3


class Model:
    """The states of the store by number."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, 0])
        self.seed, self.number = seed, 0
        self.A = rng.integers(0, 6, (ROWS, COLUMNS)).astype(float)
        self.A[0, 0] = 0

    def change(self, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        """The change from the previous state to this one: entries, and rows to append."""
        rng = np.random.default_rng([self.seed, number])
        rows = ROWS + 2 * ((number - 1) // 5)
        i, j = np.divmod(rng.choice(np.arange(1, rows * COLUMNS), 30, replace=False), COLUMNS)
        new = rng.integers(0, 6, (2, COLUMNS)).astype(float) if number % 5 == 0 else None
        return np.append(i, 0), np.append(j, 0), np.append(rng.integers(0, 6, 30), number).astype(float), new

    def at(self, number: int) -> np.ndarray:
        """The state with that number; numbers must not decrease between calls."""
        assert number >= self.number, f"state {number} after state {self.number}"
        while self.number < number:
            self.number += 1
            i, j, x, new = self.change(self.number)
            self.A[i, j] = x
            if new is not None:
                self.A = np.concatenate([self.A, new])
        return self.A


def write(path: Path, seed: int, seconds: float, begun: Any, confirmed: Any) -> None:
    """Commit one state after another; sometimes compact, and sometimes reopen the store."""
    model, number, end = Model(seed), 0, time.monotonic() + seconds
    S = fa.open(path, mode="r+")
    while time.monotonic() < end:
        number += 1
        i, j, x, new = model.change(number)
        S.update(i, j, x)
        if new is not None:
            S.append(new)
        begun.value = number
        S.commit()
        confirmed.value = number
        if number % 9 == 0:
            S.compact()
        if number % 14 == 0:
            S.close()
            S = fa.open(path, mode="r+")
    S.close()


def read(path: Path, seed: int, seconds: float, begun: Any, confirmed: Any, told: Any) -> None:
    """Open and check the store repeatedly; report the number of correct checks, and the error if any."""
    model, looks, end = Model(seed), 0, time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            least = confirmed.value
            with fa.open(path) as S:
                number = int(S.raw(0, 0))
                assert least <= number <= begun.value, f"state {number}, from {least} to {begun.value} were possible"
                _look(S, model.at(number))
            looks += 1
        told.put((looks, ""))
    except BaseException:
        told.put((looks, traceback.format_exc()))


def _look(S: fa.Store, A: np.ndarray) -> None:
    """Several threads read and check one store at the same time, each all of it."""
    plain = sp.csr_array(A / np.maximum(A.sum(axis=1, keepdims=True), 1))
    want = fa.SPA(allow_fewer=True).seek(plain, 4).indices.tolist()
    wrong: list[str] = []

    def work(turn: int) -> None:
        try:
            if turn:
                found = fa.FAS(selection="spa", allow_fewer=True).seek(S, 4, rng=0)
                assert found.certificate.kind != "exact" or found.indices.tolist() == want, f"{found} for {want}"
            assert np.array_equal(S.raw(*np.indices(S.shape)), A), "the rows are of another state"
            assert plain[S.sample_rows(20, rng=turn)].sum(axis=1).all(), "an empty row was drawn"
            assert np.isclose(S.frobenius_norm**2, (plain**2).sum()), "the sums are of another state"
        except BaseException:
            wrong.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise AssertionError("\n".join(wrong))


def together(path: Path, seed: int, readers: int, seconds: float, *, sparse: bool) -> tuple[int, int, list[str]]:
    """(states committed, checks by readers, errors)."""
    A = Model(seed).A
    fa.build(sp.csr_array(A) if sparse else A, path).close()
    context = multiprocessing.get_context("fork")
    begun, confirmed, told = context.Value("l", 0), context.Value("l", 0), context.Queue()
    children = [context.Process(target=write, args=(path, seed, seconds, begun, confirmed))]
    for _ in range(readers):
        children.append(context.Process(target=read, args=(path, seed, seconds, begun, confirmed, told)))
    for child in children:
        child.start()
    results = [told.get(timeout=seconds + 120) for _ in range(readers)]
    for child in children:
        child.join()
    wrong = [text for _, text in results if text]
    wrong += [f"a process ended with {child.exitcode}" for child in children if child.exitcode]
    fa.verify(path)
    with fa.open(path) as S:
        if not np.array_equal(S.raw(*np.indices(S.shape)), Model(seed).at(confirmed.value)):
            wrong.append("the last state is not the one confirmed last")
    return confirmed.value, sum(looks for looks, _ in results), wrong


def one_matrix(seconds: float) -> tuple[int, int, list[str]]:
    """Threads on one in-memory matrix, one of them writing: (states, answers, errors)."""
    S = fa.SampleMatrix(np.ones((200, COLUMNS)), normalize=None)
    i, j = np.indices(S.shape)
    end, wrong, counts = time.monotonic() + seconds, [], {"states": 0, "answers": 0}

    def repeat(do: Any) -> None:
        number = 0
        while time.monotonic() < end and not wrong:
            number += 1
            try:
                do(number)
            except fa.errors.ConcurrentAccessError:
                time.sleep(0.0005)
            except BaseException:
                wrong.append(traceback.format_exc())

    def change(number: int) -> None:
        S.update(i.ravel(), j.ravel(), np.full(i.size, 1.0 + number % 7))
        counts["states"] += 1
        time.sleep(0.002)

    def look(number: int) -> None:
        rows = S.rows(np.arange(200)) if number % 2 else S.raw(i, j)
        assert (rows == rows[0, 0]).all(), "rows of two states"
        assert fa.FAS(selection="spa", allow_fewer=True).seek(S, 1, rng=0).indices.tolist() == [0]
        counts["answers"] += 1

    threads = [threading.Thread(target=repeat, args=(do,)) for do in (change, look, look, look)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    S.check()
    return counts["states"], counts["answers"], wrong
