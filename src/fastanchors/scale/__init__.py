"""The same steps on Dask, for matrices that outgrow one machine: no scheduler and no messages of our own.

- ``fa.build(dask_array_or_dataframe, path)`` writes shards where the blocks are (:mod:`~fastanchors.scale.build`);
- :func:`connect` opens a store whose shards are answered for by workers (:mod:`~fastanchors.scale.remote`);
- every solver takes a Dask array, ``fa.encode`` gives a lazy one (:mod:`~fastanchors.scale.lazy`).

All of it runs on the caller's client if there is one, else on Dask's current scheduler.
"""

from __future__ import annotations

from typing import Any

__all__ = ["RemoteStore", "connect"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from . import remote

        return getattr(remote, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
