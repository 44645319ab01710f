"""A base that follows a folder: what was deleted or renamed there goes, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from qianxun.core.errors import BadInput, ModelUnavailable
from qianxun.core.ingest_types import Labels
from qianxun.core.types import Document
from qianxun.engine.admin import sync as gone_files
from qianxun.engine.admin.sync import (
    FEW,
    NotRemoved,
    RemovalReport,
    is_missing,
    missing_ids,
    path_below,
    remove_missing,
)
from qianxun.engine.blocking import BlockingEngine, open_blocking
from qianxun.ingest.sources import document_id
from tests.indexing.opened import FailingEmbedding


@pytest.fixture(scope="module")
def rag(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingEngine]:
    with open_blocking(tmp_path_factory.mktemp("gone"), background=False) as engine:
        yield engine


@dataclass(frozen=True)
class Followed:
    """A folder, and a base that has taken it in."""

    rag: BlockingEngine
    base: int
    folder: Path

    def write(self, *names: str) -> None:
        for name in names:
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(f"{name} 里写着琥珀。", "utf-8")

    def add(self, *names: str) -> None:
        self.write(*names)
        assert not self.rag.add(self.base, [self.folder]).refused

    def drop(
        self, *others: Path, user: str = "", among: Collection[str] | None = None, sure: bool = False
    ) -> RemovalReport:
        told = gone_files.Followed(others or [self.folder], user_id=user)
        return self.rag.run(remove_missing(self.rag.engine, self.base, told, among=among, sure=sure))

    @property
    def gone(self) -> frozenset[str]:
        return self.rag.run(missing_ids(self.rag.engine, self.base, gone_files.Followed([self.folder])))

    @property
    def held(self) -> set[str]:
        return {each.name for each in self.rag.documents(self.base)}


@pytest.fixture
def followed(rag: BlockingEngine, tmp_path: Path) -> Followed:
    base = rag.create_knowledge_base(uuid4().hex, model="none")
    return Followed(rag, base.id, tmp_path / "资料")


def names(dropped: RemovalReport) -> list[str]:
    return [each.path.name for each in dropped.removed]


def test_deleted_and_renamed_files_go_and_cannot_be_found(followed: Followed) -> None:
    followed.add("甲.txt", "子/乙.txt", "丙.txt")
    (followed.folder / "甲.txt").unlink()
    (followed.folder / "子" / "乙.txt").rename(followed.folder / "子" / "新乙.txt")
    followed.add()
    assert followed.held == {"甲.txt", "乙.txt", "新乙.txt", "丙.txt"}
    dropped = followed.drop()
    assert names(dropped) == ["乙.txt", "甲.txt"]
    assert {each.doc_id for each in dropped.removed} == {
        document_id(followed.folder / "甲.txt"),
        document_id(followed.folder / "子" / "乙.txt"),
    }
    found = followed.rag.retrieve(followed.base, "琥珀").found
    assert {each.chunk.doc_name for each in found} == {"新乙.txt", "丙.txt"}
    assert followed.drop() == RemovalReport()


def test_documents_of_other_folders_and_of_no_file_stay(followed: Followed, tmp_path: Path) -> None:
    followed.add("甲.txt", "乙.txt")
    other = tmp_path / "资料二"
    other.mkdir()
    (other / "别.txt").write_text("别的琥珀", "utf-8")
    followed.rag.add(followed.base, [other])
    (other / "别.txt").unlink()
    said = Document("手写", "手写的琥珀", name="手写", source=str(followed.folder / "没有过.txt"))
    followed.rag.add_documents(followed.base, [said])
    followed.rag.add_file(followed.base, followed.folder / "甲.txt", name="上传.txt")
    (followed.folder / "甲.txt").unlink()
    assert names(followed.drop()) == ["甲.txt"]
    assert followed.held == {"乙.txt", "别.txt", "手写", "上传.txt"}
    assert names(followed.drop(followed.folder, other, sure=True)) == ["别.txt"]


def test_a_file_that_is_there_but_cannot_be_taken_in_is_not_gone(followed: Followed) -> None:
    followed.add("甲.txt", "乙.txt", "丙.txt")
    (followed.folder / "甲.txt").write_bytes(b"")
    (followed.folder / "乙.txt").unlink()
    (followed.folder / "乙.txt").symlink_to(followed.folder / "不在.txt")
    assert followed.rag.add(followed.base, [followed.folder]).refused
    assert followed.drop() == RemovalReport()


@pytest.mark.skipif(os.geteuid() == 0, reason="root looks into everything")
def test_what_cannot_be_looked_at_is_not_gone(followed: Followed) -> None:
    followed.add("子/甲.txt", "乙.txt")
    (followed.folder / "子").chmod(0)
    try:
        assert followed.drop() == RemovalReport()
        with pytest.raises(BadInput, match="读不了"):
            followed.drop(followed.folder / "子", sure=True)
    finally:
        (followed.folder / "子").chmod(0o700)


def test_looking_that_fails_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(_: Path) -> None:
        raise OSError(116, "Stale file handle")

    assert is_missing(Path("/没有/这个"))
    assert is_missing(Path(__file__) / "下面")
    monkeypatch.setattr(os, "lstat", stale)
    assert not is_missing(Path("/没有/这个"))


def test_an_empty_folder_is_doubted_unless_the_caller_is_sure(followed: Followed) -> None:
    followed.add("甲.txt", "子/乙.txt")
    shutil.rmtree(followed.folder)
    (followed.folder / "子").mkdir(parents=True)
    (followed.folder / ".not_mounted").touch()
    assert followed.drop() == RemovalReport((), (NotRemoved(followed.folder, 2, 2, "empty"),))
    assert followed.held == {"甲.txt", "乙.txt"}
    assert names(followed.drop(sure=True)) == ["乙.txt", "甲.txt"]


def test_a_folder_that_is_not_there_is_refused_unless_the_caller_is_sure(followed: Followed, tmp_path: Path) -> None:
    followed.add("甲.txt")
    followed.folder.rename(tmp_path / "别处")
    with pytest.raises(BadInput, match="--yes"):
        followed.drop()
    with pytest.raises(BadInput, match="只用于文件夹"):
        followed.drop(tmp_path / "别处" / "甲.txt", sure=True)
    assert followed.held == {"甲.txt"}
    assert names(followed.drop(sure=True)) == ["甲.txt"]


def test_most_of_a_folder_is_doubted_few_documents_are_not(followed: Followed, tmp_path: Path) -> None:
    followed.add(*(f"盘/{number}.txt" for number in range(FEW + 1)), "甲.txt")
    shutil.move(followed.folder / "盘", tmp_path / "盘")
    (followed.folder / "盘").mkdir()
    assert followed.drop().doubts == (NotRemoved(followed.folder, FEW + 1, FEW + 2, "most"),)
    followed.write("盘/0.txt")
    assert len(followed.drop().removed) == FEW


def test_a_moved_folder_within_it_is_no_reason_for_doubt(followed: Followed) -> None:
    followed.add(*(f"旧/{number}.txt" for number in range(FEW + 2)))
    (followed.folder / "旧").rename(followed.folder / "新")
    followed.add()
    dropped = followed.drop()
    assert (len(dropped.removed), dropped.doubts) == (FEW + 2, ())
    assert len(followed.held) == FEW + 2


def test_a_folder_is_known_however_it_is_written(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    followed.add("子/甲.txt", "子/乙.txt")
    followed.write("子/丙.txt")
    monkeypatch.chdir(followed.folder)
    followed.rag.add(followed.base, ["子"])
    monkeypatch.chdir("/")
    for name in ("甲.txt", "丙.txt"):
        (followed.folder / "子" / name).unlink()
    assert names(followed.drop(followed.folder / "子" / ".." / "子")) == ["丙.txt", "甲.txt"]


def test_a_folder_is_followed_wherever_its_files_were_added_from(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed.write("子/甲.txt", "乙.txt")
    monkeypatch.chdir(followed.folder / "子")
    followed.rag.add(followed.base, ["."])
    monkeypatch.chdir("/")
    followed.add()
    (followed.folder / "子" / "甲.txt").unlink()
    assert names(followed.drop()) == ["甲.txt"]


def test_a_folder_that_is_named_itself_is_doubted_by_itself(followed: Followed) -> None:
    inner = followed.folder / "盘"
    followed.add(*(f"盘/{number}.txt" for number in range(3)), *(f"{number}.txt" for number in range(9)))
    shutil.rmtree(inner)
    inner.mkdir()
    (followed.folder / "0.txt").unlink()
    for folders in ((followed.folder, inner), (inner, followed.folder, followed.folder)):
        dropped = followed.drop(*folders)
        assert dropped.doubts == (NotRemoved(inner, 3, 3, "empty"),)
    assert followed.held == {"0.txt", "1.txt", "2.txt", *(f"{number}.txt" for number in range(1, 9))}
    assert len(followed.rag.documents(followed.base)) == 11


def test_what_a_program_left_is_no_file_of_the_folder(followed: Followed) -> None:
    followed.add("甲.txt")
    (followed.folder / "甲.txt").unlink()
    followed.write("Thumbs.db", ".stfolder/标记", "~$甲.docx")
    assert followed.drop().doubts == (NotRemoved(followed.folder, 1, 1, "empty"),)


def test_what_goes_away_after_the_first_look_stays_until_the_next(followed: Followed) -> None:
    followed.add("甲.txt", "乙.txt", "丙.txt")
    (followed.folder / "甲.txt").unlink()
    before = followed.gone
    (followed.folder / "乙.txt").rename(followed.folder / "新乙.txt")
    assert names(followed.drop(among=before)) == ["甲.txt"]
    assert followed.held == {"乙.txt", "丙.txt"}
    before = followed.gone
    followed.write("乙.txt")  # back in time
    assert followed.drop(among=before) == RemovalReport()


def test_a_renamed_file_is_found_by_its_old_name_until_it_can_be_by_the_new(tmp_path: Path) -> None:
    model = FailingEmbedding("琥珀", None)
    with open_blocking(tmp_path / "data", background=False, models={model.name: model}) as rag:
        followed = Followed(rag, rag.create_knowledge_base("库", model=model.name).id, tmp_path / "资料")
        followed.add("甲.txt", "乙.txt")
        (followed.folder / "甲.txt").rename(followed.folder / "新甲.txt")
        model.error = ModelUnavailable("嵌入服务停了", hint="稍后再试")
        followed.add()
        assert followed.drop().doubts == (NotRemoved(followed.folder, 1, 3, "waiting"),)
        found = rag.retrieve(followed.base, "琥珀", mode="fulltext").found
        assert {each.chunk.doc_name for each in found} == {"甲.txt", "乙.txt"}
        model.error = None
        (followed.folder / "新甲.txt").write_text("改过的琥珀", "utf-8")  # which is not put off, as another try is
        followed.add()
        assert names(followed.drop()) == ["甲.txt"]


def test_the_documents_of_another_owner_stay(followed: Followed) -> None:
    followed.add("甲.txt", "乙.txt")
    followed.write("丙.txt")
    followed.rag.add(followed.base, [followed.folder / "丙.txt"], labels=Labels(user_id="张"))
    for name in ("甲.txt", "丙.txt"):
        (followed.folder / name).unlink()
    assert followed.drop(user="李") == RemovalReport()
    assert names(followed.drop(user="张")) == ["丙.txt"]
    assert names(followed.drop()) == ["甲.txt"]


def test_a_way_back_out_of_a_link_is_not_followed(followed: Followed, tmp_path: Path) -> None:
    """`link/../资料` is another folder than its name without the dots, by which documents are known."""
    followed.add("甲.txt", "乙.txt")
    (followed.folder / "甲.txt").unlink()
    elsewhere = tmp_path / "别处"
    (elsewhere / "深").mkdir(parents=True)
    (elsewhere / followed.folder.name).mkdir()
    (elsewhere / followed.folder.name / "丁.txt").write_text("丁", "utf-8")
    (tmp_path / "链").symlink_to(elsewhere / "深")
    with pytest.raises(BadInput, match=r"\.\. 跟在链接之后"):
        followed.drop(tmp_path / "链" / ".." / followed.folder.name, sure=True)
    assert followed.held == {"甲.txt", "乙.txt"}
    (followed.folder / "丁.txt").write_text("不是丁", "utf-8")
    assert not followed.rag.add(followed.base, [tmp_path / "链" / ".." / followed.folder.name]).refused
    (taken,) = (each for each in followed.rag.documents(followed.base) if each.name == "丁.txt")
    assert [each.text for each in followed.rag.chunks(followed.base, taken.doc_id)] == ["丁"]
    (tmp_path / "同").symlink_to(followed.folder)
    assert followed.drop(tmp_path / "同") == RemovalReport()  # a link is a name like another


@pytest.mark.parametrize(
    "source", ["/资料/子/甲.txt", "资料/子/甲.txt", "子/甲.txt", "../资料/子/甲.txt", "/资料/./子/甲.txt"]
)
def test_the_id_proves_where_a_document_came_from(source: str) -> None:
    own = document_id(Path("/资料/子/甲.txt"))
    assert path_below(Path("/资料"), own, source) == Path("/资料/子/甲.txt")
    assert path_below(Path("/资料"), document_id(Path("/别处/子/甲.txt")), source) is None
    assert path_below(Path("/资"), own, source) is None
    assert path_below(Path("/资料/子/甲.txt"), own, source) is None
    assert path_below(Path("/"), document_id(Path("/")), "") is None
