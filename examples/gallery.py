"""Run every example of docs/gallery.md in a folder, and keep its figures there.

Run: python examples/gallery.py [FOLDER]   (needs the extra 'report'; by default docs/figures)
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

DOCS = Path(__file__).resolve().parent.parent / "docs"


def main(folder: Path) -> None:
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    os.chdir(folder)
    namespace: dict[str, object] = {}
    for code in blocks:
        exec(compile(code, "gallery.md", "exec"), namespace)
    for store in ("live.store", "many.store"):
        shutil.rmtree(store, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS / "figures")
