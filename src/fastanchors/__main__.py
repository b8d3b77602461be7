"""``python -m fastanchors`` is the ``fastanchors`` command."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
