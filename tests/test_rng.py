"""The rng convention: a Generator, a seed, or None."""

from __future__ import annotations

import numpy as np
import pytest

from fastanchors._rng import as_generator, spawn
from fastanchors.errors import InvalidInputError, InvalidTypeError


def test_a_generator_passes_through_and_advances():
    rng = np.random.default_rng(1)
    assert as_generator(rng) is rng
    assert as_generator(rng).random() != as_generator(rng).random()


@pytest.mark.parametrize("seed", [0, 7, np.int64(7), np.uint8(3), 2**100])
def test_a_seed_gives_the_same_stream_each_time(seed):
    assert as_generator(seed).random() == np.random.default_rng(int(seed)).random()
    assert as_generator(seed).random() == as_generator(seed).random()


def test_a_seed_sequence_is_a_seed():
    assert as_generator(np.random.SeedSequence(5)).random() == as_generator(5).random()


def test_none_is_fresh_entropy():
    assert as_generator().random() != as_generator(None).random()


def test_a_negative_seed_is_refused():
    with pytest.raises(InvalidInputError, match="non-negative seed, got -1"):
        as_generator(-1)


@pytest.mark.parametrize("wrong", [True, 1.5, "7", np.random.RandomState(0), [1]])
def test_other_types_are_refused(wrong):
    with pytest.raises(InvalidTypeError, match=f"Generator, an int seed or None, got {type(wrong).__name__}"):
        as_generator(wrong)


def test_children_are_reproducible_and_differ():
    first, second = (spawn(as_generator(3), 4) for _ in range(2))
    draws = [child.random() for child in first]
    assert draws == [child.random() for child in second]
    assert len(set(draws)) == 4
    parent = as_generator(3)
    assert spawn(parent, 1)[0].random() != spawn(parent, 1)[0].random()
