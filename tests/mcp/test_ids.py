from __future__ import annotations

import pytest

from qianxun.core.errors import BadInput
from qianxun.doors.mcp.ids import PassageId, document_id, local_address, own_url, read_id, service_address
from qianxun.records.chunks import chunk_id

IDS = (
    "手册.md",
    "制度/差旅.md",
    "/",
    "a//b",
    "c_7_x_1",
    "7/8",
    "_",
    "0",
    "%2F",
    "100%",
    "a b",
    "a\nb",
    " a ",
    "😀",
    "qianxun://7/8",
)


@pytest.mark.parametrize("doc_id", IDS)
def test_an_id_leads_back_to_its_document_whatever_that_is_called(doc_id: str) -> None:
    for base in (1, 1001, 10**18 - 1):
        assert read_id(document_id(base, doc_id)) == PassageId(base, doc_id)
        assert read_id(local_address(base, doc_id)) == PassageId(base, doc_id)
        assert read_id(chunk_id(base, doc_id, 12)) == PassageId(base, doc_id, 12)


def test_slashes_and_underscores_belong_to_the_document() -> None:
    assert read_id("1001/制度/2024/差旅.md") == PassageId(1001, "制度/2024/差旅.md")
    assert read_id("1001/c_7_x_1") == PassageId(1001, "c_7_x_1")
    assert read_id("c_1001_c_7_x_1_3") == PassageId(1001, "c_7_x_1", 3)
    assert read_id(" 1001/手册.md") == PassageId(1001, "手册.md")


@pytest.mark.parametrize(
    "written", ["", "手册.md", "1001", "1001/", "/手册.md", "医保/手册.md", "c_1001_x", "９/a", f"{'9' * 19}/a", "-1/a"]
)
def test_what_is_no_id_is_said_to_be_none(written: str) -> None:
    with pytest.raises(BadInput, match="看不懂编号") as told:
        read_id(written)
    assert "search" in told.value.hint


def test_addresses() -> None:
    assert local_address(1001, "制度/a b.md") == "qianxun://1001/%E5%88%B6%E5%BA%A6%2Fa%20b.md"
    at = service_address("http://127.0.0.1:8000/")
    assert at(1001, "a/b") == "http://127.0.0.1:8000/v1/knowledge-bases/1001/documents/a%2Fb"


def test_a_documents_own_address_counts_where_a_browser_can_follow_it() -> None:
    assert own_url({"url": "https://example.com/a"}) == "https://example.com/a"
    assert own_url({"url": "javascript:alert(1)", "source_url": "HTTP://example.com"}) == "HTTP://example.com"
    assert own_url({"url": ("https://example.com/a",), "source_url": 7}) == ""
