"""Check that imports go one way: no room names a room above it, and no modules import each other.

Imports inside functions and imports by string count too. Run by ``make lint``; prints each offence and exits with 1.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = "fastanchors"
# From the bottom up. A room may import those on lines above its own, and its own modules.
ORDER = [
    ["errors", "_version", "_types", "_cached", "_openers", "_maps", "_signals", "_text"],
    ["_lazy_names", "_packing"],
    ["_distinct", "_equality", "_tables"],
    ["_jit", "_rng", "_parallel", "_params", "_replacing", "_units", "_validate"],
    ["matrix"],
    ["anchors"],
    ["io"],
    ["sampling"],
    ["store"],
    ["lowrank"],
    ["greedy"],
    ["fas"],
    ["solvers"],
    ["dask"],
    ["encoder"],
    ["metrics", "rank"],
    ["datasets"],
    ["estimator", "warm_start"],
    ["apps"],
    ["report"],
    ["cli"],
    ["__main__"],
]
LEVEL = {room: level for level, rooms in enumerate(ORDER) for room in rooms}


def imports(module: str, is_package: bool, tree: ast.AST, modules: set[str]) -> Iterator[str]:
    """The modules of the package that a module names, in any kind of import."""
    here = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else []
            start = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield f"{start}.{alias.name}" if f"{start}.{alias.name}" in modules else start
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
            for name in (node.value, f"{PACKAGE}.{node.value}"):
                if name in modules and name.count(".") > 1:
                    yield name


def main(root: Path) -> int:
    files = {
        ".".join((PACKAGE, *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__"): path
        for path in sorted(root.rglob("*.py"))
    }
    packages = {module for module, path in files.items() if path.name == "__init__.py"}
    graph: dict[str, set[str]] = {}
    offences = []
    for module, path in files.items():
        if module == PACKAGE:  # the root lies above all rooms
            continue
        found = imports(module, module in packages, ast.parse(path.read_text(encoding="utf-8")), set(files))
        named = {name for name in found if name in files and name not in (module, PACKAGE)}
        room = module.split(".")[1]
        if room not in LEVEL:
            offences.append(f"{module}: the room {room!r} has no place in ORDER of {Path(__file__).name}")
            continue
        offences += [
            f"{module} imports {name}: {name.split('.')[1]} does not lie below {room}"
            for name in sorted(named)
            if name.split(".")[1] != room and LEVEL.get(name.split(".")[1], 99) >= LEVEL[room]
        ]
        graph[module] = named - packages
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        offences.append(f"modules import each other: {' -> '.join(error.args[1])}")
    print(*offences, sep="\n")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else f"src/{PACKAGE}")))
