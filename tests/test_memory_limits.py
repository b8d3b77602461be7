"""The memory that a process may use: of the machine, of its container, of its address space."""

import numpy as np
import pytest

from fastanchors._validate import memory
from fastanchors.errors import TooLargeError
from fastanchors.fas.seek import _beyond_memory
from fastanchors.matrix import open_matrix

resource = pytest.importorskip("resource")
GB = 1 << 30


def fake(root, monkeypatch, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    monkeypatch.setattr(memory, "_PROC", root / "proc")
    monkeypatch.setattr(memory, "_GROUPS", root / "groups")
    monkeypatch.setattr(memory, "_physical", lambda: 64 * GB)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (resource.RLIM_INFINITY,) * 2)


MEMINFO = {"proc/meminfo": f"MemTotal: {64 * GB // 1024} kB\nMemAvailable:   {50 * GB // 1024} kB\n"}
SECOND = {
    "proc/self/cgroup": "0::/pod/box\n",
    "groups/pod/box/memory.max": "max\n",
    "groups/pod/box/memory.current": f"{2 * GB}\n",
    "groups/pod/memory.max": f"{8 * GB}\n",
    "groups/pod/memory.current": f"{5 * GB}\n",
    "groups/pod/memory.stat": f"anon 77\ninactive_file {GB // 2}\nactive_file {GB // 2}\n",
}
FIRST = {
    "proc/self/cgroup": "5:cpu,cpuacct:/\n4:memory:/docker/1a\n0::/\n",
    "groups/memory/memory.limit_in_bytes": f"{4 * GB}\n",
    "groups/memory/memory.usage_in_bytes": f"{3 * GB}\n",
    "groups/memory/memory.stat": f"inactive_file 5\ntotal_inactive_file {GB}\ntotal_active_file {GB}\n",
}


@pytest.mark.parametrize(
    ("files", "total", "available"),
    [
        ({}, 64, 64),
        (MEMINFO, 64, 50),
        (MEMINFO | SECOND, 8, 4),
        (MEMINFO | FIRST, 4, 3),
        (MEMINFO | FIRST | {"groups/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 64, 50),
        (MEMINFO | SECOND | {"groups/pod/memory.current": f"{90 * GB}"}, 8, 0),
    ],
)
def test_limits_of_containers_count(tmp_path, monkeypatch, files, total, available):
    fake(tmp_path, monkeypatch, files)
    assert memory.total_memory() == total * GB
    assert memory.available_memory() == available * GB


def test_a_limit_of_the_address_space_counts(tmp_path, monkeypatch):
    fake(tmp_path, monkeypatch, MEMINFO | {"proc/self/status": f"Name:\tpython\nVmSize:\t {1 * GB // 1024} kB\n"})
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (3 * GB, 6 * GB))
    assert memory.total_memory() == 3 * GB
    assert memory.available_memory() == 2 * GB


def test_both_users_see_the_limit_of_a_container(tmp_path, monkeypatch):
    np.save(tmp_path / "a.npy", np.ones((300, 100)))
    matrix = open_matrix(tmp_path / "a.npy")
    assert not _beyond_memory(matrix)
    fake(tmp_path, monkeypatch, FIRST | {"groups/memory/memory.limit_in_bytes": "200000"})
    assert _beyond_memory(matrix)
    with pytest.raises(TooLargeError, match=r"0 GB are available"):
        memory.check_draws(1 << 20)
