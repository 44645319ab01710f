"""Which files below a folder are left out: patterns of ``--exclude`` and of the ignore files in the folders.

The lines of an ignore file are those of git: ``#`` begins a comment, ``*``, ``?`` and ``[…]`` stay within a name,
``**`` goes across folders, a ``/`` at the end asks for a folder, one before that binds the pattern to the file's own
folder, and ``!`` takes back what an earlier line left out. The last line that fits decides; nothing below a folder that
is left out is taken back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

IGNORE_FILE: Final = ".qianxunignore"
ANY_FOLDERS: Final = "**"


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of an ignore file."""

    folder: Path  # that the pattern is relative to
    pattern: tuple[str, ...]  # by the parts of a path
    only_folders: bool
    takes_back: bool

    def matches(self, path: Path, is_folder: bool) -> bool:
        if self.only_folders and not is_folder:
            return False
        return _matches(self.pattern, path.relative_to(self.folder).parts)


def read_ignore_file(folder: Path) -> list[Rule]:
    """The rules of the folder's own ignore file; none where it has none. Raises OSError or UnicodeDecodeError."""
    try:
        lines = (folder / IGNORE_FILE).read_text("utf-8-sig").splitlines()
    except FileNotFoundError:
        return []
    return rules_of(folder, lines)


def rules_of(folder: Path, lines: Iterable[str]) -> list[Rule]:
    return [rule for line in lines if (rule := _rule(folder, line.strip())) is not None]


def is_ignored(path: Path, is_folder: bool, rules: Sequence[Rule]) -> bool:
    """Whether the last of the rules that fit leaves the path out."""
    for rule in reversed(rules):
        if rule.matches(path, is_folder):
            return not rule.takes_back
    return False


def _rule(folder: Path, line: str) -> Rule | None:
    if not line or line.startswith("#"):
        return None
    takes_back = line.startswith("!")
    written = line[takes_back:]
    parts = tuple(_unescaped(part) for part in written.split("/") if part)
    if not parts:
        return None
    is_bound = "/" in written.rstrip("/")
    return Rule(folder, parts if is_bound else (ANY_FOLDERS, *parts), written.endswith("/"), takes_back)


def _unescaped(part: str) -> str:
    """``\\#`` is #, and ``\\*`` a star, which `fnmatch` writes as [*]."""
    return re.sub(r"\\(.)", lambda found: f"[{found[1]}]" if found[1] in "*?[" else found[1], part)


def _matches(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    if not pattern:
        return not parts
    first, rest = pattern[0], pattern[1:]
    if first == ANY_FOLDERS:
        if not rest:
            return bool(parts)  # everything in the folder, not the folder itself
        return any(_matches(rest, parts[start:]) for start in range(len(parts)))
    return bool(parts) and fnmatchcase(parts[0], first) and _matches(rest, parts[1:])
