"""Validate arguments: each public function checks them once, and private functions compute on clean arrays."""

from .arguments import (
    as_dtype,
    check_callable,
    check_choice,
    check_dtype,
    check_flag,
    check_number,
    check_rank,
    check_size,
    check_text,
    check_tolerance,
)
from .arrays import as_array, as_matrix, as_numbers, as_reals, check_index, check_one_index, check_unmasked
from .entries import as_numeric, check_finite, check_objects, check_unrounded, check_whole_objects, in_type, numeric
from .frames import check_frame, kind_of, plain_dtype
from .kinds import check_no_group, computed, is_anndata, is_dask, package
from .memory import available_memory, check_draws, check_memory, total_memory
from .names import check_list, name_list
from .sparse import as_csr, check_extent, check_sparse, csr_of, is_canonical

__all__ = [
    "as_array",
    "as_csr",
    "as_dtype",
    "as_matrix",
    "as_numbers",
    "as_numeric",
    "as_reals",
    "available_memory",
    "check_callable",
    "check_choice",
    "check_draws",
    "check_dtype",
    "check_extent",
    "check_finite",
    "check_flag",
    "check_frame",
    "check_index",
    "check_list",
    "check_memory",
    "check_no_group",
    "check_number",
    "check_objects",
    "check_one_index",
    "check_rank",
    "check_size",
    "check_sparse",
    "check_text",
    "check_tolerance",
    "check_unmasked",
    "check_unrounded",
    "check_whole_objects",
    "computed",
    "csr_of",
    "in_type",
    "is_anndata",
    "is_canonical",
    "is_dask",
    "kind_of",
    "name_list",
    "numeric",
    "package",
    "plain_dtype",
    "total_memory",
]
