"""Parsers of other packages: found where they are installed, run in the sandbox, never in the place of ours."""

from __future__ import annotations

import asyncio
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from qianxun.core import plugins
from qianxun.core.errors import MissingExtra, QianxunError, TooLarge, Unreadable, UnsupportedFile
from qianxun.core.types import ParsedFile
from qianxun.ingest.parse import parse
from qianxun.ingest.parse import plugins as parsers
from qianxun.ingest.sandbox.limits import ParseLimits
from qianxun.ingest.sandbox.pool import ParserPool

LIMITS = ParseLimits()
BOOK = """
import zipfile
from qianxun.core.errors import MissingExtra, TooLarge
from qianxun.core.types import Heading, Paragraph, ParsedFile

formats = (".epub", ".story")

def parse(path, limits):
    if path.suffix == ".story":
        text = path.read_text("utf-8").strip()
    else:
        text = zipfile.ZipFile(path).read("text").decode()
    if text == "large":
        raise TooLarge("书太厚", hint="请分册")
    if text == "extra":
        raise MissingExtra("book-tools", "books")
    if text == "wrong":
        return {"blocks": [text]}
    if text == "broken":
        raise ZeroDivisionError("boom")
    if text == "write":
        path.with_suffix(".out").write_text("x")
    return ParsedFile((Heading("第一章", 1), Paragraph(text)), "", "书", {"tags": ("a", "b")})
"""


def install(site: Path, name: str, module: str, text: str, parser: str = "") -> None:
    """What pip leaves of a package: a module, and its metadata with an entry point."""
    folder = site / f"{name.replace('-', '_')}-1.2.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n", "utf-8")
    (folder / "entry_points.txt").write_text(f"[qianxun.parsers]\n{parser or name} = {module}\n", "utf-8")
    (site / f"{module}.py").write_text(text, "utf-8")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages on this process's path."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    for cache in (plugins._installed, parsers._parsers):
        cache.cache_clear()
    before = set(sys.modules)
    yield folder
    for module in set(sys.modules) - before:
        if module.startswith("plug_"):
            del sys.modules[module]
    for cache in (plugins._installed, parsers._parsers):
        cache.cache_clear()


def epub(path: Path, text: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("text", text)
    return path


def test_a_format_of_another_package_is_parsed(site: Path, tmp_path: Path) -> None:
    install(site, "book-reader", "plug_book", BOOK)
    parsed = parse(epub(tmp_path / "三国.EPUB", "话说天下大势"), LIMITS)
    assert [block.text for block in parsed.blocks if hasattr(block, "text")] == ["第一章", "话说天下大势"]
    assert (parsed.format, parsed.title, parsed.metadata) == ("epub", "书", {"tags": ("a", "b")})


def test_text_of_an_unknown_ending_goes_to_its_plug_in(site: Path, tmp_path: Path) -> None:
    (tmp_path / "a.story").write_text("从前有座山", "utf-8")
    assert parse(tmp_path / "a.story", LIMITS).format == "txt"
    for cache in (plugins._installed, parsers._parsers):
        cache.cache_clear()
    install(site, "book-reader", "plug_book", BOOK)
    assert parse(tmp_path / "a.story", LIMITS).format == "story"


def test_ours_are_never_shadowed(site: Path, tmp_path: Path) -> None:
    install(site, "greedy", "plug_greedy", BOOK.replace('".epub", ".story"', '".txt", ".epub"'))
    install(site, "book-reader", "plug_book", BOOK)
    (tmp_path / "a.txt").write_text("普通文字", "utf-8")
    assert parse(tmp_path / "a.txt", LIMITS).format == "txt"
    page = tmp_path / "a.epub"  # content that is one of our formats
    page.write_text("<!doctype html><p>网页里的文字</p>", "utf-8")
    assert parse(page, LIMITS).format == "html"
    assert parse(epub(tmp_path / "b.epub", "书"), LIMITS).format == "epub"


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("large", TooLarge, "书太厚"),
        ("extra", MissingExtra, "book-tools"),
        ("broken", Unreadable, "book-reader 1.2"),
        ("wrong", Unreadable, "book-reader 1.2"),
    ],
)
def test_what_a_plug_in_raises(site: Path, tmp_path: Path, text: str, error: type[QianxunError], words: str) -> None:
    install(site, "book-reader", "plug_book", BOOK)
    with pytest.raises(error, match=words):
        parse(epub(tmp_path / "a.epub", text), LIMITS)


def test_an_unusable_plug_in_is_named_where_it_is_missed(site: Path, tmp_path: Path) -> None:
    install(site, "book-reader", "plug_book", "raise RuntimeError('no tools')")
    with pytest.raises(UnsupportedFile) as refused:
        parse(epub(tmp_path / "a.epub", "书"), LIMITS)
    assert "book-reader 1.2" in refused.value.hint
    assert "no tools" in refused.value.hint


def test_two_for_one_ending_are_refused(site: Path, tmp_path: Path) -> None:
    install(site, "book-reader", "plug_book", BOOK)
    install(site, "epub-tools", "plug_tools", BOOK)
    with pytest.raises(UnsupportedFile, match=r"book-reader 1\.2.*epub-tools 1\.2"):
        parse(epub(tmp_path / "a.epub", "书"), LIMITS)


def test_the_sandbox_finds_what_is_installed_with_its_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment of its own, as pip would fill it; the folder of the caller and its path count for nothing."""
    home = tmp_path / "environment"
    venv.create(home, symlinks=True, with_pip=False)
    packages = next((home / "lib").glob("python*/site-packages"))
    (packages / "rest.pth").write_text("\n".join(path for path in sys.path if "site-packages" in path) + "\n")
    install(packages, "book-reader", "plug_book", BOOK)
    monkeypatch.syspath_prepend(str(tmp_path / "elsewhere"))
    install(tmp_path / "elsewhere", "not-installed", "plug_elsewhere", BOOK.replace(".story", ".tale"))
    monkeypatch.setattr(sys, "executable", str(home / "bin" / "python"))
    (tmp_path / "a.tale").write_text("只在别处", "utf-8")

    async def outcomes() -> list[ParsedFile | QianxunError]:
        pool = ParserPool(1, LIMITS)
        found: list[ParsedFile | QianxunError] = []
        names = ["good", "broken", "large", "write"]
        try:
            for path in (*(epub(tmp_path / f"{name}.epub", name) for name in names), tmp_path / "a.tale"):
                try:
                    found.append(await pool.parse(path))
                except QianxunError as error:
                    found.append(error)
        finally:
            await pool.aclose()
        return found

    good, broken, large, write, elsewhere = asyncio.run(outcomes())
    assert isinstance(good, ParsedFile)
    assert good.format == "epub"
    assert isinstance(broken, Unreadable)
    assert "broken.epub：插件 book-reader 1.2" in broken.message
    assert isinstance(large, TooLarge)
    assert "书太厚" in large.message
    assert isinstance(write, Unreadable)  # a parser writes no file
    assert not (tmp_path / "write.out").exists() or not (tmp_path / "write.out").read_text()
    assert isinstance(elsewhere, ParsedFile)
    assert elsewhere.format == "txt"
