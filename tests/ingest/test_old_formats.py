"""Files that LibreOffice turns into something we parse: within limits, without a trace; advice where it is missing."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from tests.ingest.sandboxed import parse_in_child

from qianxun.core.errors import Refused, TooSlow, Unreadable, UnsupportedFile
from qianxun.core.types import ParsedFile
from qianxun.ingest.assemble import assemble
from qianxun.ingest.parse.sniff import sniff
from qianxun.ingest.sandbox import convert
from qianxun.ingest.sandbox.limits import ParseLimits

LIMITS = ParseLimits(ocr=False)
TEXT = "住院报销比例为85%，起付线800元。"
HAS_OFFICE = bool(convert.soffice())
needs_office = pytest.mark.skipif(not HAS_OFFICE, reason="LibreOffice is not installed here: no .doc is converted")


def rtf(folder: Path) -> Path:
    path = folder / "医保.rtf"
    path.write_text(r"{\rtf1\ansi " + "".join(f"\\u{ord(char)}?" for char in TEXT) + r"\par}", "ascii")
    return path


def ole(folder: Path, name: str, *streams: str) -> Path:
    path = folder / name
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 504 + "\0".join(streams).encode("utf-16-le"))
    return path


def odt(folder: Path, body: str) -> Path:
    names = ("office", "text")
    spaces = " ".join(f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in names)
    kind = "application/vnd.oasis.opendocument.text"
    manifest = "urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"
    with zipfile.ZipFile(folder / "医保.odt", "w") as archive:
        archive.writestr("mimetype", kind)
        archive.writestr(
            "content.xml",
            f'<office:document-content {spaces} xmlns:xlink="http://www.w3.org/1999/xlink" office:version="1.2">'
            f"<office:body><office:text>{body}</office:text></office:body></office:document-content>",
        )
        archive.writestr(
            "META-INF/manifest.xml",
            f'<m:manifest xmlns:m="{manifest}"><m:file-entry m:full-path="/" m:media-type="{kind}"/>'
            '<m:file-entry m:full-path="content.xml" m:media-type="text/xml"/></m:manifest>',
        )
    return folder / "医保.odt"


@pytest.mark.parametrize("name", ["旧.doc", "旧.wps", "旧.xls", "旧.ppt", "旧.odt", "旧.rtf"])
def test_what_an_old_file_becomes_is_read_from_its_content(tmp_path: Path, name: str) -> None:
    streams = {".xls": "Workbook", ".ppt": "PowerPoint Document"}
    makers = {".odt": lambda: odt(tmp_path, ""), ".rtf": lambda: rtf(tmp_path)}
    suffix = Path(name).suffix
    path = makers.get(suffix, lambda: ole(tmp_path, name, streams.get(suffix, "WordDocument")))()
    with pytest.raises(convert.OldFormat) as old:
        sniff(path)
    assert old.value.target == {".xls": "xlsx", ".ppt": "pptx"}.get(suffix, "docx")


def test_without_libreoffice_the_refusal_names_the_file_and_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convert, "soffice", lambda: "")
    with pytest.raises(UnsupportedFile) as refusal:
        parse_in_child(ole(tmp_path, "合同.wps", "WordDocument"), LIMITS)
    assert refusal.value.word == "unsupported_file"
    assert "合同.wps" in refusal.value.message
    assert "LibreOffice" in refusal.value.hint


def test_a_container_that_is_no_document_is_not_converted(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFile, match="msg"):
        sniff(ole(tmp_path, "邮件.msg", "__properties_version1.0"))


# ── limits, with a program that means harm in the place of LibreOffice ───────────────────────────


def refused_by(program: str, path: Path, limits: ParseLimits, monkeypatch: pytest.MonkeyPatch) -> Refused:
    harm = path.with_name("soffice")
    harm.write_text(f"#!{sys.executable} -S\nimport os, sys, time, socket\n{program}\n", "utf-8")
    harm.chmod(0o755)
    monkeypatch.setattr(convert, "soffice", lambda: str(harm))
    with pytest.raises(Refused) as refusal:
        asyncio.run(_convert(path, limits))
    return refusal.value


async def _convert(path: Path, limits: ParseLimits) -> None:
    async with convert.converted(path, convert.OldFormat("docx"), limits):
        pass


def test_a_conversion_that_hangs_or_writes_too_much_is_ended_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = rtf(tmp_path)
    pid = tmp_path / "pid"
    hangs = refused_by(
        f"open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(600)",
        path, replace(LIMITS, seconds=1.5), monkeypatch,
    )  # fmt: skip
    assert isinstance(hangs, TooSlow)
    assert not Path(f"/proc/{pid.read_text()}").exists()
    floods = (
        "out = sys.argv[sys.argv.index('--outdir') + 1]; os.mkdir(out)\n"
        "with open(out + '/in.docx', 'wb') as opened: opened.write(bytes(5000))"
    )
    left = refused_by(f"{floods}\nos.remove(out + '/in.docx')", path, LIMITS, monkeypatch)
    assert isinstance(left, Unreadable)
    assert refused_by(floods, path, replace(LIMITS, file_bytes=4_000), monkeypatch).word == "too_large"
    assert refused_by(floods, path, replace(LIMITS, unpacked_bytes=4_000), monkeypatch).word == "unreadable"
    assert sorted(left.name for left in tmp_path.iterdir()) == ["pid", "soffice", path.name]


# ── the real one ─────────────────────────────────────────────────────────────────────────────────


@needs_office
def test_libreoffice_reads_what_we_do_not(tmp_path: Path) -> None:
    path = rtf(tmp_path)
    parsed = parse_in_child(path, LIMITS)
    assert assemble(parsed).content == TEXT
    assert [left.name for left in tmp_path.iterdir()] == [path.name]


@pytest.mark.long
@needs_office
def test_a_link_to_another_file_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("机密内容", "utf-8")
    section = (
        f'<text:p>{TEXT}</text:p><text:section text:name="a"><text:section-source xlink:type="simple" '
        f'xlink:href="{secret.as_uri()}" text:filter-name="Text"/><text:p>原文</text:p></text:section>'
    )
    content = assemble(parse_in_child(odt(tmp_path, section), LIMITS)).content
    assert TEXT in content
    assert "机密" not in content


@pytest.mark.long
@needs_office
@pytest.mark.parametrize("kind", ["doc", "xls", "ppt"])
def test_old_office_files_are_read_like_the_new_ones(tmp_path: Path, kind: str) -> None:
    source = {"doc": _document, "xls": _workbook, "ppt": _slides}[kind](tmp_path)
    profile = f"-env:UserInstallation={(tmp_path / 'profile').as_uri()}"
    command = [convert.soffice(), profile, "--headless", "--convert-to", kind, "--outdir", str(tmp_path), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    old = source.with_suffix(f".{kind}")
    assert _content(parse_in_child(old, LIMITS)) == _content(parse_in_child(source, LIMITS))
    if kind == "doc":
        wps = old.rename(old.with_suffix(".wps"))
        assert TEXT in _content(parse_in_child(wps, LIMITS))


def _content(parsed: ParsedFile) -> str:
    return assemble(parsed).content


def _document(folder: Path) -> Path:
    from docx import Document

    document = Document()
    document.add_heading("报销须知", 1)
    document.add_paragraph(TEXT)
    document.save(str(folder / "须知.docx"))
    return folder / "须知.docx"


def _workbook(folder: Path) -> Path:
    from openpyxl import Workbook

    book = Workbook()
    for row in (("项目", "比例"), ("住院", 85), ("门诊", 60)):
        book.worksheets[0].append(row)
    book.save(folder / "比例.xlsx")
    return folder / "比例.xlsx"


def _slides(folder: Path) -> Path:
    from pptx import Presentation

    slides = Presentation()
    slide = slides.slides.add_slide(slides.slide_layouts[1])
    slide.shapes.title.text = "报销须知"
    slide.placeholders[1].text = TEXT
    slides.save(str(folder / "须知.pptx"))
    return folder / "须知.pptx"
