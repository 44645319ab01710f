from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from qianxun.core.errors import BadInput
from qianxun.evaluation.dataset import content_of, corpus_fingerprint, limited, load
from tests.shared import DATA, needs_data

CORPUS = [
    {"_id": "d1", "title": "医保", "text": "住院费用在职职工报销 85%。"},
    {"_id": "d2", "title": "", "text": "出差住宿每晚不超过 380 元。"},
    {"_id": "d3", "title": "年假", "text": "年假为 7 天。"},
]
QUERIES = [{"_id": "q1", "text": "住院能报多少"}, {"_id": "q2", "text": "住宿标准"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq2\td2\t1\n"


def write(
    folder: Path, corpus: Sequence[object] = CORPUS, queries: Sequence[object] = QUERIES, qrels: str = QRELS
) -> Path:
    folder.mkdir(exist_ok=True)
    for name, rows in (("corpus.jsonl", corpus), ("queries.jsonl", queries)):
        lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
        (folder / name).write_text("\n".join(lines) + "\n", "utf-8")
    (folder / "qrels.tsv").write_text(qrels, "utf-8")
    return folder


def test_a_folder_is_read(tmp_path: Path) -> None:
    read = load(write(tmp_path / "制度"))
    assert read.name == "制度"
    assert [(each.id, each.content) for each in read.documents] == [
        ("d1", "医保\n住院费用在职职工报销 85%。"),
        ("d2", "出差住宿每晚不超过 380 元。"),
        ("d3", "年假为 7 天。"),  # begins with its title
    ]
    assert read.queries == {"q1": "住院能报多少", "q2": "住宿标准"}
    assert read.qrels == {"q1": {"d1": 2}, "q2": {"d2": 1}}
    assert read.notes == ()


@pytest.mark.parametrize(
    ("title", "text", "content"),
    [("", "正文", "正文"), ("标题", "正文", "标题\n正文"), ("标题", "标题：正文", "标题：正文"), ("标题", "", "标题")],
)
def test_a_title_stands_above_its_text_once(title: str, text: str, content: str) -> None:
    assert content_of(title, text) == content


def test_the_layout_of_beir_is_read_too(tmp_path: Path) -> None:
    folder = write(tmp_path / "set")
    (folder / "qrels").mkdir()
    (folder / "qrels.tsv").rename(folder / "qrels" / "test.tsv")
    assert load(folder).qrels == {"q1": {"d1": 2}, "q2": {"d2": 1}}


def test_bom_crlf_and_blank_lines_are_no_content(tmp_path: Path) -> None:
    folder = write(tmp_path / "set")
    plain = load(folder)
    for path in folder.iterdir():
        text = path.read_text("utf-8").replace("\n", "\r\n\r\n")
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert load(folder) == plain


def test_a_line_separator_inside_a_text_does_not_end_the_line(tmp_path: Path) -> None:
    text = "第一段\u2028第二段\u0085第三段"
    read = load(write(tmp_path / "set", corpus=[{"_id": "d1", "text": text}, *CORPUS[1:]]))
    assert read.documents[0].content == text


def test_ids_may_be_numbers_and_a_header_may_be_missing(tmp_path: Path) -> None:
    read = load(write(tmp_path / "set", [{"_id": 7, "text": "甲"}], [{"_id": 1, "text": "甲？"}], "1\t7\t1.0\n"))
    assert read.qrels == {"1": {"7": 1}}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"corpus": [CORPUS[0], "{坏"]}, "corpus.jsonl 第 2 行不是合法的 JSON"),
        ({"corpus": [CORPUS[0], "[" * 100_000]}, "corpus.jsonl 第 2 行不是合法的 JSON"),
        ({"corpus": ["[1]"]}, "corpus.jsonl 第 1 行不是 JSON 对象"),
        ({"corpus": [{"text": "没有编号"}]}, "corpus.jsonl 第 1 行没有 _id"),
        ({"corpus": [{"_id": "d1", "text": 5}]}, "第 1 行的 text 不是文字"),
        ({"corpus": [CORPUS[0], {"_id": "d1", "text": "另一篇"}]}, "第 1 行与第 2 行的 _id 都是“d1”"),
        ({"corpus": []}, "没有文档"),
        ({"queries": []}, "没有查询"),
        ({"queries": [QUERIES[0], {"_id": "q1", "text": "别的"}]}, "queries.jsonl 第 1 行与第 2 行"),
        ({"qrels": "query-id\tcorpus-id\tscore\nq1 d1 1\n"}, "qrels.tsv 第 2 行不是"),
        ({"qrels": "q1\td1\t1\nq1\td2\t好\n"}, "qrels.tsv 第 2 行不是"),
        ({"qrels": "q1\td1\t1\nq1\td2\tnan\n"}, "qrels.tsv 第 2 行不是"),
        ({"qrels": "q1\td1\t1\nq1\td1\t2\n"}, "另一个分值"),
        ({"qrels": "q1\tx\t1\n"}, "全都不在语料里"),
        ({"qrels": "x\td1\t1\n"}, "没有一个查询有相关文档"),
        ({"qrels": "q1\td1\t0\n"}, "没有一个查询有相关文档"),
        ({"qrels": ""}, "没有一个查询有相关文档"),
    ],
)
def test_what_cannot_be_meant_is_told_with_its_place(tmp_path: Path, change: dict[str, object], told: str) -> None:
    with pytest.raises(BadInput) as raised:
        load(write(tmp_path / "set", **change))  # type: ignore[arg-type]
    assert told in str(raised.value)
    assert raised.value.hint


def test_another_encoding_is_told_with_its_line(tmp_path: Path) -> None:
    folder = write(tmp_path / "set")
    (folder / "queries.jsonl").write_bytes(
        b'{"_id": "q1", "text": "a"}\n' + '{"_id": "q2", "text": "住院标准"}'.encode("gbk")
    )
    with pytest.raises(BadInput, match=r"queries.jsonl 第 2 行不是 UTF-8"):
        load(folder)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="不是一个目录"):
        load(tmp_path / "无")
    folder = write(tmp_path / "set")
    (folder / "queries.jsonl").unlink()
    (folder / "qrels.tsv").unlink()
    with pytest.raises(BadInput, match=r"缺少 queries.jsonl、qrels.tsv"):
        load(folder)


def test_what_is_left_out_is_counted_aloud(tmp_path: Path) -> None:
    queries = [*QUERIES, QUERIES[0], {"_id": "q3", "text": "  "}, {"_id": "q4", "text": "没有标注"}]
    qrels = QRELS + "q1\td1\t2\nq1\t无\t1\nq9\td1\t1\nq3\td1\t1\n"
    read = load(write(tmp_path / "set", [*CORPUS, CORPUS[0], {"_id": "d4", "text": " "}], queries, qrels))
    assert set(read.queries) == {"q1", "q2"}
    assert read.qrels["q1"] == {"d1": 2, "无": 1}  # counts as never found
    told = "\n".join(read.notes)
    for part in (
        "语料里有 1 行与前面的完全重复",
        "1 个文档没有文字（如 d4）",
        "查询里有 1 行与前面的完全重复",
        "标注里有 1 行与前面的完全重复",
        "1 个不存在的查询（如 q9）",
        "1 个语料里没有的文档（如 无）",
        "1 个查询是空的（如 q3）",
        "1 个查询没有标注相关文档（如 q4）",
    ):
        assert part in told
    assert len(read.documents) == 4


def test_a_limit_draws_the_same_queries_every_time(tmp_path: Path) -> None:
    queries = [{"_id": f"q{at}", "text": f"第 {at} 问"} for at in range(50)]
    read = load(write(tmp_path / "set", CORPUS, queries, "".join(f"q{at}\td1\t1\n" for at in range(50))))
    ten, twenty = limited(read, 10), limited(read, 20)
    assert (len(ten.queries), len(twenty.queries)) == (10, 20)
    assert set(ten.queries) < set(twenty.queries)
    assert list(ten.queries) != [f"q{at}" for at in range(10)]
    assert limited(read, 10) == ten
    assert set(ten.qrels) == set(ten.queries)
    assert ten.documents == read.documents
    assert ten.labelled == 50
    assert limited(read, 500).queries == limited(read, None).queries == read.queries
    with pytest.raises(BadInput):
        limited(read, 0)


def test_the_fingerprint_tells_corpora_apart_and_no_queries(tmp_path: Path) -> None:
    read = load(write(tmp_path / "a"))
    same = load(write(tmp_path / "b", queries=QUERIES[:1]))
    assert corpus_fingerprint(read) == corpus_fingerprint(same)
    shifted = [{"_id": "d1医", "title": "保", "text": CORPUS[0]["text"]}, *CORPUS[1:], {"_id": "d1", "text": "甲"}]
    assert corpus_fingerprint(read) != corpus_fingerprint(load(write(tmp_path / "c", corpus=shifted)))


@needs_data
def test_a_public_set_is_read_whole() -> None:
    read = load(DATA / "beir" / "rageval_zh_fin")
    assert (len(read.documents), len(read.queries)) == (859, 1957)
