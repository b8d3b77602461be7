"""A signal handler that raises, at any line of the library: nothing is half-done, and the same object can go on."""

from __future__ import annotations

import ast
import gc
import os
import shutil
import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors import _signals
from fastanchors._signals import deferred_signals
from fastanchors.io.addresses import RemotePath
from fastanchors.io.envi import header_fields
from fastanchors.io.numbers import line_chunks, open_bytes, read_line
from fastanchors.io.row_source import reading
from fastanchors.store.build import build
from fastanchors.store.file_cache import FileCache
from fastanchors.store.files import disk_errors
from fastanchors.store.manifest import Manifest
from interrupts import Interrupted, interrupted_at, work
from store_trials import STEPS, check, make

pytestmark = [
    pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="no such signals here"),
    # A signal may come between the opening of a file and its `with` statement; the file is then closed when collected.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize(("sparse", "first"), [(True, 17), (False, 40)], ids=["sparse", "dense"])
def test_work_on_a_store_goes_on_after_an_interrupt_at_any_line(tmp_path, sparse, first):
    made = tmp_path / "made"
    make(made, sparse=sparse)
    trials = 0
    for chosen in range(first, 1_000_000, 307):
        path = tmp_path / str(chosen)
        shutil.copytree(made, path)
        lines = work(path, chosen)
        if lines.place is None:
            break
        try:
            check(path, len(STEPS), len(STEPS))
        except Exception as error:
            raise AssertionError(f"interrupted at {lines.place}") from error
        trials += 1
    assert trials > 20


def test_a_build_that_is_interrupted_at_any_line_leaves_nothing(tmp_path):
    A = np.arange(80).reshape(20, 4) % 7
    for chosen in range(3, 1_000_000, 307):
        with interrupted_at(chosen) as lines, suppress(Interrupted):
            fa.build(iter([A[:9], A[9:]]), tmp_path / "s").close()
        if lines.place is None:
            break
        gc.collect()
        if (tmp_path / "s").exists():  # interrupted after it was there
            fa.verify(tmp_path / "s")
        fa.build(A, tmp_path / "s", overwrite=True).close()
        assert os.listdir(tmp_path) == ["s"], lines.place
        shutil.rmtree(tmp_path / "s")
    assert chosen > 1000
    matrices, files = (A, A[::-1]), ("/build.py", "/build_directory.py")
    build(A, tmp_path / "s", overwrite=True).close()
    for chosen in range(0, 1_000_000, 3):
        with interrupted_at(chosen, files=files) as lines, suppress(Interrupted):
            build(matrices[chosen % 2], tmp_path / "s", overwrite=True).close()
        if lines.place is None:
            break
        assert os.listdir(tmp_path) == ["s"], lines.place
        fa.verify(tmp_path / "s")
        with fa.open(tmp_path / "s", "r+") as S:  # nothing keeps the lock
            assert any(np.array_equal(S.raw(*np.indices(A.shape)), state) for state in matrices), lines.place
    assert chosen > 100


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_entries_in_memory_are_all_set_or_none(kind):
    A = np.random.default_rng(0).integers(0, 3, (30, 5)).astype(float)
    i, j = np.arange(1, 30), np.arange(1, 30) % 5
    single, many = A.copy(), A.copy()
    single[0, 3] = many[0, 3] = 7.0
    many[i, j] = 9.0
    states = [A, single, many, np.concatenate([many, A[:2]])]
    for chosen in range(0, 1_000_000, 3):
        S = fa.SampleMatrix(kind(A), normalize=None)
        with interrupted_at(chosen) as lines, suppress(Interrupted):
            S[0, 3] = 7.0
            S.update(i, j, np.full(29, 9.0))
            S.append(kind(A[:2]))
        if lines.place is None:
            break
        S.check()
        found = S.raw(*np.indices(S.shape))
        assert any(np.array_equal(found, state) for state in states), lines.place
    assert chosen > 100


def test_buffered_entries_stay_pairs():
    """Row, column and value of an entry are buffered in one step."""
    for chosen in range(60):
        S = fa.SampleMatrix(np.eye(8), normalize=None)
        with interrupted_at(chosen):
            for k in range(8):
                with suppress(Interrupted):
                    S[k, 7 - k] = 5.0
        found = S.raw(*np.indices(S.shape)) - np.eye(8)
        assert set(zip(*np.nonzero(found))) <= {(k, 7 - k) for k in range(8)}


def test_an_interrupted_thread_does_not_keep_others_from_writing():
    S = fa.SampleMatrix(np.eye(8), normalize=None)
    with ThreadPoolExecutor(1) as pool:
        for chosen in range(60):
            with interrupted_at(chosen, "call"), suppress(Interrupted):
                S.row_norm(3)
                S.update([1], [2], [3.0])
            pool.submit(S.update, [2], [3], [4.0]).result()  # raises no ConcurrentAccessError


def test_handlers_run_after_the_context():
    seen = []
    before = {number: signal.signal(number, lambda *which: seen.append(which[0])) for number in (10, 12)}
    try:
        with deferred_signals():
            with deferred_signals():
                signal.raise_signal(10)
                signal.raise_signal(12)
            assert seen == []
        assert seen == [10, 12]
        handlers = [signal.getsignal(number) for number in before]
        with pytest.raises(ValueError, match="mine"), deferred_signals():
            raise ValueError("mine")
        assert handlers == [signal.getsignal(number) for number in before]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_a_handler_that_raises_raises_after_the_context():
    def first(*_):
        raise Interrupted

    seen = []
    before = signal.signal(signal.SIGUSR1, first), signal.signal(signal.SIGUSR2, lambda *_: seen.append(2))

    def both():
        with deferred_signals():
            signal.raise_signal(signal.SIGUSR1)
            signal.raise_signal(signal.SIGUSR2)
            seen.append("end")

    try:
        with pytest.raises(Interrupted):
            both()
        assert seen == ["end", 2]
        assert signal.getsignal(signal.SIGUSR1) is first
    finally:
        signal.signal(signal.SIGUSR1, before[0])
        signal.signal(signal.SIGUSR2, before[1])


def test_a_handler_that_raises_at_the_end_of_the_context_does_not_lose_others(monkeypatch):
    seen, set_signal = [], _signals.set_signal

    def raises(*_):
        monkeypatch.undo()
        raise Interrupted

    def work():
        with deferred_signals():
            signal.raise_signal(signal.SIGUSR2)
            monkeypatch.setattr(_signals, "set_signal", raises)

    before = signal.signal(signal.SIGUSR2, lambda *_: seen.append(2))
    try:
        with pytest.raises(Interrupted):
            work()
        assert seen == [2]
    finally:
        for number in _signals._SIGNALS:  # those that were not restored
            if getattr(signal.getsignal(number), "__name__", "") == "_receive":
                set_signal(number, signal.getsignal(number).__self__._handlers[number])
        signal.signal(signal.SIGUSR2, before)


@pytest.mark.parametrize("order", [[signal.SIGINT, signal.SIGALRM], [signal.SIGALRM, signal.SIGINT]])
def test_a_timeout_does_not_hide_an_interrupt(order):
    """The exception of the second handler replaced that of the first: Ctrl-C was lost beside a timeout."""

    def timeout(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, timeout), signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt) as raised, deferred_signals():
            list(map(signal.raise_signal, order))
    finally:
        signal.signal(signal.SIGALRM, before[0])
        signal.signal(signal.SIGINT, before[1])
    assert isinstance(raised.value.__context__, TimeoutError)


@contextmanager
def asking():
    """A file system in whose answer the block runs."""
    path = RemotePath("s3://b/x", None, "b/x")
    yield path._ask(lambda _: signal.raise_signal(signal.SIGALRM))


@pytest.mark.parametrize("kind", [ValueError, MemoryError, TimeoutError])
@pytest.mark.parametrize(
    "context",
    [
        lambda: reading("the rows"),
        lambda: disk_errors(Path("s"), "write"),
        asking,
        lambda: FileCache(Path("c"), None)._errors(),
    ],
)
def test_what_a_handler_raises_is_no_failure_of_a_file(context, kind):
    """A timeout of the caller became ``StoreError: cannot read …``; TimeoutError is an OSError."""

    def timeout(*_: object) -> None:
        raise kind("too long")

    before = signal.signal(signal.SIGALRM, timeout)
    try:
        with pytest.raises(kind, match=r"^too long$"), context():
            signal.raise_signal(signal.SIGALRM)
    finally:
        signal.signal(signal.SIGALRM, before)


class Slow:
    """A file or path of which each question takes too long."""

    def __truediv__(self, name):
        return self

    def __getattr__(self, name):
        return lambda *_, **__: signal.raise_signal(signal.SIGALRM)


@pytest.mark.parametrize(
    "read",
    [
        open_bytes,
        header_fields,
        Manifest.read,
        lambda path: read_line(path, "x", 1),
        lambda file: next(line_chunks(file, "x")),
    ],
)
def test_a_timeout_while_a_file_is_read_is_no_failure_of_it(read):
    """Where ``OSError`` becomes ``StoreError``, the ``TimeoutError`` of a handler did too."""

    def timeout(*_: object) -> None:
        raise TimeoutError("too long")

    before = signal.signal(signal.SIGALRM, timeout)
    try:
        with pytest.raises(TimeoutError, match=r"^too long$"):
            read(Slow())
    finally:
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    ("kind", "folders", "passed_on"),
    [
        ("Exception", ["**"], {"_parallel.py": 1, "parts.py": 2, "serve.py": 1}),  # to the thread that asked, or others
        ("OSError", ["io", "store"], {"scratch.py": 2, "build_directory.py": 1}),  # while handlers wait
    ],
)
def test_every_handler_of_exceptions_lets_those_of_signals_out(kind, folders, passed_on):
    """``except Exception`` or ``except OSError`` takes a timeout of the caller for a failure of what was being done."""
    tests = {"from_handler", "pass_on", "disk_error"}
    kept: Counter[str] = Counter()
    for path in (path for folder in folders for path in Path(fa.__file__).parent.glob(f"{folder}/*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            kinds = ast.unparse(node.type or ast.Name("Exception")) if isinstance(node, ast.ExceptHandler) else ""
            if kind in kinds.strip("()").split(", "):
                parts = list(ast.walk(node))
                asks = any(isinstance(part, ast.Name) and part.id in tests for part in parts)
                raises = kind == "OSError" and any(isinstance(part, ast.Raise) and part.exc is None for part in parts)
                kept[path.name] += not (asks or raises)
    assert +kept == passed_on
