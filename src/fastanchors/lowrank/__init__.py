"""Low-rank algorithms by sampling: FKV, factored vectors, products, rejection, linear systems, CUR."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._lazy_names import load, names

# What type checkers and editors see; a test keeps it equal to the table below.
if TYPE_CHECKING:
    from .cur_decomposition import CUR as CUR
    from .cur_decomposition import cur as cur
    from .factored import FactoredVectors as FactoredVectors
    from .linear_system import LinearSolution as LinearSolution
    from .linear_system import solve as solve
    from .product import estimate_product as estimate_product
    from .rejection import sample_combination as sample_combination
    from .sampled_svd import fkv as fkv
    from .sampled_svd import fkv_sample_size as fkv_sample_size

# Public name -> its module. No module may have the name of a function: importing it would replace the function.
_HOME = {
    "CUR": "cur_decomposition",
    "FactoredVectors": "factored",
    "LinearSolution": "linear_system",
    "cur": "cur_decomposition",
    "estimate_product": "product",
    "fkv": "sampled_svd",
    "fkv_sample_size": "sampled_svd",
    "sample_combination": "rejection",
    "solve": "linear_system",
}

__all__ = [
    "CUR",
    "FactoredVectors",
    "LinearSolution",
    "cur",
    "estimate_product",
    "fkv",
    "fkv_sample_size",
    "sample_combination",
    "solve",
]


if not TYPE_CHECKING:  # type checkers report every name that is not listed above

    def __getattr__(name: str) -> Any:
        return load(__name__, _HOME, name)


def __dir__() -> list[str]:
    return names(__name__, _HOME)
