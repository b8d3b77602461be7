"""Base class that gives objects scikit-learn's ``get_params`` and ``set_params``, and a readable ``repr``."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from ._equality import same
from .errors import InvalidInputError

__all__ = ["Parameters"]

_Self = TypeVar("_Self", bound="Parameters")


class Parameters:
    """Base of objects whose options are the keywords of their ``__init__``, kept under the same names.

    ``sklearn.base.clone`` can then copy a solver, and ``GridSearchCV`` can set its options (``solver__robust``).
    """

    @classmethod
    def _option_names(cls) -> list[str]:
        signature = inspect.signature(cls.__init__)
        return [p.name for p in signature.parameters.values() if p.name != "self" and p.kind is not p.VAR_KEYWORD]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The options by name. ``deep`` is accepted for scikit-learn and has no effect."""
        return {name: getattr(self, name) for name in self._option_names()}

    def set_params(self: _Self, **params: Any) -> _Self:
        """Change options; all of them are checked as in ``__init__``, and nothing changes on an error."""
        options = self.get_params()
        for name in params:
            if name not in options:
                known = ", ".join(options) or "none"
                raise InvalidInputError(f"{type(self).__name__} has no option {name!r} (its options: {known})")
        made = type(self)(**{**options, **params})
        self.__dict__.clear()
        self.__dict__.update(made.__dict__)
        return self

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({options})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and same(self.get_params(), other.get_params())

    __hash__ = None  # type: ignore[assignment]
