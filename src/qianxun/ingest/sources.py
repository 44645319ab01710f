"""The files that a list of paths stands for, in a fixed order, or the reasons why not."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from qianxun.core.ingest_types import Excluded, Refusal
from qianxun.core.system.shortages import shortage
from qianxun.core.unicode import is_unicode
from qianxun.ingest.ignore import IGNORE_FILE, Rule, is_ignored, read_ignore_file, rules_of

_CHUNK: Final = 1 << 20
_JUNK: Final = frozenset(("Thumbs.db", "desktop.ini", "__MACOSX"))


@dataclass(frozen=True, slots=True)
class Source:
    """A file to add. ``id`` depends on its path, ``fingerprint`` on its content.

    ``relative_path`` is where it is in the folder that was given, from that folder's name on; of a file given by itself
    the path as it was written, unless that leads from the root or out of the working folder.
    """

    path: Path
    name: str
    id: str
    fingerprint: str
    bytes: int
    relative_path: str = ""


def discover(paths: Iterable[Path | str], exclude: Sequence[str] = ()) -> Iterator[Source | Refusal | Excluded]:
    """The files at and below ``paths``, each once, folders in the order of their names.

    Hidden files, irregular files and links out of the folder yield a Refusal. What ``exclude`` or an ignore file leaves
    out is Excluded: patterns as `ignore` has them, ``exclude`` relative to each folder and after all ignore files. A
    file named in ``paths`` itself is taken even if it is hidden, a link, or left out.
    """
    seen: set[Path] = set()
    for given in paths:
        path = Path(given)
        if not path.exists():
            yield Refusal(path, "断开的链接" if path.is_symlink() else "找不到这个文件或文件夹")
        elif path.is_dir():
            yield from _below(path, seen, rules_of(path, exclude))
        else:
            is_inside = not path.is_absolute() and ".." not in path.parts
            yield from _file(path, seen, path if is_inside else Path(path.name))


def _below(folder: Path, seen: set[Path], exclude: Sequence[Rule]) -> Iterator[Source | Refusal | Excluded]:
    root = folder.resolve()
    stack: list[tuple[Path, Sequence[Rule]]] = [(folder, ())]  # with the ignore files of the folders above
    while stack:
        path, rules = stack.pop()
        is_folder = path.is_dir()
        if path != folder and is_ignored(path, is_folder, [*rules, *exclude]):
            yield Excluded(path)
        elif path != folder and (reason := _skip_reason(path, root)):
            yield Refusal(path, reason, passed_over=True)
        elif is_folder:
            children, own = _children(path), _own_rules(path)
            if isinstance(children, Refusal):
                yield children
            elif isinstance(own, Refusal):
                yield own
            else:
                stack.extend((child, [*rules, *own]) for child in reversed(children) if child.name != IGNORE_FILE)
        else:
            yield from _file(path, seen, root.name / path.relative_to(folder))


def _own_rules(folder: Path) -> list[Rule] | Refusal:
    """Without its rules nothing of a folder is taken: they may be there to keep something out."""
    try:
        return read_ignore_file(folder)
    except OSError as failure:
        reason = _why(failure, "文件")
    except UnicodeDecodeError:
        reason = "不是 UTF-8 的文字"
    return Refusal(folder / IGNORE_FILE, f"{reason}；不知道该排除什么，这个文件夹没有放入")


def is_hidden(name: str) -> bool:
    """A file or folder that is skipped unless named itself: hidden, or left there by a program."""
    return name.startswith((".", "~$")) or name in _JUNK


def _skip_reason(path: Path, root: Path) -> str:
    if is_hidden(path.name):
        return "隐藏文件或临时文件，已跳过"
    if not path.is_symlink():
        return ""
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError):
        return "断开或循环的链接，已跳过"
    if target.is_dir():
        return "指向文件夹的链接，已跳过"
    return "" if target.is_relative_to(root) else "链接指向文件夹之外，已跳过"


def _children(folder: Path) -> list[Path] | Refusal:
    try:
        return sorted(folder.iterdir(), key=lambda path: os.fsencode(path.name))
    except OSError as failure:
        return Refusal(folder, _why(failure, "文件夹"))


def _file(path: Path, seen: set[Path], shown: Path) -> Iterator[Source | Refusal]:
    try:
        real = path.resolve(strict=True)
        found = real.stat()
        if real in seen:
            return
        seen.add(real)
        if not stat.S_ISREG(found.st_mode):
            yield Refusal(path, "不是普通文件（管道、设备或套接字），已跳过")
            return
        if not is_unicode(path.name):
            yield Refusal(path, "文件名不是 UTF-8（多半是从压缩包里解出的 GBK 名称）；改名之后再添加")
            return
        fingerprint = _fingerprint(real)
    except OSError as failure:
        yield Refusal(path, _why(failure, "文件"))
        return
    yield Source(path, path.name, document_id(path), fingerprint, found.st_size, _readable(shown))


def _readable(path: Path) -> str:
    """With slashes; what no text can hold in it replaced."""
    return os.fsencode(path.as_posix()).decode("utf-8", "replace")


def _why(failure: OSError, what: str) -> str:
    """Raises ``failure`` where the system ran out of something: the file is not to blame, and is read next time."""
    if shortage(failure) is not None:
        raise failure
    if isinstance(failure, PermissionError):
        return f"没有权限读取这个{what}"
    return f"读不了这个{what}（{type(failure).__name__}）"


def document_id(path: Path) -> str:
    """The same for the same path, however it was written down; another path is another document."""
    full = os.fsencode(os.path.abspath(path))
    return blake2b(full, digest_size=10).hexdigest()


def _fingerprint(path: Path) -> str:
    digest = blake2b(digest_size=20)
    with path.open("rb") as opened:
        while chunk := opened.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
