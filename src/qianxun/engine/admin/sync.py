"""Folders that a knowledge base follows: files are added, documents of deleted or renamed files are removed.

The id of a document that came with `add` is made of the file's path (`document_id`). So the id proves from which file
it came, and nothing else needs to be stored: neither a document of another folder nor one that was added by its text
can be taken for a file of this one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias

from qianxun.core.errors import BadInput
from qianxun.core.ingest_types import Labels, Report
from qianxun.core.types import DocumentState
from qianxun.ingest.sources import document_id, is_hidden

PAGE: Final = 500
DELETED_AT_ONCE: Final = 16  # the index takes them together, in less than half the time
FEW: Final = 10  # documents: so many are removed without confirmation
MOST: Final = 0.5  # of a folder's documents: where more are missing, a disk may not be mounted
WAITING: Final = ("pending", "retrying")


class Documents(Protocol):
    """An engine, or a client of a service."""

    async def documents(self, knowledge_base: int, *, limit: int = 100, after: str = "") -> list[DocumentState]: ...
    async def delete_document(self, knowledge_base: int, doc_id: str, *, file_missing: bool = False) -> bool: ...


# Why documents are not removed: the folder holds no file at all; most of its documents would be removed; or some of its
# new ones cannot be found yet, which may be the same files by another name.
Why: TypeAlias = Literal["empty", "most", "waiting"]


@dataclass(frozen=True, slots=True)
class FileDocument:
    doc_id: str
    path: Path
    is_searchable: bool = True


@dataclass(frozen=True, slots=True)
class NotRemoved:
    """Documents of a folder that were not removed although their files are missing."""

    folder: Path
    missing: int
    known: int  # documents of the folder
    why: Why


@dataclass(frozen=True, slots=True)
class RemovalReport:
    removed: tuple[FileDocument, ...] = ()
    doubts: tuple[NotRemoved, ...] = ()


@dataclass(frozen=True, slots=True)
class Followed:
    """The folders whose files a base has; only documents of the user and the project where these are given."""

    folders: Sequence[Path]
    user_id: str = ""
    project_id: str = ""

    def has(self, state: DocumentState) -> bool:
        return self.user_id in ("", state.user_id) and self.project_id in ("", state.project_id)


async def sync_folders(
    library: Documents,
    knowledge_base: int,
    folders: Sequence[Path],
    labels: Labels,
    add: Callable[[Sequence[Path]], Awaitable[Report]],
    *,
    sure: bool = False,
) -> tuple[Report, RemovalReport]:
    """Adds the folders that exist with ``add``; removes the documents whose files were missing before and still are.

    Only documents of the user and the project of ``labels``. ``sure``: also where a folder is missing or empty. Raises
    BadInput, before anything is changed, for what is not a folder that can be read.
    """
    await asyncio.to_thread(check_folders, folders, sure=sure)
    followed = Followed(folders, labels.user_id, labels.project_id)
    missing = await missing_ids(library, knowledge_base, followed)
    report = await add([folder for folder in folders if folder.exists()])
    return report, await remove_missing(library, knowledge_base, followed, among=missing, sure=sure)


def check_folders(paths: Sequence[Path], *, sure: bool = False) -> None:
    """Raises BadInput for what is not a folder that can be read. ``sure``: one that is missing has been removed."""
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
    """Ids are made of the path without its ``..``, which after a link leads elsewhere."""
    if (real := os.path.realpath(path)) != os.path.realpath(os.path.abspath(path)):
        raise BadInput(f"{path} 里的 .. 跟在链接之后，说不清是哪个文件夹，什么也没有移除", hint=f"写成 {real}")


async def missing_ids(library: Documents, knowledge_base: int, followed: Followed) -> frozenset[str]:
    """The documents that came from files below the folders and whose files are missing now."""
    found = await _known(library, knowledge_base, followed)
    missing = await asyncio.to_thread(lambda: [_missing(known) for known in found.values()])
    return frozenset(document.doc_id for of_folder in missing for document in of_folder)


async def remove_missing(
    library: Documents,
    knowledge_base: int,
    followed: Followed,
    *,
    among: Collection[str] | None = None,
    sure: bool = False,
) -> RemovalReport:
    """Deletes the documents that came from files below the folders and whose files no longer exist.

    A file that exists but cannot be read is not missing. Where a folder has no file left, most of its documents would
    be removed, or a new one cannot be found yet, they stay, unless the caller is ``sure``. ``among``: only these, which
    were missing before (`missing_ids`), so that a file that is moved, or a disk that is unmounted, meanwhile costs
    nothing. Raises BadInput as `check_folders` does.
    """
    await asyncio.to_thread(check_folders, followed.folders, sure=sure)
    removed: list[FileDocument] = []
    doubts: list[NotRemoved] = []
    for root, known in (await _known(library, knowledge_base, followed)).items():
        among_known = [document for document in known if among is None or document.doc_id in among]
        missing = await asyncio.to_thread(_missing, among_known)
        why = None if sure or not missing else await asyncio.to_thread(_doubt, root, missing, known)
        if why is not None:
            doubts.append(NotRemoved(root, len(missing), len(known), why))
            continue
        for start in range(0, len(missing), DELETED_AT_ONCE):
            removed += await _delete(library, knowledge_base, missing[start : start + DELETED_AT_ONCE])
    return RemovalReport(tuple(sorted(removed, key=lambda document: document.path)), tuple(doubts))


def _roots(folders: Sequence[Path]) -> list[Path]:
    """Every folder once, a folder within another before it: one that was named itself counts by itself."""
    roots = {Path(os.path.abspath(folder)): None for folder in folders}
    return sorted(roots, key=lambda root: -len(root.parts))


async def _known(library: Documents, knowledge_base: int, followed: Followed) -> dict[Path, list[FileDocument]]:
    """The documents of every folder, whether their files exist or not."""
    known: dict[Path, list[FileDocument]] = {root: [] for root in _roots(followed.folders)}
    after: str | None = ""
    while after is not None:
        page = await library.documents(knowledge_base, limit=PAGE, after=after)
        await asyncio.to_thread(_sort, [state for state in page if followed.has(state)], known)
        after = page[-1].doc_id if len(page) == PAGE else None
    return known


async def _delete(library: Documents, knowledge_base: int, missing: Sequence[FileDocument]) -> list[FileDocument]:
    """Returns those that existed until now."""
    deleting = (library.delete_document(knowledge_base, document.doc_id, file_missing=True) for document in missing)
    outcomes = await asyncio.gather(*deleting, return_exceptions=True)  # none is left under way when one fails
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [document for document, existed in zip(missing, outcomes, strict=True) if existed]


def _sort(page: Sequence[DocumentState], known: dict[Path, list[FileDocument]]) -> None:
    """Adds every document to the first folder that it came from, where it came from one."""
    for state in page:
        for root, of_root in known.items():
            if (path := path_below(root, state.doc_id, state.source)) is not None:
                of_root.append(FileDocument(state.doc_id, path, state.status not in WAITING or state.served > 0))
                break


def path_below(folder: Path, doc_id: str, source: str) -> Path | None:
    """The path below ``folder`` of the file that a document came from; None where it came from elsewhere.

    ``source`` is the path as it was given then, relative to any folder: as much of its end as is below ours.
    """
    parts = Path(source).parts
    starts = [0] if os.path.isabs(source) else range(len(parts) - 1, -1, -1)
    for start in starts:
        path = Path(os.path.abspath(folder.joinpath(*parts[start:])))
        if path != folder and path.is_relative_to(folder) and document_id(path) == doc_id:
            return path
    return None


def _missing(known: Sequence[FileDocument]) -> list[FileDocument]:
    return [document for document in known if is_missing(document.path)]


def is_missing(path: Path) -> bool:
    """True only where the path surely does not exist: not where its folder cannot be read."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def _doubt(folder: Path, missing: Sequence[FileDocument], known: Sequence[FileDocument]) -> Why | None:
    if not _has_file(folder):
        return "empty"
    if len(missing) > max(FEW, MOST * len(known)):
        return "most"
    ids = {document.doc_id for document in missing}
    return None if all(document.is_searchable or document.doc_id in ids for document in known) else "waiting"


def _has_file(folder: Path) -> bool:
    """Hidden files do not count: they may be in a folder where a disk is to be mounted."""
    for _, folders, names in os.walk(folder):
        if not all(map(is_hidden, names)):
            return True
        folders[:] = [name for name in folders if not is_hidden(name)]
    return False
