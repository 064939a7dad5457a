"""Refuses copyleft in the default install: the closure of ropewalk's dependencies, no extras.

A licence is what the distribution's metadata says: the SPDX expression, else its classifiers, else the first
line of its licence field (some put whole texts there). File-level copyleft needs a reason in `FILE_LEVEL`.
"""

import re
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

COPYLEFT = re.compile(r"\b[AL]?GPL|\bGNU\b|General Public License|\bSSPL\b|\bEUPL\b|\bCC-BY-(SA|NC)", re.IGNORECASE)
MOZILLA = re.compile(r"\bMPL\b|Mozilla", re.IGNORECASE)

FILE_LEVEL = {
    "tqdm": "MPL-2.0 covers its own files, which are used unchanged; progress bars inside transformers",
    "certifi": "MPL-2.0 covers its list of root certificates, used unchanged; https inside huggingface_hub",
}


def closure(root: str) -> dict[str, Distribution]:
    """Installed distributions that `root` needs, by canonical name, markers of this machine applied."""
    found: dict[str, Distribution] = {}
    waiting: list[tuple[str, frozenset[str]]] = [(root, frozenset())]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        found[name] = distribution(name)
        needs = [r for r in map(Requirement, found[name].requires or ()) if applies(r, extras)]
        waiting += [(canonicalize_name(r.name), frozenset(r.extras)) for r in needs]
    return found


def applies(requirement: Requirement, extras: Iterable[str]) -> bool:
    if requirement.marker is None:
        return True
    return any(requirement.marker.evaluate({"extra": extra}) for extra in (*extras, ""))


def licence(dist: Distribution) -> str:
    meta = dist.metadata
    if "License-Expression" in meta:
        return meta["License-Expression"]
    stated = " ".join(meta.get_all("License") or [])
    classifiers = [c.split(" :: ")[-1] for c in meta.get_all("Classifier") or [] if c.startswith("License :: OSI")]
    return " AND ".join(classifiers) or stated.strip().split("\n")[0]


def problem(name: str, stated: str) -> str | None:
    """Why this licence may not be in the default install; None if it may."""
    if not stated:
        return f"{name} states no licence: find it, and list it here if it is permissive"
    if COPYLEFT.search(stated):
        return f"{name} is copyleft ({stated}): drop it or move it to an extra"
    if MOZILLA.search(stated) and name not in FILE_LEVEL:
        return f"{name} is file-level copyleft ({stated}): give the reason in FILE_LEVEL or drop it"
    return None


def main() -> int:
    try:
        found = closure("ropewalk")
    except PackageNotFoundError as missing:
        print(f"{missing.name} is not installed: run `make install`")
        return 1
    bad = [p for name in sorted(found) if (p := problem(name, licence(found[name])))]
    print("\n".join(bad) if bad else f"{len(found)} distributions in the default install, none copyleft")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
