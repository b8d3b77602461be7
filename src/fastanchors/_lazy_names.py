"""Load public names on first use: shared by the ``__getattr__`` of the packages."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["load", "names"]


def load(package: str, home: Mapping[str, str], name: str) -> Any:
    """Import ``name`` of ``package`` from the module ``home[name]``, and store it in the package.

    If name and module are the same (``"metrics": "metrics"``), the name is the module.
    """
    if name not in home:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    from ._signals import deferred_signals  # start-up

    with deferred_signals():  # Python cannot import some packages again that were half imported
        value: Any = importlib.import_module(f".{home[name]}", package)
    if home[name] != name:
        value = getattr(value, name)
    setattr(sys.modules[package], name, value)
    return value


def names(package: str, home: Mapping[str, str]) -> list[str]:
    """The result of ``dir``: the public names of the package, and the dunder names of every module."""
    module = vars(sys.modules[package])
    return sorted({*home, *module["__all__"], *(name for name in module if name.startswith("__"))})
