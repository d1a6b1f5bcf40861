"""The modules of the rooms, and the domain of each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from portico.gateway.domains import BUILT_IN, load

ROOT = Path(__file__).parents[2]
ROOMS = ("gateway", "schema", "loaders", "resolvers")
# Which domains each domain may import besides itself.
MAY_IMPORT = {domain.name: set(domain.needs) for domain in load(BUILT_IN).all}
# Folders of a domain that import nothing of each other. What they share is beside them.
PARTS = {"game": ("world", "inventories")}


def modules_below(folder: Path) -> Iterator[Path]:
    """Yields the modules in a folder and its folders, without walking through the many folders of `node_modules`."""
    for path in sorted(folder.iterdir()):
        if path.suffix == ".py":
            yield path
        elif path.name != "node_modules" and path.is_dir() and not path.is_symlink():
            yield from modules_below(path)


MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for room in ROOMS
    for path in modules_below(ROOT / room)
}


def domain_of(module: str) -> str | None:
    """The domain whose folder contains the module; None for a shared module."""
    parts = module.split(".")
    own = parts[2:3] if parts[:2] == ["gateway", "domains"] else parts[1:2]
    return next((name for name in own if name in MAY_IMPORT), None)


def part_of(module: str) -> str | None:
    """The part of its domain whose folder contains the module, as `domain/part`; None for other modules."""
    domain = domain_of(module)
    _, _, below = module.partition(f".{domain}.")
    return next((f"{domain}/{part}" for part in PARTS.get(domain or "", ()) if below.split(".")[0] == part), None)
