"""The plug-ins of `examples/plugins`: installed as users install them, used by the commands and the service."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = """<?xml version="1.0" encoding="utf-8"?>
<html xmlns="http://www.w3.org/1999/xhtml"><head><title>{title}</title></head>
<body><h1>{title}</h1><p>{text}</p></body></html>"""
PAGES = {
    "一.xhtml": ("第一章 起锚", "船长林深在雾港点亮了灯塔，海面上响起三声汽笛。"),
    "二.xhtml": ("第二章 潮信", "潮信来时，灯塔的影子落在防波堤上，像一支折断的桨。"),
}


def write_epub(path: Path) -> Path:
    """A book of two chapters, as the standard lays it out."""
    items = "".join(
        f'<item id="p{at}" href="text/{name}" media-type="application/xhtml+xml"/>' for at, name in enumerate(PAGES)
    )
    spine = "".join(f'<itemref idref="p{at}"/>' for at in range(len(PAGES)))
    package = f"""<?xml version="1.0"?>
<package xmlns="http://www.idpf.org/2007/opf" version="3.0"><metadata xmlns:dc="http://purl.org/dc/elements/1.1/">
<dc:title>雾港灯塔</dc:title><dc:creator>林远</dc:creator></metadata>
<manifest>{items}</manifest><spine>{spine}</spine></package>"""
    container = """<?xml version="1.0"?>
<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles>
<rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>"""
    with zipfile.ZipFile(path, "w") as book:
        book.writestr("mimetype", "application/epub+zip")
        book.writestr("META-INF/container.xml", container)
        book.writestr("OEBPS/book.opf", package)
        for name, (title, text) in PAGES.items():
            book.writestr(f"OEBPS/text/{name}", PAGE.format(title=title, text=text))
    return path


# Runs one command after another in one process: what is started anew each time is what takes long.
COMMANDS = """
import contextlib, io, json, sys
from qianxun.doors.cli import main

for line in sys.stdin:
    sys.argv = ["qianxun", *json.loads(line)]
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), contextlib.suppress(SystemExit):
        main()
    sys.stdout.write(json.dumps(shown.getvalue()) + "\\n")
    sys.stdout.flush()
"""


@dataclass(frozen=True)
class Installed:
    """An environment of its own that sees ours, with the package installed into it."""

    python: Path
    data: Path
    commands: subprocess.Popen[str]

    def run(self, *arguments: str | Path) -> str:
        """What a command of `qianxun` prints."""
        assert self.commands.stdin is not None
        assert self.commands.stdout is not None
        self.commands.stdin.write(json.dumps(["--data", *map(str, (self.data, *arguments))]) + "\n")
        self.commands.stdin.flush()
        return str(json.loads(self.commands.stdout.readline()))

    def json(self, *arguments: str | Path) -> Any:
        return json.loads(self.run(*arguments, "--json"))


def environment() -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("QIANXUN_", "PYTHONPATH"))}
    return {**own, "QIANXUN_VECTORIZATION_MODEL": "none", "QIANXUN_SEARCH_ARMS": "exact_phrase"}


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    folder = tmp_path_factory.mktemp("plugins")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    python = folder / "env" / "bin" / "python"
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    ours = [path for path in sys.path if path.endswith("site-packages")]
    (site / "ours.pth").write_text("\n".join([str(ROOT / "src"), *ours]), "utf-8")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--target", str(site)]
    subprocess.run(
        [*pip, "--no-deps", "--no-build-isolation", "--no-index", "--no-compile", str(ROOT / "examples/plugins")],
        check=True,
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([python, "-c", COMMANDS], env=environment(), **pipes) as commands:
        yield Installed(python, folder / "data", commands)
        assert commands.stdin is not None
        commands.stdin.close()


@pytest.fixture(scope="module")
def library(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> Installed:
    files = tmp_path_factory.mktemp("files")
    write_epub(files / "雾港灯塔.epub")
    (files / "损坏.epub").write_bytes(b"PK\x03\x04 not a book")
    (files / "摘抄.txt").write_text("折断的桨还能用。灯塔是一支笔，影子像桨。", "utf-8")
    installed.run("kb", "create", "小说")
    added = installed.json("add", files, "--kb", "小说")
    assert added["added"] == 2
    (refused,) = added["refused"]
    assert "损坏.epub" in refused["path"]
    assert "损坏" in refused["reason"]
    return installed


def test_doctor_lists_the_plug_ins_with_their_version(library: Installed) -> None:
    plugins = {row["name"]: row for row in library.json("doctor")["plugins"]}
    assert set(plugins) == {"epub", "exact_phrase"}
    assert {row["version"] for row in plugins.values()} == {"0.1.0"}
    assert not any(row["trouble"] for row in plugins.values())


def test_a_book_is_found_by_its_chapters(library: Installed) -> None:
    found = library.json("search", "潮信来时灯塔的影子落在哪里", "--kb", "小说")
    first = found["chunks"][0]
    assert first["doc_name"] == "雾港灯塔.epub"
    assert "防波堤" in first["content"]


def test_a_phrase_in_quotation_marks_is_found_and_explained(library: Installed) -> None:
    query = "灯塔的影子像“折断的桨”"
    first = library.json("search", query, "--kb", "小说", "--explain")["chunks"][0]
    assert "折断的桨" in first["content"]
    assert first["explain"]["votes"]["exact_phrase"] == {"weight": 0.6, "score": 1.0}
    assert "逐字短语" in library.run("search", query, "--kb", "小说", "--explain")
    plain = library.json("search", "灯塔的影子", "--kb", "小说", "--explain")["chunks"][0]
    assert set(plain["explain"]["votes"]) == {"keyword"}  # it does not apply, so that it lowers no score


@pytest.fixture
def service(library: Installed) -> Iterator[str]:
    program = "import sys; from qianxun.doors.cli import main; sys.exit(main())"
    command = [str(library.python), "-c", program, "--data", str(library.data), "serve", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment()) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "http://127.0.0.1:" in line)
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert found is not None
            drain = threading.Thread(target=process.stderr.read, daemon=True)  # a full pipe would stop the service
            drain.start()
            yield found[0]
        finally:
            process.terminate()


def test_the_service_takes_books_and_searches_phrases(service: str, tmp_path: Path) -> None:
    with httpx.Client(base_url=service, timeout=120) as http:
        (base,) = http.get("/v1/knowledge-bases").json()["data"]["knowledge_bases"]
        book = write_epub(tmp_path / "另一本.epub")
        sent = http.post(f"/v1/knowledge-bases/{base['id']}/documents", files={"file": (book.name, book.read_bytes())})
        assert sent.status_code == 201, sent.text
        found = http.post(f"/v1/retrieval/{base['id']}", json={"query": "“三声汽笛”"}).json()["data"]["chunks"]
        assert {chunk["doc_name"] for chunk in found[:2]} == {"雾港灯塔.epub", "另一本.epub"}
        assert all("三声汽笛" in chunk["content"] for chunk in found[:2])
