"""From paths to files: each once, in order, or a reason."""

from __future__ import annotations

import os
from pathlib import Path

from qianxun.core.ingest_types import Refusal
from qianxun.ingest.sources import Source, discover, document_id


def found(*paths: Path) -> tuple[list[str], dict[str, str]]:
    items = list(discover(paths))
    names = [item.name for item in items if isinstance(item, Source)]
    return names, {item.path.name: item.reason for item in items if isinstance(item, Refusal)}


def test_folders_are_walked_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("乙.txt", "甲.txt", "b/2.txt", "b/1.txt", "a.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name, "utf-8")
    names, refusals = found(tmp_path)
    assert names == ["a.txt", "1.txt", "2.txt", "乙.txt", "甲.txt"]
    assert refusals == {}
    assert found(tmp_path, tmp_path / "b", tmp_path / "a.txt")[0] == names  # each file once


def test_what_is_left_out_is_said(tmp_path: Path) -> None:
    folder, outside = tmp_path / "in", tmp_path / "secret.txt"
    folder.mkdir()
    outside.write_text("x")
    (folder / ".hidden").write_text("x")
    (folder / "~$draft.docx").write_text("x")
    (folder / "out.txt").symlink_to(outside)
    (folder / "broken.txt").symlink_to(folder / "nothing")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    (folder / "good.txt").write_text("x")
    (folder / "again.txt").symlink_to(folder / "good.txt")
    names, refusals = found(folder, tmp_path / "missing")
    assert names == ["again.txt"]  # the link inside the folder comes first; its target is the same file
    assert set(refusals) == {".hidden", "~$draft.docx", "out.txt", "broken.txt", "loop", "pipe", "missing"}
    assert "文件夹之外" in refusals["out.txt"]
    assert "找不到" in refusals["missing"]


def test_a_named_file_is_taken_even_if_hidden_or_a_link(tmp_path: Path) -> None:
    (tmp_path / ".note.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to(tmp_path / ".note.txt")
    assert found(tmp_path / "link.txt")[0] == ["link.txt"]
    assert found(tmp_path / ".note.txt")[0] == [".note.txt"]


def test_the_id_stays_with_the_path_and_the_fingerprint_with_the_content(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("一")
    before = next(item for item in discover([path]) if isinstance(item, Source))
    path.write_text("二")
    after = next(item for item in discover([tmp_path / "." / "a.txt"]) if isinstance(item, Source))
    assert before.id == after.id == document_id(path)
    assert before.fingerprint != after.fingerprint
    assert document_id(tmp_path / "b.txt") != before.id


def test_a_name_that_is_no_text_is_refused_in_words(tmp_path: Path) -> None:
    """An archive made on Windows and unpacked elsewhere leaves names in GBK."""
    named = os.fsencode(tmp_path) + "/报销.txt".encode("gbk")
    Path(os.fsdecode(named)).write_text("住院报销。", "utf-8")
    (refusal,) = discover([tmp_path])
    assert isinstance(refusal, Refusal)
    assert "文件名不是 UTF-8" in refusal.reason
