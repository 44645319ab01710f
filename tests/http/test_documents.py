"""Documents over HTTP: as JSON and as files, replaced, listed, removed."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.http.served import BASES, Served, serving, until, until_told

TEXT = "住院费用报销比例为85%。"


def run(folder: Path, story: Callable[[Served, str], Awaitable[None]], told: dict[str, Any] | None = None) -> None:
    """The story is given the address of a base's documents."""

    async def whole() -> None:
        async with serving(folder, told) as served:
            await story(served, f"{BASES}/{await served.base()}/documents")

    asyncio.run(asyncio.wait_for(whole(), 300))


async def found(served: Served, documents: str, query: str = "住院报销比例") -> list[str]:
    base = documents.split("/")[3]
    answer = await served.http.post(f"/v1/retrieval/{base}", json={"query": query, "retrieval_config": {"top_k": 100}})
    assert answer.status_code == 200, answer.text
    doc_ids: list[str] = answer.json()["data"]["doc_ids"]
    return doc_ids


def test_a_document_is_searchable_when_it_was_taken_and_gone_when_it_was_deleted(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        body = {
            "name": "报销须知", "content": TEXT, "format": "text", "content_type": "chapter", "user_id": "u",
            "project_id": "p", "metadata": {"年份": 2026, "地区": ["京", "沪"], "真": True}, "tags": ["医保"],
            "doc_id": "doc_123",
        }  # fmt: skip
        taken = await served.http.post(documents, json=body)
        assert taken.status_code == 201, taken.text
        expected = {"doc_id": "doc_123", "generation": 1, "status": "indexed", "chunks": 1, "outcome": "created"}
        assert taken.json()["data"] == {**expected, "reason": "", "warnings": []}
        assert await found(served, documents) == ["doc_123"]
        one = (await served.http.get(f"{documents}/doc_123")).json()["data"]
        assert (one["name"], one["status"], one["content_type"], one["user_id"]) == (
            "报销须知",
            "indexed",
            "chapter",
            "u",
        )
        (chunk,) = (await served.http.get(f"{documents}/doc_123/chunks")).json()["data"]["chunks"]
        assert (chunk["content"], chunk["metadata"], chunk["tags"]) == (TEXT, body["metadata"], ["医保"])
        assert (await served.http.delete(f"{documents}/doc_123")).json()["data"]["deleted"] is True
        assert await found(served, documents) == []
        for gone in ("", "/chunks"):
            assert (await served.http.get(f"{documents}/doc_123{gone}")).status_code == 404
        assert (await served.http.delete(f"{documents}/doc_123")).status_code == 404

    run(tmp_path, story)


def test_put_replaces_and_says_what_it_did(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        seen = []
        for content in (TEXT, TEXT, "门诊费用报销比例为60%。"):
            told = await served.http.put(f"{documents}/a", json={"name": "a", "content": content})
            data = told.json()["data"]
            seen.append((told.status_code, data["outcome"], data["generation"]))
        assert seen == [(201, "created", 1), (200, "unchanged", 1), (200, "updated", 2)]
        (chunk,) = (await served.http.get(f"{documents}/a/chunks")).json()["data"]["chunks"]
        assert chunk["content"].startswith("门诊")
        other = await served.http.put(f"{documents}/a", json={"name": "a", "content": TEXT, "doc_id": "b"})
        assert (other.status_code, other.json()["fields"][0]["field"]) == (422, "doc_id")

    run(tmp_path, story)


def test_without_waiting_a_document_is_durable_and_soon_searchable(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        told = await served.http.post(f"{documents}?wait=false", json={"name": "a", "content": TEXT, "doc_id": "a"})
        assert (told.status_code, told.json()["data"]["outcome"]) == (201, "created")

        async def status() -> object:
            return (await served.http.get(f"{documents}/a")).json()["data"]["status"]

        await until_told(status, "indexed")
        assert await found(served, documents) == ["a"]

    run(tmp_path, story)


def test_documents_and_chunks_are_listed_a_page_at_a_time(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        names = [f"d{n}" for n in range(5)]
        for name in names:
            await served.http.put(f"{documents}/{name}", json={"name": name, "content": f"{TEXT}\n\n" * 100})
        seen: list[str] = []
        after: str | None = ""
        while after is not None:
            page = (await served.http.get(documents, params={"limit": 2, "after": after})).json()["data"]
            assert page["total"] == 5
            seen += [each["doc_id"] for each in page["documents"]]
            after = page["next"]
        assert seen == names
        every = (await served.http.get(f"{documents}/d0/chunks")).json()["data"]
        assert every["total"] == len(every["chunks"]) > 2
        assert every["next"] is None
        first = (await served.http.get(f"{documents}/d0/chunks", params={"limit": 2})).json()["data"]
        rest = (await served.http.get(f"{documents}/d0/chunks", params={"after": first["next"]})).json()["data"]
        assert first["chunks"] + rest["chunks"] == every["chunks"]

    run(tmp_path, story)


IDS = ["a/b", "a/chunks", "含 空格?#&%", "..", "chunks", "x" * 255, "a\nb", "🙂"]


def test_an_id_may_hold_anything_that_can_be_written(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        for doc_id in IDS:
            taken = await served.http.post(documents, json={"name": "a", "content": TEXT, "doc_id": doc_id})
            assert taken.status_code == 201, taken.text
            listed = (await served.http.get(documents)).json()["data"]["documents"]
            assert [each["doc_id"] for each in listed] == [doc_id]
            path = "".join(f"%{byte:02X}" for byte in doc_id.encode())
            head = f"DELETE {documents}/{path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
            assert (await served.raw(head.encode())).startswith(b"HTTP/1.1 200")
            assert (await served.http.get(documents)).json()["data"]["total"] == 0

    run(tmp_path, story)


NOT_DOCUMENTS = [
    ({"content": TEXT}, 422, "name"),
    ({"name": "a"}, 422, "content"),
    ({"name": "a", "content": None}, 422, "content"),
    ({"name": "a", "content": 5}, 422, "content"),
    ({"name": "a", "content": TEXT, "format": "pdf"}, 422, "format"),
    ({"name": "a", "content": TEXT, "tittle": "b"}, 422, "tittle"),
    ({"name": "a", "content": TEXT, "user_id": "u" * 129}, 422, "user_id"),
    ({"name": "a", "content": TEXT, "doc_id": ""}, 422, "doc_id"),
    ({"name": "a", "content": TEXT, "doc_id": "x" * 256}, 422, "doc_id"),
    ({"name": "a", "content": TEXT, "metadata": {"a": {"b": 1}}}, 422, "metadata"),
    ({"name": "a", "content": TEXT, "metadata": {"a": [None]}}, 422, "metadata"),
    ({"name": "a", "content": TEXT, "metadata": {"a": 10**400}}, 422, "metadata"),
    ({"name": "a", "content": TEXT, "metadata": {str(n): n for n in range(101)}}, 422, "metadata"),
    ({"name": "a", "content": TEXT, "tags": ["x"] * 101}, 422, "tags"),
    ({"name": "a", "content": TEXT, "pairs": [{"question": "q"}]}, 422, "pairs"),
    ({"name": "a\x00", "content": TEXT}, 400, None),
    ([1], 422, None),
]


def test_what_cannot_be_a_document_is_told_by_field(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        for body, status, field in NOT_DOCUMENTS:
            for told in (
                await served.http.post(documents, json=body),
                await served.http.put(f"{documents}/z", json=body),
            ):
                assert told.status_code == status, told.text
                if field is not None:
                    assert field in {each["field"].split(".")[0] for each in told.json()["fields"]}
            assert (await served.http.get(documents)).json()["data"]["total"] == 0

    run(tmp_path, story)


@pytest.mark.parametrize("cleared", ["", " "])
def test_a_document_whose_text_was_cleared_is_found_no_more(tmp_path: Path, cleared: str) -> None:
    async def story(served: Served, documents: str) -> None:
        await served.http.put(f"{documents}/章", json={"name": "第一章", "content": TEXT})
        taken = await served.http.put(f"{documents}/章", json={"name": "第一章", "content": cleared})
        assert (taken.status_code, taken.json()["data"]["chunks"]) == (200, 0)
        assert (await served.http.get(f"{documents}/章/chunks")).json()["data"]["chunks"] == []
        assert (await served.http.get(f"{documents}/章")).json()["data"]["status"] == "indexed"

    run(tmp_path, story)


def test_a_new_document_without_text_is_refused(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        told = await served.http.post(documents, json={"name": "a", "content": ""})
        assert (told.status_code, [each["field"] for each in told.json()["fields"]]) == (422, ["content"])

    run(tmp_path, story)


def test_null_for_what_may_be_left_out_is_the_same_as_leaving_it_out(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        optional = ("format", "content_type", "user_id", "project_id", "tags", "metadata", "doc_id", "source", "pairs")
        body = {"name": "a", "content": TEXT, **dict.fromkeys(optional)}
        taken = await served.http.post(documents, json=body)
        assert taken.status_code == 201, taken.text
        one = (await served.http.get(f"{documents}/{taken.json()['data']['doc_id']}")).json()["data"]
        assert (one["user_id"], one["content_type"]) == ("", "")
        await served.http.put(f"{documents}/m", json={"name": "a", "content": TEXT, "metadata": {"无": None, "有": 1}})
        (chunk,) = (await served.http.get(f"{documents}/m/chunks")).json()["data"]["chunks"]
        assert chunk["metadata"] == {"有": 1}
        base = dict.fromkeys(("kind", "embedding_model", "config", "user_id"))
        assert (await served.http.post(BASES, json={"name": "又一个", **base})).status_code == 201
        asked = {"query": "住院", "retrieval_mode": None, "retrieval_config": {"as_written": None}}
        number = documents.split("/")[3]
        assert (await served.http.post(f"/v1/retrieval/{number}", json=asked)).status_code == 200
        for path, field in (("query", "stream"), ("recall", "answer")):
            address = f"/v1/{path}/{number}" + ("/tables" if path == "recall" else "")
            told = await served.http.post(address, json={"query": "住院", field: None})
            assert told.status_code == 200, told.text
            assert told.headers["content-type"] == "application/json"
        needed = await served.http.post(documents, json={"name": None, "content": TEXT})
        assert [each["field"] for each in needed.json()["fields"]] == ["name"]

    run(tmp_path, story)


def test_a_wrong_value_of_metadata_has_one_reason_and_not_one_for_each_kind(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        metadata = {"空": None, "里": {"b": 1}, "单": [1, None], "对": ["京", 1, 0.5, True]}  # no value is no flaw
        told = (await served.http.post(documents, json={"name": "a", "content": TEXT, "metadata": metadata})).json()
        assert [each["field"] for each in told["fields"]] == [f"metadata.{name}" for name in "里单"]
        assert {each["reason"][:4] for each in told["fields"]} == {"应为文字"}

    run(tmp_path, story)


def test_metadata_that_every_hit_would_carry_is_bounded(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        large = {f"键{number}": ["字" * 5_000] for number in range(11)}
        told = await served.http.post(documents, json={"name": "a", "content": TEXT, "metadata": large})
        assert (told.status_code, told.json()["error"]) == (400, "bad_input"), told.text
        assert "metadata 共 55023 个字符" in told.json()["msg"]
        fields = {"metadata": json.dumps(large, ensure_ascii=True)}
        told = await served.http.post(documents, files={"file": ("a.txt", TEXT.encode())}, data=fields)
        assert told.status_code in (400, 413), told.text
        del large["键10"]
        small = {**large, "键9": "短"}
        told = await served.http.post(documents, json={"name": "a", "content": TEXT, "metadata": small})
        assert told.status_code == 201, told.text

    run(tmp_path, story)


UNREADABLE = [
    (b"{", "application/json", 422),
    (b"", "application/json", 422),
    (b"[" * 100_000, "application/json", 422),
    (b'{"name":' + b'{"a":' * 50_000, "application/json", 422),
    (b'{"name":"\xff\xfe","content":"a"}', "application/json", 422),
    (b'{"name":"a","content":"\\ud800"}', "application/json", 422),
    (b'{"name":"a","content":"b","metadata":{"a":NaN}}', "application/json", 422),
    (b'{"name":"a","content":"b","metadata":{"a":1e999}}', "application/json", 422),
    (b"name=a&content=b", "application/x-www-form-urlencoded", 415),
    (b"hello", "text/plain", 415),
    (b"hello", "", 415),
    (b"hello", "multipart/form-data", 400),
    (b"hello", "multipart/form-data; boundary=b", 400),
    (b"--b--\r\n", "multipart/form-data; boundary=b", 422),
    (b"--b\r\n\r\nx", "multipart/form-data; boundary=b", 400),
    (b"--b\r\n" + b"x" * 200_000, "multipart/form-data; boundary=b", 400),
    (b"hello", "multipart/form-data; boundary=" + "b" * 500, 400),
]


def test_a_body_that_cannot_be_read_is_the_callers_mistake(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        for raw, kind, status in UNREADABLE:
            told = await served.http.post(documents, content=raw, headers={"content-type": kind} if kind else {})
            assert told.status_code == status, told.text
            assert told.json()["data"] is None

    run(tmp_path, story)


# ── files ────────────────────────────────────────────────────────────────────────────────────────


def test_a_file_is_taken_in_with_what_is_said_beside_it(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        said = {"user_id": "u", "content_type": "手册", "metadata": json.dumps({"年份": 2026}), "tags": '["甲", "乙"]'}
        file = {"file": ("手册.md", f"# 报销\n\n{TEXT}".encode())}
        taken = await served.http.post(documents, files=file, data=said)
        assert taken.status_code == 201, taken.text
        data = taken.json()["data"]
        assert (data["status"], data["outcome"]) == ("indexed", "created")
        assert await found(served, documents) == [data["doc_id"]]
        (chunk,) = (await served.http.get(f"{documents}/{data['doc_id']}/chunks")).json()["data"]["chunks"]
        assert (chunk["doc_name"], chunk["user_id"], chunk["content_type"]) == ("手册.md", "u", "手册")
        assert (chunk["metadata"]["年份"], chunk["tags"]) == (2026, ["甲", "乙"])
        same = {"file": ("手册.md", b"# \xe6\x96\xb0\n\n" + TEXT.encode())}
        again = (await served.http.post(documents, files=same, data=said)).json()["data"]
        assert (again["doc_id"], again["outcome"]) == (data["doc_id"], "updated")
        said = {"name": "别名", "tags": "a,b", "source": "/srv/资料/手册.md"}
        named = await served.http.put(f"{documents}/mine", files=file, data=said)
        assert named.status_code == 201
        held = {each["name"]: each["source"] for each in (await served.http.get(documents)).json()["data"]["documents"]}
        assert held == {"手册.md": "手册.md", "别名": "/srv/资料/手册.md"}

    run(tmp_path, story)
    assert not list((tmp_path / "uploads").iterdir())


def test_a_large_file_goes_through_the_disk_whole(tmp_path: Path) -> None:
    lines = "\n\n".join(f"第{n}条 住院费用报销比例说明 {n * 7919}。" for n in range(25_000))
    assert len(lines.encode()) > 1_300_000

    async def story(served: Served, documents: str) -> None:
        async def parts():  # type: ignore[no-untyped-def]
            yield b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
            data = lines.encode()
            for at in range(0, len(data), 70_001):
                yield data[at : at + 70_001]
            yield b"\r\n--b--\r\n"

        kind = {"content-type": "multipart/form-data; boundary=b"}
        taken = await served.http.put(f"{documents}/a?wait=false", content=parts(), headers=kind)
        assert taken.status_code == 201, taken.text
        with served.engine.records.reading() as tx:
            from qianxun.records import documents as held

            head = held.heads(tx, int(documents.split("/")[3]), ["a"])["a"]
            text = held.load(tx, head.key, head.generation).content
        assert text.replace("\n", "") == lines.replace("\n", "")

    run(tmp_path, story)


NAMES = [
    "../../../etc/passwd", "..\\..\\evil.txt", "/etc/cron.d/x", "C:\\Windows\\x.txt", "a/../../b.txt", "\x00.txt", "",
    ".", "..", "a" * 5000 + ".txt", "$(touch x).txt", "`id`.md", "a\r\nX-Evil: 1.txt", "%2e%2e%2fx.txt", "con.txt",
    "~/.ssh/x", "\u202etxt.exe", "a.t/x", "file:///etc/passwd", "x.txt;rm -rf", "\ud83d.txt",
]  # fmt: skip


def test_no_name_of_a_file_becomes_a_path(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er" / "data"
    folder.mkdir(parents=True)
    outside = sorted(path for path in tmp_path.rglob("*") if folder not in path.parents)

    async def story(served: Served, documents: str) -> None:
        for at, name in enumerate(NAMES):
            told = name.encode("utf-8", "surrogatepass").replace(b'"', b"%22")
            raw = b'--b\r\nContent-Disposition: form-data; name="file"; filename="' + told + b'"\r\n\r\n'
            body = raw + f"{TEXT} 第{at}份".encode() + b"\r\n--b--\r\n"
            kind = {"content-type": "multipart/form-data; boundary=b"}
            taken = await served.http.put(f"{documents}/f{at}?wait=false", content=body, headers=kind)
            assert taken.status_code in (201, 400, 415), (name, taken.text)
            if taken.status_code == 201:
                shown = (await served.http.get(f"{documents}/f{at}")).json()["data"]["name"]
                assert shown.isprintable()
                assert not set(shown) & set("/\\")

    run(folder, story)
    assert sorted(path for path in tmp_path.rglob("*") if folder not in path.parents) == outside
    known = {
        "qianxun.db",
        "qianxun.db-wal",
        "qianxun.db-shm",
        "acknowledged",
        "lock",
        "index",
        "uploads",
        "inbox",
        "secret.key",
    }
    assert {each.name for each in folder.iterdir()} <= known
    assert not list((folder / "uploads").iterdir())


@pytest.mark.parametrize(
    ("name", "data", "status", "word"),
    [
        ("a.exe", b"MZ\x90\x00" + os.urandom(500), 415, "unsupported_file"),
        ("a.docx", b"not a zip at all", 422, "unreadable"),
        ("a.txt", b"", 422, "unreadable"),
        ("a.txt", b"x" * 1_200_000, 413, "too_large"),
    ],
)
def test_a_bad_file_is_refused_with_its_reason_and_leaves_no_data(
    tmp_path: Path, name: str, data: bytes, status: int, word: str
) -> None:
    async def story(served: Served, documents: str) -> None:
        told = await served.http.post(documents, files={"file": (name, data)})
        assert (told.status_code, told.json()["error"]) == (status, word), told.text
        assert told.json()["msg"]
        assert str(tmp_path) not in told.text
        listed = (await served.http.get(documents)).json()["data"]
        expected = [] if status == 413 else [(name, "failed", 0)]  # what was too large was never received
        assert [(one["name"], one["status"], one["chunks"]) for one in listed["documents"]] == expected
        assert listed["total"] == len(expected)

    run(tmp_path, story, {"parsing.file_megabytes": 1})
    assert not list((tmp_path / "uploads").iterdir())


def test_a_file_that_could_not_be_read_is_listed_until_it_can_be(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        address, base = f"{documents}/甲", documents.removesuffix("/documents")
        refused = await served.http.put(address, files={"file": ("须知.docx", b"not a zip at all")})
        assert refused.status_code == 422
        one = (await served.http.get(address)).json()["data"]
        assert (one["status"], one["name"], one["attempts"], one["served"]) == ("failed", "须知.docx", 1, 0)
        assert one["reason"] in refused.json()["msg"]
        assert one["updated_at"]
        assert (await served.http.get(base)).json()["data"]["statistics"]["failed"] == 1
        assert (await served.http.put(address, files={"file": ("须知.txt", TEXT.encode())})).status_code == 200
        assert (await served.http.get(address)).json()["data"]["status"] == "indexed"
        assert await found(served, documents) == ["甲"]
        assert (await served.http.put(address, files={"file": ("须知.docx", b"broken")})).status_code == 422
        assert await found(served, documents) == ["甲"]
        one = (await served.http.get(address)).json()["data"]
        assert (one["status"], one["served"], one["generation"], one["chunks"]) == ("failed", 2, 3, 1)
        assert (await served.http.delete(address)).status_code == 200
        assert (await served.http.get(documents)).json()["data"]["total"] == 0

    run(tmp_path, story)


SAID_WRONGLY = [
    ({"metadata": "{"}, 422, "metadata"),
    ({"metadata": "[1]"}, 422, "metadata"),
    ({"metadata": '{"a": {"b": 1}}'}, 422, "metadata"),
    ({"metadata": "[" * 60_000}, 422, "metadata"),
    ({"tags": "[1, 2]"}, 422, "tags"),
    ({"unknown": "x"}, 422, "unknown"),
    ({"user_id": "u" * 129}, 422, "user_id"),
    ({"name": "n" * 70_000}, 413, None),
    ({f"f{n}": "x" for n in range(40)}, 400, None),
    ({"file": "not a file"}, 422, "file"),
]


def test_what_is_said_beside_a_file_is_checked(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        for fields, status, field in SAID_WRONGLY:
            told = await served.http.post(documents, files={"file": ("a.txt", TEXT.encode())}, data=fields)
            assert told.status_code == status, told.text
            if field is not None:
                assert field in {each["field"].split(".")[0] for each in told.json()["fields"]}

    run(tmp_path, story)


def test_two_files_at_once_and_none_at_all_are_refused(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        two = [("file", ("a.txt", TEXT.encode())), ("file", ("b.txt", TEXT.encode()))]
        for files in (two, [("other", ("a.txt", b"x"))]):
            told = await served.http.post(documents, files=files)
            assert (told.status_code, told.json()["fields"][0]["field"]) == (422, "file"), told.text

    run(tmp_path, story)
    assert not list((tmp_path / "uploads").iterdir())


def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        head = f"POST {documents} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\n"
        part = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
        _, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(head.encode() + b"Content-Length: 9000000\r\n\r\n" + part + b"x" * 3_000_000)
        await writer.drain()
        uploads = tmp_path / "uploads"
        await until(lambda: uploads.exists() and bool(os.listdir(uploads)))
        writer.close()
        await until(lambda: not os.listdir(uploads))

    run(tmp_path, story)


def test_a_base_that_is_not_there_takes_nothing(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        other = documents.replace("1001", "99999")
        assert other != documents
        file = {"file": ("a.txt", TEXT.encode())}
        for told in (
            await served.http.post(other, json={"name": "a", "content": TEXT}),
            await served.http.put(f"{other}/a", json={"name": "a", "content": TEXT}),
            await served.http.post(other, files=file),
            await served.http.get(other),
            await served.http.get(f"{other}/a"),
            await served.http.get(f"{other}/a/chunks"),
            await served.http.delete(f"{other}/a"),
        ):
            assert (told.status_code, told.json()["error"]) == (404, "not_found"), told.text

    run(tmp_path, story)


def test_what_is_taken_is_found_and_what_is_deleted_is_not_under_concurrent_writers_and_readers(tmp_path: Path) -> None:
    async def story(served: Served, documents: str) -> None:
        async def writer(mine: int) -> None:
            for turn in range(2):
                name = f"w{mine}_{turn}"
                word = f"甲{mine}乙{turn}"
                taken = await served.http.put(
                    f"{documents}/{name}", json={"name": name, "content": f"{word}号住院报销说明"}
                )
                assert taken.json()["data"]["status"] == "indexed", taken.text
                assert name in await found(served, documents, f"{word}号住院报销说明")
                assert (await served.http.delete(f"{documents}/{name}")).status_code == 200
                assert name not in await found(served, documents, f"{word}号住院报销说明")

        await asyncio.gather(*(writer(mine) for mine in range(8)))

    run(tmp_path, story)
