"""Names that load on first use: what the packages' ``__getattr__`` share."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

__all__ = ["load", "names"]


def load(package: str, home: Mapping[str, str], name: str) -> Any:
    """``name`` of ``package`` from the module that ``home`` says it lives in; the package keeps it from then on.

    A name that lives in itself (``"metrics": "metrics"``) is that module.
    """
    if name not in home:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    value: Any = importlib.import_module(f".{home[name]}", package)
    if home[name] != name:
        value = getattr(value, name)
    setattr(sys.modules[package], name, value)
    return value


def names(package: str, home: Mapping[str, str]) -> list[str]:
    """For ``dir``: the public names of the package, and what Python puts into every module."""
    module = vars(sys.modules[package])
    return sorted({*home, *module["__all__"], *(name for name in module if name.startswith("__"))})
