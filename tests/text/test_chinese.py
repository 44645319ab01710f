"""What is asked and what is indexed meet in one written form."""

from __future__ import annotations

import json
import lzma
import unicodedata
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.errors import BadInput
from qianxun.text.chinese import (
    ANALYSIS_VERSION,
    SENTENCE_END,
    STOP_WORDS,
    Analyser,
    analyse_query,
    fold,
    grams,
    index_grams,
    index_words,
    is_folded_by_case,
    pairs,
    sentence_ends,
    words,
)
from tests.shared import DATA, needs_data

MIXED = st.text(
    alphabet=st.one_of(
        st.characters(), st.sampled_from("發票发票乾隆燥ＡＢＣabc１２３123 ，。-_.%+Ⅱ㎡²é\ud800русテスト한")
    ),
    max_size=60,
)


@pytest.mark.parametrize(
    ("written", "searched"),
    [
        ("發票", "发票"),
        ("ＡＢＣ１２３", "abc123"),
        ("Ⅱ型糖尿病", "II型糖尿病"),
        ("建築面積120㎡", "建筑面积120m2"),
        ("CO₂", "co2"),
        ("臺灣繁體中文", "台湾繁体中文"),
        ("頭髮與發展", "头发与发展"),
        ("cafe\u0301", "CAFÉ"),
        ("⽤户", "用户"),  # a Kangxi radical, as PDF files have them
        ("３．１４", "3.14"),
    ],
)
def test_two_ways_of_writing_fold_to_one(written: str, searched: str) -> None:
    assert fold(written) == fold(searched)
    assert index_words(written) == index_words(searched)
    assert index_grams(written) == index_grams(searched)


def test_simplification_looks_at_phrases() -> None:
    assert fold("乾燥") == "干燥"
    assert fold("乾隆年间") == "乾隆年间"
    assert words("乾隆年间")[0] == "乾隆"


def test_circled_numbers_and_fractions_do_not_become_other_numbers() -> None:
    assert fold("见①②，3½") == "见①②，3½"


@given(MIXED)
def test_folding_twice_is_folding_once_for_any_text(text: str) -> None:
    once = fold(text)
    once.encode("utf-8")
    assert fold(once).split() == once.split()


@given(MIXED)
def test_tokens_are_clean_for_any_text(text: str) -> None:
    for token in words(text) + grams(text):
        # Ideographs that Unicode gained after this Python was made have no category here yet, but are characters.
        assert any(character.isalnum() or unicodedata.category(character) == "Cn" for character in token)
        assert not any(character.isspace() for character in token)
    assert index_words(text).split() == words(text)
    assert index_grams(text).split() == grams(text)


@given(MIXED)
def test_every_letter_and_digit_is_in_some_word_and_some_gram(text: str) -> None:
    seen = {character for character in fold(text) if character.isalnum()}
    assert seen <= set("".join(words(text)))
    assert seen <= set("".join(grams(text)))


@given(st.text(alphabet="医保报销比例中华人民共和国", max_size=30))
def test_grams_are_the_characters_and_their_pairs(text: str) -> None:
    assert grams(text) == [*text, *(a + b for a, b in pairwise(text))]


@given(st.text(alphabet=st.sampled_from("一二年龍乾𠀀가かーㇰABab1２_ 。\n㎡Ⅱé")) | st.text())
def test_pairs_are_the_grams_longer_than_a_character(text: str) -> None:
    assert pairs(text) == {gram for gram in grams(text) if len(gram) > 1}


@given(
    st.text(alphabet=st.sampled_from("一年龍乾AbΣσİ1２。㎡Ⅱe\u0301é")) | st.text(), st.integers(0, 9), st.integers(0, 9)
)
def test_every_part_of_what_is_folded_by_case_is_so(text: str, start: int, length: int) -> None:
    part = text[start : start + length]
    if is_folded_by_case(text):
        assert fold(part) == part.lower()


def test_what_is_folded_by_case() -> None:
    assert is_folded_by_case("甲公司，2023 年 ABC。")
    assert not any(map(is_folded_by_case, ("龍門", "２０２３年", "Ⅱ", "e\u0301", "㎡")))


def test_grams_do_not_reach_across_punctuation_and_keep_letters_whole() -> None:
    assert grams("血压，140mmHg高") == ["血", "压", "高", "血压", "140mmhg"]


def test_long_words_come_with_the_words_inside_them() -> None:
    assert set(words("我来到北京清华大学。")) == {"我", "来到", "北京", "清华", "华大", "大学", "清华大学"}


def test_compounds_are_found_by_their_parts_and_as_a_whole() -> None:
    assert words("COVID-19") == ["covid", "19", "covid-19"]
    assert words("user_id=70%") == ["user", "id", "user_id", "70"]
    assert words("1.2.3 版，圆周率3.14") == ["1.2.3", "版", "圆周", "圆周率", "3.14"]


def test_many_texts_are_cut_in_one_go_as_each_would_be_alone() -> None:
    texts = ["糖尿病的治疗", "门诊", "我", "在北京大学读书", "糖", "报销比例八成"]
    alone = [(at, word) for at, text in enumerate(texts) for word in words(text) if len(word) > 1]
    assert list(Analyser().longer_words(texts)) == alone
    assert list(Analyser().longer_words([])) == []


def test_words_of_other_scripts_stay_whole() -> None:
    assert words("état русский テスト 5μm") == ["état", "русский", "テスト", "5μm"]


def test_a_dictionary_of_ones_own_adds_words_to_its_owner_only() -> None:
    text = "住院报销比例与Ｃ＋＋"
    own = Analyser(["报销比例", "C++", "  "])
    assert "报销比例" in own.words(text)
    assert "c++" in own.words(text)
    assert "报销比例" not in words(text)
    assert "报销比例" in own.analyse_query("報銷比例").words


def test_the_version_tells_dictionaries_apart() -> None:
    assert Analyser().version == ANALYSIS_VERSION
    assert Analyser(["甲乙", "丙丁"]).version == Analyser(["丙丁", "甲乙"]).version
    assert len({Analyser(own).version for own in ([], ["甲乙"], ["丙丁"])}) == 3


def test_a_word_with_a_space_is_refused() -> None:
    with pytest.raises(BadInput, match="空格"):
        Analyser(["门诊 统筹"])


def test_a_question_loses_its_stop_words_unless_nothing_else_is_left() -> None:
    assert analyse_query("住院的报销比例是多少？报销").words == ("住院", "报销", "比例")
    assert analyse_query("是什么").words == ("是", "什么")
    assert analyse_query("，。 ？").words == ()
    assert STOP_WORDS & set(words("住院的报销比例是多少"))  # the index keeps them


def test_a_long_run_of_anything_is_analysed() -> None:
    for unit in ("a", "中", "，", "é", "-", "a-", "1.", " "):
        text = unit * 200_000
        index_words(text)
        index_grams(text)


def passages(count: int) -> Iterator[str]:
    with lzma.open(DATA / "zh_scale_200k.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in islice(lines, count):
            yield json.loads(line)["text"]


@needs_data
def test_threads_give_what_one_thread_gives() -> None:
    texts = list(passages(400))
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(index_words, texts)) == list(map(index_words, texts))


@needs_data
def test_every_passage_contains_the_words_of_its_sentences() -> None:
    """A sentence taken from a passage and asked as it stands shares nearly all of its words with that passage."""
    for text in passages(300):
        sentence = text[: text.find("。") + 1] or text[:40]
        asked = set(analyse_query(sentence).words)
        assert len(asked & set(words(text))) >= 0.8 * len(asked)


def test_pairs_of_characters_of_words_without_meaning_are_not_searched_for() -> None:
    """是什么 is rare in documents and would weigh more than what the question is about; pairs with a neighbour stay."""
    asked = analyse_query("住院报销多少是什么")
    assert {"住院", "院报", "报销", "销多"} <= set(asked.grams)
    assert not {"多少", "少是", "是什", "什么"} & set(asked.grams)
    assert {"什", "么"} <= set(asked.grams)  # tiers look at what characters a chunk shares with a question
    assert {"是什", "什么"} <= set(analyse_query("是什么").grams)
    assert "多少" in Analyser(["多少"]).analyse_query("住院报销多少").grams


@pytest.mark.parametrize("text", ["報銷比例為 85％，ＡＢＣ１２３", "COVID-19 防控，QH-2087，㎡", "第三章\n乾隆"])
def test_terms_of_an_index_entry_are_its_words_and_grams(text: str) -> None:
    analyser = Analyser(["报销比例"])
    texts = [text, "", f"{text}。", "a", text]
    assert list(analyser.index_terms(texts)) == [(analyser.index_words(one), index_grams(one)) for one in texts]


@given(st.text(alphabet="天a1。！？；…｡．!?;.，、”）\"' =/", max_size=30))
def test_sentences_end_where_the_pattern_finds_an_end(text: str) -> None:
    assert [end.span() for end in sentence_ends(text)] == [end.span() for end in SENTENCE_END.finditer(text)]
