"""Processes of tests: one that is killed at its first call, and several that run at the same time."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from typing import Any


def die_once(flag: str) -> None:
    """Kill this process at the first call; ``flag`` is the file that tells."""
    try:
        os.close(os.open(flag, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def die_once_at(block: Any, flag: str) -> Any:
    """The block; the process that computes the first one is killed, once."""
    die_once(flag)
    return block


def exit_codes(processes: Sequence[BaseProcess]) -> list[int | None]:
    """Run the processes at the same time; their exit codes, sorted."""
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    return sorted(process.exitcode for process in processes)
