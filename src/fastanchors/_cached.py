"""A property that is computed once for each object, without the lock of ``functools.cached_property``.

Before Python 3.12 that lock is common to all objects and held during the computation: a fork made meanwhile by another
thread waits for it without end. Here two threads may compute the same value; the last one is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["cached"]

_Value = TypeVar("_Value")


class cached(Generic[_Value]):
    """Decorate a method without arguments whose value is kept in the attributes of the object."""

    def __init__(self, compute: Callable[[Any], _Value]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached[_Value]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> _Value: ...
    def __get__(self, instance: object | None, owner: type) -> cached[_Value] | _Value:
        if instance is None:
            return self
        value = self._compute(instance)
        vars(instance)[self._name] = value  # found before this descriptor from now on
        return value
