"""Files that cannot be read are documents in a state of their own, with a reason, until they can be."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from qianxun.core.errors import ModelUnavailable, NotFound
from qianxun.core.ingest_types import Labels, Report
from qianxun.core.types import DocumentState
from qianxun.engine.admin.copy import copy_database
from qianxun.engine.blocking import BlockingEngine, open_blocking
from qianxun.engine.settings import load
from qianxun.ingest import sources
from qianxun.ingest.sources import document_id
from tests.indexing.opened import FailingEmbedding, found

TEXT = "住院费用报销比例为85%。"
UNFINISHED = '{"住院": '  # JSON that ends too early


@pytest.fixture(scope="module")
def rag(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEngine]:
    """One engine for all tests: to start a parser takes longer than any of them."""
    models = {"fake-64": FailingEmbedding("起付线", ModelUnavailable("模型不在"))}
    with open_blocking(tmp_path_factory.mktemp("unreadable"), models=models, background=False) as engine:
        yield engine


@dataclass(frozen=True)
class Library:
    """A base, and a file that is added to it."""

    rag: BlockingEngine
    base: int
    file: Path

    def add(self, text: str | None = None, **choices: object) -> Report:
        if text is not None:
            self.file.write_text(text, "utf-8")
        return self.rag.add(self.base, [self.file], **choices)

    @property
    def state(self) -> DocumentState:
        return self.rag.document(self.base, document_id(self.file))

    @property
    def found(self) -> list[str]:
        return list(self.rag.run(found(self.rag.engine, self.base, "住院报销")).values())

    @property
    def is_sound(self) -> bool:
        return self.rag.run(self.rag.engine.admin.verify(self.base)).is_clean


@pytest.fixture
def library(rag: BlockingEngine, tmp_path: Path) -> Library:
    return Library(rag, rag.create_knowledge_base(uuid4().hex, model="fake-64").id, tmp_path / "须知.json")


def test_a_file_fails_is_tried_again_and_replaces_its_state(library: Library) -> None:
    labels = Labels(user_id="甲", tags=("医保",), metadata={"年份": 2026})
    (refusal,) = library.add(UNFINISHED, labels=labels).refused
    first = library.state
    assert (first.status, first.reason, first.source) == ("failed", refusal.reason, str(library.file))
    assert (first.name, first.served, first.attempts, first.chunks) == ("须知.json", 0, 1, 0)
    assert (first.user_id, first.tags, first.metadata["年份"]) == ("甲", ("医保",), 2026)
    assert library.add().refused
    assert (library.state.generation, library.state.attempts, library.state.user_id) == (1, 2, "甲")
    assert library.rag.statistics(library.base)["failed"] == 1
    assert library.is_sound
    report = library.add(f'{{"规定": "{TEXT}"}}')
    assert (report.added, report.refused) == (1, ())
    assert (library.state.status, library.state.reason, library.state.user_id) == ("indexed", "", "甲")
    assert len(library.found) == 1


def test_the_version_before_is_served_while_the_file_cannot_be_read(library: Library) -> None:
    library.add(f'{{"规定": "{TEXT}"}}')
    assert library.add(UNFINISHED).refused
    assert library.add().refused
    state = library.state
    assert (state.status, state.served, state.generation, state.chunks) == ("failed", 1, 2, 1)
    library.rag.run(library.rag.engine.admin.rebuild(library.base))
    assert TEXT in library.found[0]
    assert library.is_sound
    assert library.rag.delete_document(library.base, state.doc_id)
    assert library.found == []
    library.add(restore=False)
    with pytest.raises(NotFound):
        _ = library.state


def test_a_version_that_waits_for_its_model_is_not_overtaken(library: Library) -> None:
    library.add('{"规定": "起付线为 1300 元。"}')
    assert library.add(UNFINISHED).refused
    assert (library.state.status, library.state.generation) == ("retrying", 1)


def test_a_file_is_not_to_blame_where_the_system_has_run_out_of_descriptors(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fingerprint(path: Path) -> str:
        raise OSError(errno.EMFILE, "Too many open files", str(path))

    library.file.write_text(f'{{"规定": "{TEXT}"}}', "utf-8")
    with monkeypatch.context() as patched:
        patched.setattr(sources, "_fingerprint", fingerprint)
        with pytest.raises(OSError, match="Too many open files"):
            library.add()
        with pytest.raises(OSError, match="Too many open files"):
            library.rag.add_file(library.base, library.file, name="须知.json")
    assert library.rag.statistics(library.base).get("failed", 0) == 0
    assert library.add().added == 1


def test_files_that_cannot_be_opened_are_remembered_but_no_folder_and_no_missing_path(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "夹"
    folder.mkdir()
    (folder / ".qianxunignore").write_bytes(b"\xff\xfe")

    def deny(_: Path) -> str:
        raise PermissionError

    library.add(f'{{"规定": "{TEXT}"}}', labels=Labels(user_id="甲"))
    with monkeypatch.context() as patched:
        patched.setattr(sources, "_fingerprint", deny)
        paths = [library.file, folder, tmp_path / "没有.txt"]
        assert len(library.rag.add(library.base, paths).refused) == 3
    (state,) = library.rag.documents(library.base)
    assert (state.name, state.status, state.served, state.user_id) == ("须知.json", "failed", 1, "甲")
    assert library.add().added == 1
    assert library.state.status == "indexed"


def test_a_copy_has_the_files_that_failed(tmp_path: Path) -> None:
    file = tmp_path / "空.txt"
    file.touch()
    with open_blocking(tmp_path / "data", background=False) as rag:
        base = rag.create_knowledge_base("医保", model="none").id
        assert rag.add(base, [file]).refused
        before = rag.documents(base)
    folders = (load(arguments={"data": str(tmp_path / name)}) for name in ("data", "copy"))
    copy_database(*folders, lambda _: lambda _: None)
    with open_blocking(tmp_path / "copy", background=False) as rag:
        assert [one.status for one in before] == ["failed"]
        assert rag.documents(base) == before
