"""Documents whose files are no longer there: what a folder that changes leaves behind in a base.

Of a document that came with `add` the id is made of the file's path (`document_id`). So the id proves from which file
it came, and nothing else needs to be kept: neither a document of another folder nor one that was handed over by its
text can be taken for a file of this one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from qianxun.core.errors import BadInput
from qianxun.core.types import DocumentState
from qianxun.ingest.sources import document_id, is_hidden

PAGE: Final = 500
AT_ONCE: Final = 16  # deletions: the index takes them together, in less than half the time
FEW: Final = 10  # documents: so many may go without a question
MOST: Final = 0.5  # … of a folder's documents: more, and a disk may not be mounted
WAITING: Final = ("pending", "retrying")


class Documents(Protocol):
    """An engine has it, and so has a client of a service."""

    async def documents(self, knowledge_base: int, *, limit: int = 100, after: str = "") -> list[DocumentState]: ...
    async def delete_document(self, knowledge_base: int, doc_id: str) -> bool: ...


# Why documents are kept: the folder holds no file at all; most of its documents would go; or some of its new ones
# cannot be found yet, which may be the same files by another name.
Why: TypeAlias = Literal["empty", "most", "waiting"]


@dataclass(frozen=True, slots=True)
class FileDocument:
    doc_id: str
    path: Path
    is_searchable: bool = True


@dataclass(frozen=True, slots=True)
class Doubt:
    """So many documents of a folder were kept although their files are not there."""

    folder: Path
    gone: int
    known: int  # documents of the folder
    why: Why


@dataclass(frozen=True, slots=True)
class Dropped:
    removed: tuple[FileDocument, ...] = ()
    doubts: tuple[Doubt, ...] = ()


@dataclass(frozen=True, slots=True)
class Followed:
    """The folders whose files a base has, as far as they are one owner's; of anybody where none is said."""

    folders: Sequence[Path]
    user_id: str = ""
    project_id: str = ""

    def has(self, state: DocumentState) -> bool:
        return self.user_id in ("", state.user_id) and self.project_id in ("", state.project_id)


def check_folders(paths: Sequence[Path], *, sure: bool = False) -> None:
    """Raises BadInput for what is no folder that can be read. ``sure``: one that is not there has been removed."""
    for path in paths:
        try:
            next(path.iterdir(), None)
        except FileNotFoundError as error:
            if not sure:
                hint = "磁盘是不是没有挂上？确实删掉了的话，加上 --yes：从它放入的文档都会移除"
                raise BadInput(f"没有文件夹 {path}，什么也没有移除", hint=hint) from error
        except NotADirectoryError as error:
            raise BadInput(f"{path} 是文件", hint="--sync 只用于文件夹；单个的文件用 qianxun delete 移除") from error
        except OSError as error:
            reason = f"读不了文件夹 {path}（{type(error).__name__}），什么也没有移除"
            raise BadInput(reason, hint="检查权限，或磁盘是否正常") from error
        _check_name(path)


def _check_name(path: Path) -> None:
    """Documents are known by the path without its ``..``, which after a link leads elsewhere."""
    if (real := os.path.realpath(path)) != os.path.realpath(os.path.abspath(path)):
        raise BadInput(f"{path} 里的 .. 跟在链接之后，说不清是哪个文件夹，什么也没有移除", hint=f"写成 {real}")


async def gone_ids(library: Documents, knowledge_base: int, followed: Followed) -> frozenset[str]:
    """The documents that came from files below the folders and whose files are not there now."""
    found = await _known(library, knowledge_base, followed)
    gone = await asyncio.to_thread(lambda: [_gone(known) for known in found.values()])
    return frozenset(each.doc_id for of_folder in gone for each in of_folder)


async def drop_gone(
    library: Documents,
    knowledge_base: int,
    followed: Followed,
    *,
    among: Collection[str] | None = None,
    sure: bool = False,
) -> Dropped:
    """Deletes the documents that came from files below the folders and whose files are no longer there.

    A file that is there, whether it can be read or not, is not gone. Where a folder has no file left, most of its
    documents would go, or a new one cannot be found yet, they stay, unless the caller is ``sure``. ``among``: none but
    these, which were gone before (`gone_ids`): a file that is moved, or a disk that goes away, meanwhile costs nothing.
    Raises BadInput as `check_folders` does.
    """
    await asyncio.to_thread(check_folders, followed.folders, sure=sure)
    removed: list[FileDocument] = []
    doubts: list[Doubt] = []
    for root, known in (await _known(library, knowledge_base, followed)).items():
        gone = await asyncio.to_thread(_gone, [each for each in known if among is None or each.doc_id in among])
        why = None if sure or not gone else await asyncio.to_thread(_why_kept, root, gone, known)
        if why is not None:
            doubts.append(Doubt(root, len(gone), len(known), why))
            continue
        for start in range(0, len(gone), AT_ONCE):
            removed += await _delete(library, knowledge_base, gone[start : start + AT_ONCE])
    return Dropped(tuple(sorted(removed, key=lambda each: each.path)), tuple(doubts))


def _roots(folders: Sequence[Path]) -> list[Path]:
    """Each once, a folder within another before it: one that was named itself is judged by itself."""
    roots = {Path(os.path.abspath(folder)): None for folder in folders}
    return sorted(roots, key=lambda root: -len(root.parts))


async def _known(library: Documents, knowledge_base: int, followed: Followed) -> dict[Path, list[FileDocument]]:
    """The documents of each folder, whether their files are there or not."""
    known: dict[Path, list[FileDocument]] = {root: [] for root in _roots(followed.folders)}
    after: str | None = ""
    while after is not None:
        page = await library.documents(knowledge_base, limit=PAGE, after=after)
        await asyncio.to_thread(_sort, [state for state in page if followed.has(state)], known)
        after = page[-1].doc_id if len(page) == PAGE else None
    return known


async def _delete(library: Documents, knowledge_base: int, gone: Sequence[FileDocument]) -> list[FileDocument]:
    """Those that somebody else had not deleted by then."""
    deleting = (library.delete_document(knowledge_base, each.doc_id) for each in gone)
    told = await asyncio.gather(*deleting, return_exceptions=True)  # none is left under way when one fails
    for each in told:
        if isinstance(each, BaseException):
            raise each
    return [each for each, was_there in zip(gone, told, strict=True) if was_there]


def _sort(page: Sequence[DocumentState], known: dict[Path, list[FileDocument]]) -> None:
    """Each document to the first folder that it came from, where it came from one."""
    for state in page:
        for root, of_root in known.items():
            if (path := path_below(root, state.doc_id, state.source)) is not None:
                of_root.append(FileDocument(state.doc_id, path, state.status not in WAITING or state.served > 0))
                break


def path_below(folder: Path, doc_id: str, source: str) -> Path | None:
    """The path below ``folder`` of the file that a document came from; None where it came from elsewhere.

    ``source`` is the path as it was written then, from whichever folder: as much of its end as stands below ours.
    """
    parts = Path(source).parts
    starts = [0] if os.path.isabs(source) else range(len(parts) - 1, -1, -1)
    for start in starts:
        path = Path(os.path.abspath(folder.joinpath(*parts[start:])))
        if path != folder and path.is_relative_to(folder) and document_id(path) == doc_id:
            return path
    return None


def _gone(known: Sequence[FileDocument]) -> list[FileDocument]:
    return [each for each in known if is_gone(each.path)]


def is_gone(path: Path) -> bool:
    """Whether there is surely nothing of that name: a folder that cannot be looked into says nothing."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _why_kept(folder: Path, gone: Sequence[FileDocument], known: Sequence[FileDocument]) -> Why | None:
    if not _has_file(folder):
        return "empty"
    if len(gone) > max(FEW, MOST * len(known)):
        return "most"
    left = {each.doc_id for each in gone}
    return None if all(each.is_searchable or each.doc_id in left for each in known) else "waiting"


def _has_file(folder: Path) -> bool:
    """Hidden ones do not count: they may lie where a disk is to be mounted."""
    for _, folders, names in os.walk(folder):
        if not all(map(is_hidden, names)):
            return True
        folders[:] = [name for name in folders if not is_hidden(name)]
    return False
