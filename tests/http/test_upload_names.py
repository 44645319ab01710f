"""The name of an uploaded file, as the libraries of other languages write it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from python_multipart.multipart import parse_options_header

from qianxun.doors.http.native.uploads import file_name
from tests.http.served import BASES, serving

PERCENT = "%E4%BB%B7%E7%9B%AE%E8%A1%A8.txt"
WORD = "=?utf-8?B?5Lu355uu6KGoLnR4dA==?="
WRITTEN = {
    "as it is": 'filename="价目表.txt"',
    "without quotes": "filename=价目表.txt",
    ".NET": f"filename=\"{WORD}\"; filename*=utf-8''{PERCENT}",
    ".NET, the header set by hand": f'filename="{WORD}"',
    "quoted-printable": 'filename="=?UTF-8?Q?=E4=BB=B7=E7=9B=AE=E8=A1=A8.txt?="',
    "aiohttp": f'filename="{PERCENT}"',
    "old urllib3": f"filename*=utf-8''{PERCENT}",
    "with a language": f"filename*=UTF-8'zh'{PERCENT}",
    "GBK": "filename*=GBK''%BC%DB%C4%BF%B1%ED.txt",
    "a folder of Windows": 'filename="C:\\\\资料\\\\价目表.txt"',
    "a folder behind percent signs": f'filename="..%2F..%2F{PERCENT}"',
    "a folder in the extended form": f"filename*=utf-8''..%2F{PERCENT}",
}


def named(written: str) -> str | None:
    disposition = f'form-data; name="file"; {written}'.encode()
    return file_name(disposition, parse_options_header(disposition)[1])


@pytest.mark.parametrize("written", WRITTEN.values(), ids=WRITTEN)
def test_a_name_is_read_however_it_is_written(written: str) -> None:
    assert named(written) == "价目表.txt"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ('filename="a%22b.txt"', 'a"b.txt'),
        ('filename="100%25.txt"', "100%25.txt"),
        ('filename="my%20file.txt"', "my%20file.txt"),
        ('filename="%E4%BB.txt"', "%E4%BB.txt"),
        ('filename="50%价.txt"', "50%价.txt"),
        ("filename=\"a; filename*=utf-8''b.txt\"", "a; filename*=utf-8''b.txt"),
        ("filename=\"a.txt\"; filename*=nosuch''b.txt", "a.txt"),
        ("filename=\"a.txt\"; filename*=utf-8''%FF.txt", "a.txt"),
        ('filename="=?nosuch?B?5Lu3?="', "=?nosuch?B?5Lu3?="),
        ('filename="=?utf-8?B?5Lu?="', "=?utf-8?B?5Lu?="),
        ('filename="e\u0301.txt"', "\u00e9.txt"),
        ('filename=""', "未命名"),
    ],
)
def test_what_only_looks_encoded_is_left_as_it_is(written: str, name: str) -> None:
    assert named(written) == name


def test_a_part_without_a_name_is_no_file() -> None:
    assert named("x=1") is None


def test_the_file_is_known_and_read_by_that_name(tmp_path: Path) -> None:
    """By its ending it is a table; as the encoded word it would have none."""

    async def story() -> None:
        async with serving(tmp_path) as served:
            documents = f"{BASES}/{await served.base()}/documents"
            word = "=?utf-8?B?5Lu355uu6KGoLmNzdg==?="
            head = f"Content-Disposition: form-data; name=file; filename=\"{word}\"; filename*=utf-8''{PERCENT[:-3]}csv"
            body = f"--b\r\n{head}\r\n\r\n项目,价格\n挂号,10\n\r\n--b--\r\n".encode()
            kind = {"content-type": 'multipart/form-data; boundary="b"'}
            taken = await served.http.post(documents, content=body, headers=kind)
            assert taken.status_code == 201, taken.text
            doc_id = taken.json()["data"]["doc_id"]
            assert (await served.http.get(f"{documents}/{doc_id}")).json()["data"]["name"] == "价目表.csv"
            (chunk,) = (await served.http.get(f"{documents}/{doc_id}/chunks")).json()["data"]["chunks"]
            assert chunk["kind"] == "table"

    asyncio.run(story())
