"""Kill a writer with SIGKILL at random moments and check the store it leaves.

A child process updates, appends, commits and compacts a store (or builds one, or replaces one that is read) and is
killed after a random time. The store must then open, pass ``fa.verify`` and hold exactly the state of one commit: the
last one confirmed, or the one in progress. The next child continues from there. A model in plain NumPy gives the
expected state. A store that was being replaced must be the old one or the new one, and readers keep the old one.

    python benchmarks/crash.py --count 1000
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import fastanchors as fa
import fastanchors.store.store as store_module
from fastanchors.store import Sidecar
from fastanchors.store import build_directory as place

sys.path.insert(0, str(Path(__file__).parent))
from _table import Report, arguments

COLUMNS = 12
TRANSACTIONS = 12


class RowSums(Sidecar):
    """A test sidecar whose files could be lost: row sums beside each shard, and one file for the whole store."""

    name = "sums"

    @classmethod
    def load(cls, shared):
        return cls()

    def begin(self, block):
        return {"columns": np.array([block.shape[1]])}

    def add_block(self, block, first_row):
        rows = block.rows(np.arange(block.shape[0]), view=False)
        return {"sums": np.asarray(rows.sum(axis=1)).reshape(-1)}

    def finish(self, store):
        return {"total": np.array([store.frobenius_norm])}


def transactions(seed, rows):
    """The work of one child: a list of transactions, each a list of operations; the last sets the commit's number."""
    rng = np.random.default_rng(seed)
    plan = []
    for number in range(TRANSACTIONS):
        operations = []
        for _ in range(rng.integers(1, 4)):
            kind = rng.choice(["set", "many", "add", "append", "append large"], p=[0.3, 0.3, 0.15, 0.15, 0.1])
            if kind == "set":
                operations.append(("set", rng.integers(rows), rng.integers(1, COLUMNS), rng.integers(0, 9)))
            elif kind in ("many", "add"):
                i, j = rng.integers(0, rows, 20), rng.integers(1, COLUMNS, 20)
                operations.append((kind, i, j, rng.integers(0, 9, 20)))
            else:
                count = int(rng.integers(1, 4) if kind == "append" else rng.integers(40, 60))
                new = rng.integers(0, 9, (count, COLUMNS)) * (rng.random((count, COLUMNS)) < 0.4)
                operations.append(("append", new))
                rows += count
        operations.append(("number", number + 1))
        if rng.random() < 0.15:
            operations.append(("compact",))
        plan.append(operations)
    return plan


def apply_to_store(S, operation):
    kind, *arguments = operation
    if kind == "set":
        i, j, x = arguments
        S[int(i), int(j)] = int(x)
    elif kind == "many":
        S.update(*arguments)
    elif kind == "add":
        S.add(*arguments)
    elif kind == "append":
        S.append(arguments[0])
    elif kind == "number":
        S[0, 0] = arguments[0]


def apply_to_model(A, operation):
    kind, *arguments = operation
    if kind in ("set", "many"):
        i, j, x = (np.atleast_1d(a) for a in arguments)
        for row, column, value in zip(i, j, x, strict=True):
            A[row, column] = value
    elif kind == "add":
        np.add.at(A, (arguments[0], arguments[1]), arguments[2])
    elif kind == "append":
        A = np.concatenate([A, arguments[0]])
    elif kind == "number":
        A[0, 0] = arguments[0]
    return A


def work(path, seed, rows, report):
    """The work of a child; it reports each commit as confirmed."""
    with fa.open(path, mode="r+", sidecars=[RowSums]) as S:
        for plan in transactions(seed, rows):
            for operation in plan:
                apply_to_store(S, operation)
            S.commit()
            if plan[-1][0] == "compact":
                S.compact()
            os.write(report, b"c")


def killed_after(seconds, function, *arguments):
    """Run ``function(*arguments, pipe)`` in a forked child and kill it: (bytes reported, whether it had finished)."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        status = 1
        try:
            function(*arguments, writer)
            status = 0
        except BaseException as error:  # the parent prints it
            os.write(2, f"child: {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(status)
    os.close(writer)
    deadline = time.perf_counter() + seconds
    status = None
    while time.perf_counter() < deadline:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        time.sleep(0.0002)
    else:
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    reported = b""
    while piece := os.read(reader, 4096):
        reported += piece
    os.close(reader)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise AssertionError("the child failed by itself")
    return reported, os.WIFEXITED(status)


def contents(path):
    """The stored matrix as committed, dense."""
    with fa.open(path) as S:
        i, j = np.indices(S.shape)
        return S.raw(i, j)


def trial_updates(path, model, seed, rng, longest):
    """Kill one child while it changes the store; returns the state of the store afterwards."""
    model = model.copy()
    model[0, 0] = 0
    with fa.open(path, mode="r+", sidecars=[RowSums]) as S:
        S[0, 0] = 0
    reported, finished = killed_after(rng.random() * longest, work, path, seed, len(model))
    fa.verify(path)
    found = contents(path)
    number = int(found[0, 0])
    confirmed = len(reported)
    if not confirmed <= number <= confirmed + 1:
        raise AssertionError(f"{confirmed} commits were confirmed, the store is at {number}")
    for plan in transactions(seed, len(model))[:number]:
        for operation in plan:
            model = apply_to_model(model, operation)
    if not np.array_equal(found, model):
        raise AssertionError(f"the store is not in the state of commit {number}")
    with fa.open(path, mode="r+", sidecars=[RowSums]):
        pass  # recovery by a writer
    left = sorted(os.listdir(path))
    known = {"lock", "manifest.json"} | fa.store.manifest.Manifest.read(path).files()
    with fa.open(path) as S:
        known |= {item["file"] for shard in S._mapped.shards if shard for item in shard.files()}
    if set(left) != known:
        raise AssertionError(f"left behind: {sorted(set(left) - known)}, missing: {sorted(known - set(left))}")
    return model, ("finished" if finished else "killed", "compacted" if S.generation > 1 else "journal only")


def trial_build(folder, A, rng, longest):
    path = folder / "built"
    killed_after(rng.random() * longest, lambda pipe: fa.build(A, path, memory_limit=1 << 22))
    appeared = path.exists()
    if appeared:
        fa.verify(path)
        if not np.array_equal(contents(path), A.toarray()):
            raise AssertionError("the build is not what was built")
        shutil.rmtree(path)
    fa.build(A, path, memory_limit=1 << 22).close()
    if sorted(os.listdir(folder)) != ["built", "store"]:
        raise AssertionError(f"left behind: {sorted(os.listdir(folder))}")
    shutil.rmtree(path)
    return ("build", "appeared" if appeared else "nothing there")


def trial_replace(folder, A, rng, longest, *, slowly):
    """Kill one child while it replaces a store; ``slowly``: as on a disk without atomic exchange of two names."""
    path = folder / "built"
    fa.build(A[:500], path, memory_limit=1 << 22).close()

    def replace(pipe):
        if slowly:
            place.exchange = lambda one, other: False
        fa.build(A, path, memory_limit=1 << 22, overwrite=True)

    with fa.open(path) as reader:
        killed_after(rng.random() * longest, replace)
        if slowly and not path.exists():  # killed between two renames: the next build restores the old name
            try:
                fa.build(A, path)
            except fa.errors.StoreError as error:
                if "exists already" not in str(error):
                    raise
        fa.verify(path)
        found = contents(path)
        replaced = len(found) == A.shape[0]
        if not np.array_equal(found, (A if replaced else A[:500]).toarray()):
            raise AssertionError("the store is neither the old one nor the new one")
        if not np.array_equal(reader.raw(*np.indices(reader.shape)), A[:500].toarray()):
            raise AssertionError("the reader's store has changed under it")
    fa.build(A[:10], path, overwrite=True).close()
    if sorted(os.listdir(folder)) != ["built", "store"]:
        raise AssertionError(f"left behind: {sorted(os.listdir(folder))}")
    shutil.rmtree(path)
    return ("replace", "the new store" if replaced else "the old store")


def fresh(path, rng, *, sparse, normalize):
    """A new small store; returns the model of its state."""
    model = rng.integers(0, 9, (40, COLUMNS)) * (rng.random((40, COLUMNS)) < 0.4)
    model[0, 0] = 0
    source = sp.csr_array(model) if sparse else model
    fa.build(source, path, overwrite=True, normalize=normalize, sidecars=[RowSums()]).close()
    return model


def warm_up(folder, large):
    """Load every kernel here, so that children need not; returns the seconds of work and of a build."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    seconds = []
    for sparse in (True, False):
        for normalize in ("l1", None):
            rows = len(fresh(folder / "store", np.random.default_rng(0), sparse=sparse, normalize=normalize))
            for seed in (0, 1):
                fa.verify(folder / "store")
                start = time.perf_counter()
                work(folder / "store", seed, rows, nowhere)
                seconds.append(time.perf_counter() - start)
    os.close(nowhere)
    start = time.perf_counter()
    fa.build(large, folder / "built", memory_limit=1 << 22).close()
    building = time.perf_counter() - start
    shutil.rmtree(folder / "built")
    return np.median(seconds), building


def run(count, seed=0, every=25, echo=lambda text: None):
    """Kill ``count`` children; returns the count of each outcome. Raises at the first incorrect store."""
    rng = np.random.default_rng(seed)
    outcomes = Counter()
    large = sp.random_array((20_000, 30), density=0.2, rng=rng, format="csr")
    inline, store_module._INLINE_ROWS = store_module._INLINE_ROWS, 1 << 13  # so that both ways of appending occur
    folder = Path(tempfile.mkdtemp(prefix="fastanchors-crash-"))
    try:
        path = folder / "store"
        longest, longest_build = warm_up(folder, large)
        for trial in range(count):
            if trial % every == 0:
                kind = trial // every
                model = fresh(path, rng, sparse=kind % 2 == 0, normalize=None if kind % 4 > 1 else "l1")
            if trial % 10 == 7:
                slowly = trial % 20 == 7
                outcomes[trial_replace(folder, large, rng, 1.1 * longest_build, slowly=slowly)] += 1
            elif trial % 5 == 4:
                outcomes[trial_build(folder, large, rng, 1.1 * longest_build)] += 1
            else:
                model, outcome = trial_updates(path, model, seed * 1_000_003 + trial, rng, 1.2 * longest)
                outcomes[outcome] += 1
            if trial % 100 == 99:
                echo(f"{trial + 1} kills, all in order")
        return outcomes
    finally:
        store_module._INLINE_ROWS = inline
        shutil.rmtree(folder, ignore_errors=True)


def main():
    options = arguments(__doc__, count={"type": int, "default": 1000}, seed={"type": int, "default": 0})
    count = 50 if options.quick else options.count
    report = Report("crash", "Writers killed at random moments", options)
    start = time.perf_counter()
    outcomes = run(count, options.seed, echo=lambda text: print(text, file=sys.stderr))
    report.text(
        f"{count} writers killed with SIGKILL at random moments in {time.perf_counter() - start:.0f} s. After each the"
        " store opened, passed `fa.verify` and held exactly a committed state."
    )
    report.table(
        ["the child", "the store afterwards", "times"],
        [(child, after, times) for (child, after), times in sorted(outcomes.items())],
    )
    report.save()


if __name__ == "__main__":
    main()
