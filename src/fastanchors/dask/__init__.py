"""Run the library on Dask, for matrices larger than one machine. Dask does all scheduling and messaging.

- ``fa.build(dask_array_or_dataframe, path)`` writes each block on its worker (:mod:`~fastanchors.dask.build`);
- :func:`connect` opens a store whose shards are read by workers (:mod:`~fastanchors.dask.remote_store`);
- every solver accepts a Dask array, and ``fa.encode`` returns a lazy one (:mod:`~fastanchors.dask.blockwise`).

Everything runs on the caller's client if there is one, otherwise on Dask's current scheduler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._lazy_names import load, names

# For type checkers and editors; a test checks that it matches the table below.
if TYPE_CHECKING:
    from .matrix import DaskMatrix as DaskMatrix
    from .remote_store import RemoteStore as RemoteStore
    from .remote_store import connect as connect

_HOME = {"DaskMatrix": "matrix", "RemoteStore": "remote_store", "connect": "remote_store"}

__all__ = ["DaskMatrix", "RemoteStore", "connect"]


if not TYPE_CHECKING:  # so that type checkers reject a name that is not listed above

    def __getattr__(name: str) -> Any:
        return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return names(__name__, _HOME)
