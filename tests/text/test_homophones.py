"""Typing errors by sound, over the sample library: what the base holds puts them right, and real questions stay."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun import Document, Engine
from qianxun.core.types import TermCounts, Terms
from qianxun.text.chinese import Analyser, grams
from qianxun.text.homophones import CHANGES, corrections
from tests.shared import DATA, needs_data

TYPOS = [
    line.split()
    for line in """
    糖尿丙 糖尿病
    糖尿丙门诊待遇 糖尿病门诊待遇
    高血牙 高血压
    高雪压的准入标准 高血压的准入标准
    医保抱销 医保报销
    发漂丢了还能报销吗 发票丢了还能报销吗
    发票抱销时限 发票报销时限
    出差住素标准 出差住宿标准
    抱销单号怎么写 报销单号怎么写
    试用其可以请年假吗 试用期可以请年假吗
    试用期可以请年架吗 试用期可以请年假吗
    带新年休假有几天 带薪年休假有几天
    谈性工时怎么算 弹性工时怎么算
    动态口另过期 动态口令过期
    笔记苯电脑丢了 笔记本电脑丢了
    全盘加秘 全盘加密
    心里咨询免费几次 心理咨询免费几次
    心理资询保密吗 心理咨询保密吗
    直系亲蜀体检 直系亲属体检
    哺如时间 哺乳时间
    陪产架多少天 陪产假多少天
    育而假有几天 育儿假有几天
    备用金离直前结清 备用金离职前结清
    电子发飘原件 电子发票原件
    经济仓 经济舱
    飞机限经计舱 飞机限经济舱
    部门负则人批准 部门负责人批准
    部门负责人批谆 部门负责人批准
    劳动和同签署 劳动合同签署
    邮香开通 邮箱开通
    信息安全再线课程 信息安全在线课程
    海关鸡查 海关稽查
    灯踏上的人 灯塔上的人
    行海日志 航海日志
    光学透静 光学透镜
    走丝光学透镜 走私光学透镜
    三桅翻船载重 三桅帆船载重
    住院起付标谆 住院起付标准
    缴费机数每年调整 缴费基数每年调整
    中断脚费 中断缴费
    门诊慢特并 门诊慢特病
    异地就衣备案 异地就医备案
    异地就医备暗 异地就医备案
    临时备案有校期 临时备案有效期
    定点医员 定点医院
    政策范围内住院费佣 政策范围内住院费用
    访课车位 访客车位
    地下二曾 地下二层
    """.strip().splitlines()
]
HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")


class Holdings:
    """What a base holds, counted as an index counts it."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.words: Counter[str] = Counter()
        self.grams: Counter[str] = Counter()
        self.asked: list[int] = []
        self.entries = 0
        for text in texts:
            self.entries += 1
            self.words.update(set(Analyser().words(text)))
            self.grams.update(set(grams(text)))

    async def count(self, terms: Terms) -> TermCounts:
        self.asked.append(len(terms.words) + len(terms.grams))
        words = {word: self.words[word] for word in terms.words}
        return TermCounts(self.entries, words, {gram: self.grams[gram] for gram in terms.grams})


@cache
def library() -> Holdings:
    folder = files("qianxun.samples") / "library"
    texts = [
        f.read_text("utf-8") for f in folder.iterdir() if f.name.endswith((".md", ".txt", ".html", ".csv", ".json"))
    ]
    return Holdings(paragraph for text in texts for paragraph in text.split("\n") if paragraph.strip())


def corrected(text: str, held: Holdings | None = None) -> str | None:
    return asyncio.run(corrections(text, Analyser(), (held or library()).count))


def test_nine_typing_errors_of_ten_are_put_right() -> None:
    assert len(TYPOS) >= 40
    wrong = [(typed, meant, corrected(typed)) for typed, meant in TYPOS if corrected(typed) != meant]
    assert len(wrong) <= len(TYPOS) // 10, wrong


def test_what_was_meant_is_left_alone() -> None:
    assert [meant for _, meant in TYPOS if corrected(meant) is not None] == []


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("糖尿丙", "糖尿病"),
        ("医保抱销", "医保报销"),
        ("高血牙", "高血压"),
        ("心机梗塞", "心肌梗塞"),
        ("Ⅱ型糖尿丙，心机梗塞？", "Ⅱ型糖尿病，心肌梗塞？"),
        ("醫保抱銷", "醫保报銷"),
    ],
)
def test_a_character_of_the_same_sound_makes_a_word_of_the_base(typed: str, meant: str) -> None:
    held = Holdings(["糖尿病和高血压可以申请门诊待遇。", "医保报销比例为八成。", "急性心肌梗塞须立即溶栓。"])
    assert corrected(typed, held) == meant


@pytest.mark.parametrize(
    "text", ["", "?", "abc 123", "我", "糖尿病怎样报销", "自己包的饺子", "丙", "體溫怎樣", "かな漢字", "\ud800糖尿"]
)
def test_what_is_no_error_is_left_alone(text: str) -> None:
    assert corrected(text) is None


def test_an_empty_base_changes_nothing() -> None:
    assert [typed for typed, _ in TYPOS if corrected(typed, Holdings([]))] == []


def test_no_more_than_two_characters_are_changed_and_few_terms_counted() -> None:
    held = library()
    held.asked.clear()
    text = "糖尿丙，高血牙，发漂，访课车位，灯塔"
    changed = corrected(text)
    assert changed is not None
    assert sum(old != new for old, new in zip(text, changed, strict=True)) == CHANGES
    assert len(held.asked) == 3  # what was typed, what may have been meant, and what then stands beside it
    assert max(held.asked) < 1_000


def test_a_real_index_is_asked(tmp_path: Path) -> None:
    async def story() -> str | None:
        async with Engine.open(tmp_path, background=False) as engine:
            about = await engine.create_knowledge_base("医保", model="none")
            await engine.add_documents(about.id, [Document("a", "糖尿病患者的门诊费用，医保报销比例为八成。")])
            base = await engine.base(about.id)
            return await corrections("糖尿丙的抱销比例", base.analyser, base.serving.index.count)

    assert asyncio.run(story()) == "糖尿病的报销比例"


def test_a_word_is_what_a_dictionary_lists() -> None:
    assert Analyser().has_word("饺子")
    assert not Analyser().has_word("抱销")
    assert Analyser(["抱销"]).has_word("抱銷")


@given(st.text(st.one_of(st.characters(), st.sampled_from("糖尿丙高血牙医保抱销发票的Ⅱ銷怎么办，a1")), max_size=40))
def test_any_text_keeps_its_length_and_all_but_two_han_characters(text: str) -> None:
    changed = corrected(text)
    assert changed == corrected(text)
    if changed is not None:
        assert len(changed) == len(text)
        differing = [(old, new) for old, new in zip(text, changed, strict=True) if old != new]
        assert 1 <= len(differing) <= CHANGES
        assert all(HAN.match(old) and HAN.match(new) for old, new in differing)


@needs_data
@pytest.mark.parametrize("name", ["rageval_zh_fin", "dureader_robust"])
def test_real_questions_over_their_own_base_are_hardly_ever_changed(name: str) -> None:
    folder = DATA / "beir" / name
    lines = (folder / "corpus.jsonl").read_text(encoding="utf-8").strip().split("\n")
    held = Holdings(f"{entry.get('title', '')}\n{entry['text']}" for entry in map(json.loads, lines))
    questions = [
        json.loads(line)["text"] for line in (folder / "queries.jsonl").read_text(encoding="utf-8").strip().split("\n")
    ]
    random.Random(3).shuffle(questions)
    changed = [(question, new) for question in questions[:300] if (new := corrected(question, held))]
    assert len(changed) < 6, changed
