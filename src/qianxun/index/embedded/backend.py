"""The indexes of all bases under one folder: opened, built beside one another, switched, dropped; `create` opens it.

<root>/<base>/CURRENT   the name of the build that serves
             /build-N   one index (`index.EmbeddedIndex`)
"""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

from qianxun.core.errors import BadInput, IndexUnusable
from qianxun.core.ports import Index, IndexBackend
from qianxun.core.system.durable import make_folder, replace_file, sync
from qianxun.core.types import IndexStamp
from qianxun.index.embedded import codes
from qianxun.index.embedded.extents import State, load_state, save_state, sealed, unsealed
from qianxun.index.embedded.index import APPLYING, KEYWORDS, EmbeddedIndex, Options
from qianxun.index.embedded.keywords import checksums, tantivy_index
from qianxun.index.embedded.keywords.open_indexes import OpenKeywords
from qianxun.index.embedded.store import Store
from qianxun.index.shared import require_stamp, unusable

CURRENT = "CURRENT"
LOOKS = 5  # at an index that another process keeps changing


class EmbeddedBackend:
    """An `IndexBackend` under one folder."""

    def __init__(self, root: Path, options: Options) -> None:
        self._root = root
        self._options = options
        self._building: set[Path] = set()
        self._recently_used = OpenKeywords(options.open_keywords)

    async def open(self, knowledge_base: int, stamp: IndexStamp) -> EmbeddedIndex:
        return await asyncio.to_thread(self._open, knowledge_base, stamp)

    async def build(self, knowledge_base: int, stamp: IndexStamp) -> EmbeddedIndex:
        return await asyncio.to_thread(self._build, knowledge_base, stamp)

    async def switch(self, knowledge_base: int, built: Index) -> None:
        await asyncio.to_thread(self._switch, knowledge_base, built)

    async def drop(self, knowledge_base: int) -> None:
        await asyncio.to_thread(shutil.rmtree, self._folder(knowledge_base), True)

    def _folder(self, knowledge_base: int) -> Path:
        return self._root / str(knowledge_base)

    def _open(self, knowledge_base: int, stamp: IndexStamp) -> EmbeddedIndex:
        folder = self._folder(knowledge_base)
        if not (folder / CURRENT).exists():
            raise unusable("还没有建立")
        current = folder / Path(unsealed(folder / CURRENT)).name
        state = load_state(current)
        require_stamp(state.stamp, stamp)
        # An index without origin gets it with its next change.
        state = replace(state, stamp=replace(stamp, origin=stamp.origin or state.stamp.origin))
        index = EmbeddedIndex(current, state, self._options, self._recently_used)
        self._remove_builds(folder, current)
        return index

    def _build(self, knowledge_base: int, stamp: IndexStamp) -> EmbeddedIndex:
        folder = self._folder(knowledge_base)
        make_folder(folder)
        taken = [int(path.name.partition("-")[2]) for path in folder.glob("build-*")]
        built = folder / f"build-{max(taken, default=0) + 1}"
        self._building.add(built)
        state = State(stamp)
        (built / state.folder).mkdir(parents=True)
        tantivy_index.Keywords.create(built / KEYWORDS)
        state = replace(state, keywords=checksums.meta_checksum(built / KEYWORDS))
        save_state(built, state)
        sync([built / KEYWORDS, built, folder, self._root])
        return EmbeddedIndex(built, state, self._options, self._recently_used)

    def _switch(self, knowledge_base: int, built: Index) -> None:
        folder = self._folder(knowledge_base)
        if not isinstance(built, EmbeddedIndex) or built.folder.parent != folder:
            raise BadInput(f"这个索引不属于知识库 {knowledge_base}", hint="请传入同一后端 build() 的结果")
        replace_file(folder / CURRENT, sealed(built.folder.name))
        self._building.discard(built.folder)
        self._remove_builds(folder, built.folder)

    def _remove_builds(self, folder: Path, current: Path) -> None:
        for path in folder.glob("build-*"):
            if path != current and path not in self._building:
                shutil.rmtree(path)


def examine(root: Path, knowledge_base: int) -> tuple[IndexStamp, bool]:
    """The stamp of a base's index, and whether a crash left a batch unfinished. Compares every byte with its checksum
    and changes nothing; another process may be writing to it meanwhile. Raises IndexUnusable."""
    folder = root / str(knowledge_base)
    for _ in range(LOOKS):
        current = folder / Path(unsealed(folder / CURRENT)).name
        state = load_state(current)
        try:
            is_unfinished = _examine(current, state)
        except (IndexUnusable, OSError) as error:
            if folder / Path(unsealed(folder / CURRENT)).name == current and load_state(current) == state:
                raise error if isinstance(error, IndexUnusable) else unusable(f"读不到：{error.strerror}") from error
        else:
            return state.stamp, is_unfinished
    raise unusable("一直在变，没有能够检查")


def _examine(current: Path, state: State) -> bool:
    Store(current / state.folder, state, codes.FEW).check()
    is_unfinished = (current / APPLYING).exists()
    if not is_unfinished and checksums.meta_checksum(current / KEYWORDS) != state.keywords:
        raise unusable("关键词索引的目录已损坏")
    checksums.check_files(current / KEYWORDS)
    return is_unfinished


def create(
    root: Path, *, exact_limit: int = 50_000, gram_weight: float = 0.5, dead_share: float = 0.3, dead_least: int = 1_000
) -> IndexBackend:
    """The embedded backend of a data folder; see `Options` for what the numbers do."""
    return EmbeddedBackend(root, Options(exact_limit, gram_weight, dead_share, dead_least))
