"""Run all benchmark scripts in sequence, each in its own process.

``python benchmarks/run.py [--quick] [--data DIR] [--out DIR] [NAME …]``; NAME selects scripts (``sampling``).
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    given = sys.argv[1:]
    options, names = [], set()
    while given:
        word = given.pop(0)
        if word in ("--data", "--out"):
            options += [word, given.pop(0)]
        elif word.startswith("-"):
            options.append(word)
        else:
            names.add(word.removesuffix(".py"))
    scripts = sorted(path for path in HERE.glob("*.py") if not path.name.startswith("_") and path.name != "run.py")
    unknown = names - {path.stem for path in scripts}
    if unknown:
        print(f"no such benchmark: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    failed = []
    for path in scripts:
        if names and path.stem not in names:
            continue
        print(f"── {path.name}", flush=True)
        start = time.perf_counter()
        if subprocess.run([sys.executable, str(path), *options], check=False).returncode:
            failed.append(path.name)
        print(f"── {path.name}: {time.perf_counter() - start:.0f} s\n", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
