"""What one chunk tells the graph: names and statements that a reader would agree with, at places where they stand."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qianxun.core.graph_types import Facts
from qianxun.graph.extract.chunk import extract_facts, title_of
from qianxun.text.chinese import Analyser, fold
from tests.hypothesis_settings import examples
from tests.linear import is_linear
from tests.shared import DATA, needs_data

ANALYSER = Analyser()


def read(text: str, doc_name: str = "", kind: str = "text") -> Facts:
    return extract_facts(text, kind=kind, doc_name=doc_name, analyser=ANALYSER)  # type: ignore[arg-type]


def stated(text: str, doc_name: str = "", kind: str = "text") -> set[tuple[str, str, str]]:
    return {(each.source, each.type, each.target) for each in read(text, doc_name, kind).statements}


def named(text: str, doc_name: str = "") -> dict[str, str]:
    return {each.name: each.type for each in read(text, doc_name).mentions}


def also(text: str) -> set[tuple[str, str]]:
    return {(each.name, each.alias) for each in read(text).aliases}


# ── names ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("苹果公司由史蒂夫·乔布斯创立。", "史蒂夫·乔布斯", "PERSON"),
        ("他读了达·芬奇密码。", "达·芬奇", "PERSON"),
        ("波兰总理莫拉维茨基表示。", "莫拉维茨基", "PERSON"),
        ("毕业后进入杜肯大学任教。", "杜肯大学", "ORGANIZATION"),
        ("四通控股有限公司在香港上市。", "四通控股有限公司", "ORGANIZATION"),
        ("他收购了真实制造有限公司。", "真实制造有限公司", "ORGANIZATION"),
        ("他来自河北省石家庄市。", "河北省", "PLACE"),
        ("電影《滿江紅》在臺灣上映。", "滿江紅", "WORK"),
        ("電影《滿江紅》在臺灣上映。", "臺灣", "PLACE"),
        ("推出“乙类乙管”政策。", "乙类乙管", "TERM"),
        ("He joined Walt Disney Animation Studios in Paris.", "Walt Disney Animation Studios", "ORGANIZATION"),
        ("A novel by J. R. R. Tolkien.", "J. R. R. Tolkien", "NAME"),
    ],
)
def test_a_name_is_found_whole_and_of_its_kind(text: str, name: str, kind: str) -> None:
    assert named(text)[name] == kind


@pytest.mark.parametrize("word", ["慈善", "公司", "工作人员", "2020年", "1.38亿元", "城市", "谢谢", "美丽"])
def test_words_that_are_nobodys_name_are_none(word: str) -> None:
    assert word not in named(f"我们谈到{word}，也谈到{word}。")


@pytest.mark.parametrize("word", ["The", "He", "May", "American", "Developed", "January"])
def test_a_capital_at_the_beginning_makes_no_name(word: str) -> None:
    assert word not in named(f"{word} was there. So it was developed.")


def test_a_word_of_the_bases_own_dictionary_is_a_name() -> None:
    found = extract_facts("我们用千寻引擎检索。", analyser=Analyser(["千寻引擎"]))
    assert [(each.name, each.type) for each in found.mentions] == [("千寻引擎", "NAME")]


@pytest.mark.parametrize("word", ["豆豆", "石头", "阿蛮", "听雨先生"])
def test_so_is_one_that_the_segmenter_knows_as_something_else(word: str) -> None:
    found = extract_facts(f"她的小名{word}，谁都知道。", analyser=Analyser([word]))
    assert [(each.name, each.type) for each in found.mentions] == [(word, "NAME")]


def test_a_word_of_ones_own_keeps_the_kind_that_it_is_known_to_be() -> None:
    own = Analyser(["鲁迅", "绍兴"])
    there = extract_facts("鲁迅出生于绍兴。", analyser=own).mentions
    assert [(each.name, each.type) for each in there] == [("鲁迅", "PERSON"), ("绍兴", "PLACE")]


def test_a_short_name_calls_the_long_one_of_the_same_text() -> None:
    mentions = read("艾莉雅·沙伯在纽约出生。后来沙伯进入大学。").mentions
    assert [each.name for each in mentions if each.type == "PERSON"] == ["艾莉雅·沙伯", "艾莉雅·沙伯"]
    both = read("George Smith met Adam Smith. Smith laughed.").mentions
    assert [each.name for each in both] == ["George Smith", "Adam Smith", "Smith"]  # it might be either


def test_what_a_document_is_called_is_a_name_in_every_part_of_it() -> None:
    there = read("龙晶是一款游戏。", "龙晶（游戏）.md").mentions
    assert ("龙晶（游戏）", 0, 2) in [(each.name, each.start, each.end) for each in there]
    absent = read("公司于2019年开发了环保型产品。", "爱康医疗集团.pdf")
    assert ("爱康医疗集团", 0, 0) in [(each.name, each.start, each.end) for each in absent.mentions]
    assert ("爱康医疗集团", "开发", "环保型产品") in {(e.source, e.type, e.target) for e in absent.statements}


@pytest.mark.parametrize("name", ["", "3", "第一章", "2020-01-01.txt", "你好吗？我很好。", "长" * 80])
def test_not_everything_that_a_document_is_called_is_a_name(name: str) -> None:
    assert title_of(name) == ""


# ── statements ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("鲁迅出生于浙江绍兴。", ("鲁迅", "出生地", "绍兴")),
        ("乔治·贝瑞·奥图尔，生于美国俄亥俄州。", ("乔治·贝瑞·奥图尔", "出生地", "俄亥俄州")),
        ("华为技术有限公司由任正非于1987年创立，总部位于深圳。", ("华为技术有限公司", "创始人", "任正非")),
        ("华为技术有限公司由任正非于1987年创立，总部位于深圳。", ("华为技术有限公司", "总部地点", "深圳")),
        ("華為技術有限公司由任正非於1987年創立。", ("華為技術有限公司", "创始人", "任正非")),
        ("《满江红》的导演是张艺谋。", ("满江红", "导演", "张艺谋")),
        ("《满江红》由张艺谋执导。", ("满江红", "导演", "张艺谋")),
        ("北京是中国的首都。", ("中国", "首都", "北京")),
        ("波兰总理莫拉维茨基当时也表示。", ("波兰", "总理", "莫拉维茨基")),
        ("阿司匹林可以治疗偏头痛。", ("阿司匹林", "治疗", "偏头痛")),
        ("推特公司被马斯克收购。", ("马斯克", "收购", "推特公司")),
        ("韩燕当选海南博鳌形象小姐。", ("韩燕", "当选", "博鳌形象小姐")),
        ("张艺谋的作品《满江红》上映。", ("张艺谋", "作品", "满江红")),
        ("The film was directed by John Ford.", None),
        ("Veena is a documentary film, directed by Sathish Kalathil.", ("Veena", "directed by", "Sathish Kalathil")),
    ],
)
def test_what_the_words_between_two_names_say(text: str, expected: tuple[str, str, str] | None) -> None:
    assert expected in stated(text) if expected else stated(text) == set()


def test_a_pronoun_speaks_of_what_the_text_is_about() -> None:
    assert ("Raye Birk", "had roles in", "X-Files") in stated('He had roles in the "X-Files".', "Raye Birk")
    assert ("鲁迅", "毕业院校", "仙台医学专门学校") in stated("他毕业于仙台医学专门学校。", "鲁迅")


@pytest.mark.parametrize(
    "text",
    [
        *("鲁迅认为绍兴很好。", "他没有去北京，老舍去了。", "鲁迅和老舍在北京见面。", "因为鲁迅，所以绍兴。"),
        "他在上海成立中国社会主义青年团。",  # where, not who
        "鲁迅成为北京大学的讲师。",  # not what he became
        "他来自山东省烟台市，毕业于中央戏剧学院。",  # not the town
    ],
)
def test_what_is_not_clear_is_not_stated(text: str) -> None:
    assert stated(text) == set()


def test_names_that_share_a_sentence_are_told_by_the_sentence() -> None:
    facts = read("鲁迅和老舍在北京见面。天气很好。绍兴下雨。")
    assert facts.sentences == ((0, 11),)


def test_lines_of_keys_and_values_speak_of_the_document() -> None:
    told = "姓名：周树人\n出生地：绍兴\n出生日期：1881年\n职业：作家"
    assert stated(told, "鲁迅") == {("鲁迅", "姓名", "周树人"), ("鲁迅", "出生地", "绍兴"), ("鲁迅", "职业", "作家")}
    assert stated("注意：周树人", "鲁迅") == set()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("世界卫生组织（WHO）发布报告。", ("世界卫生组织", "WHO")),
        ("世界卫生组织（世卫组织）发布报告。", ("世界卫生组织", "世卫组织")),
        ("四通控股有限公司，简称四通控股，成立于1987年。", ("四通控股有限公司", "四通控股")),
        ("乔治·奥图尔（英语：George O'Toole）是神父。", ("乔治·奥图尔", "George O'Toole")),
    ],
)
def test_other_names_are_told_where_the_text_says_so(text: str, expected: tuple[str, str]) -> None:
    assert expected in also(text)


@pytest.mark.parametrize(
    "text",
    [
        *("蓝天科技有限公司（以下简称“公司”）成立。", "鲁迅（1881年－1936年）是作家。", "张伟（北京）参加。"),
        "促进可持续发展目标（SDGs）的实现。",  # of which only the end was seen to be a name
    ],
)
def test_what_stands_for_anything_is_nobodys_other_name(text: str) -> None:
    assert also(text) == set()


# ── triples ──────────────────────────────────────────────────────────────────────────────────────


def test_a_line_that_is_a_triple_is_taken_as_it_is() -> None:
    text = "无罪无我 的 和声 是 章韵、徐晨辰"
    assert stated(text, "无罪无我") == {("无罪无我", "和声", name) for name in ("章韵、徐晨辰", "章韵", "徐晨辰")}
    assert set(named(text, "无罪无我")) == {"无罪无我", "章韵、徐晨辰", "章韵", "徐晨辰"}
    assert stated("影舞者（《QQ飞车》） 的 车身重量 是 1232kg") == {("影舞者（《QQ飞车》）", "车身重量", "1232kg")}
    assert stated("主客 的 词目 是 主客") == {("主客", "词目", "主客")}


@pytest.mark.parametrize(
    "header", ["s | p | o", "Subject | Predicate | Object", "主体 | 关系 | 客体", "头实体 | 关系 | 尾实体"]
)
def test_rows_of_a_table_of_triples_are_taken_as_they_are(header: str) -> None:
    table = f"表\n| {header} |\n| 鲁迅 | 代表作品 | 狂人日记 |\n| 鲁迅 | 生年 | 1881 |\n| 甲\\|乙 | 属于 | 丙 |"
    assert stated(table, kind="table") == {
        ("鲁迅", "代表作品", "狂人日记"),
        ("鲁迅", "生年", "1881"),
        ("甲\\|乙", "属于", "丙"),
    }


def test_other_tables_tell_of_their_first_column() -> None:
    table = "商品\n| 序号 | 品名 | 产地 | 价格 |\n| 1 | 龙井茶 | 杭州 | 300 |\n| 2 | 碧螺春 | 苏州 | — |"
    assert stated(table, kind="table") == {("龙井茶", "产地", "杭州"), ("碧螺春", "产地", "苏州")}


@needs_data
def test_the_triples_of_a_corpus_come_out_exactly() -> None:
    found = total = 0
    for each in _corpus("kbqa_zh_mh_train", every=20):
        total += 1
        wanted = tuple(fold(each[part]) for part in ("s", "p", "o"))
        told = stated(each["text"], each["title"])
        found += wanted in {(fold(source), fold(kind), fold(target)) for source, kind, target in told}
    assert found / total > 0.995


def _corpus(name: str, every: int) -> Iterator[dict[str, str]]:
    with (DATA / "beir" / name / "corpus.jsonl").open(encoding="utf-8") as file:
        for at, line in enumerate(file):
            if at % every == 0:
                yield json.loads(line)


# ── whatever the text ────────────────────────────────────────────────────────────────────────────

PIECES = """
    的 是 由 创立 位于 （ ） 《 》 “ ” · 、 ， 。 ： | 简称 鲁迅 北京 公司 有限公司 教授 阿里巴巴 ﬁ İ Ⅱ ㎡ 𠮷 1 年 被
    收购
""".split()  # noqa: SIM905
PIECES += (" 的 ", " 是 ", "\n", " ", "John Ford", "He ", "directed by ", "\ud800", "\x00", "\ue000", "\ue004")
anything = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=40).map("".join))


@pytest.mark.parametrize("mark", [chr(code) for code in range(0xE000, 0xE006)])
def test_a_character_for_private_use_is_no_name(mark: str) -> None:
    """They are how names are marked while a text is read; PDFs have them in the place of pictures."""
    assert also(f"{mark}简称：中石油") == set()
    text = f"{mark}是{mark}的创始人。马云是阿里巴巴的创始人。"
    assert stated(text) == stated("马云是阿里巴巴的创始人。")
    assert named(text) == named("马云是阿里巴巴的创始人。")


@examples(300)
@given(anything, st.sampled_from(["text", "table"]), anything)
def test_no_text_is_beyond_reading_and_everything_found_stands_where_it_is_said_to(
    text: str, kind: str, title: str
) -> None:
    facts = read(text, title[:30], kind)
    assert facts == read(text, title[:30], kind)
    there = {each.name for each in facts.mentions}
    for each in facts.mentions:
        assert 0 <= each.start <= each.end <= len(text)
        assert each.name
        is_full = each.start < each.end and text[each.start : each.end] != each.name
        assert not is_full or each.name.endswith(text[each.start : each.end]) or each.name == title_of(title[:30])
    for told in facts.statements:
        assert {told.source, told.target} <= there
        assert told.type.strip()
        assert 0 <= told.start < told.end <= len(text)
    for alias in facts.aliases:
        assert alias.name in there
        assert text[alias.start : alias.end].strip() == alias.alias
    for start, end in facts.sentences:
        assert len({each.name for each in facts.mentions if start <= each.start < end}) > 1


UNITS = """
    鲁迅 的 《 “ （ 鲁迅（ A. 由鲁迅、 阿· 鲁迅、 是 北京北京 公司 x 鲁迅简称 。 由 ，位于 ，位于北京 真实制造 (a
""".split()  # noqa: SIM905
UNITS += ("Aa directed by Bb ", " 的 是 ", "A ", "Aa ", "A of ", "| a ", "|\n", " ", "出生地：绍兴\n", "He was ", '"A')


@pytest.mark.parametrize("unit", UNITS)
def test_the_time_grows_with_the_text_and_not_with_its_square(unit: str) -> None:
    for kind in ("text", "table"):
        assert is_linear(lambda size, kind=kind: lambda: read(unit * size, "鲁迅", kind), 500), (unit, kind)


# ── what novels say ──────────────────────────────────────────────────────────────────────────────

CAST = Analyser(["谢无咎", "裴照夜", "沈念辞", "乌夜啼"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("谢无咎其实是沈长安的生父，当年出家。", {("沈长安", "生父", "谢无咎")}),
        ("沈念辞是沈长安与顾清辞的女儿。", {("沈长安", "女儿", "沈念辞"), ("顾清辞", "女儿", "沈念辞")}),
    ],
)
def test_who_is_whose_is_told(text: str, expected: set[tuple[str, str, str]]) -> None:
    told = extract_facts(text, analyser=CAST).statements
    assert {(each.source, each.type, each.target) for each in told} == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("人人知道沈长宁是沈长安的妹妹，擅长针灸。", "沈长宁是沈长安的妹妹"),
        ("《满江红》由张艺谋执导，春节上映。", "满江红》由张艺谋执导"),
    ],
)
def test_the_words_of_a_statement_hold_what_it_states(text: str, said: str) -> None:
    (told,) = read(text).statements
    assert text[told.start : told.end] == said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("裴照夜绰号“夜猫子”，从不喝酒。", ("裴照夜", "夜猫子")),
        ("沈念辞（小名豆豆）生于扬州。", ("沈念辞", "豆豆")),
        ("乌夜啼，真名陈阿四，本是盐贩子。", ("乌夜啼", "陈阿四")),
    ],
)
def test_people_have_names_of_other_kinds(text: str, expected: tuple[str, str]) -> None:
    assert expected in {(each.name, each.alias) for each in extract_facts(text, analyser=CAST).aliases}


def test_a_card_says_what_its_person_is_also_called() -> None:
    card = "姓名：沈长安\n别名：小石头、梅隐居士\n曾用名：暂无\n妻子：顾清辞\n弟子：阿蛮、柳三变"
    for doc_name in ("沈长安", "char-17", "人物.md"):
        told = read(card, doc_name)
        assert {(each.name, each.alias) for each in told.aliases} == {("沈长安", "小石头"), ("沈长安", "梅隐居士")}
        relations = {(each.source, each.type, each.target) for each in told.statements}
        assert relations >= {("沈长安", "妻子", "顾清辞"), ("沈长安", "弟子", "阿蛮"), ("沈长安", "弟子", "柳三变")}


def test_what_a_card_calls_somebody_is_not_what_the_document_is_called() -> None:
    card = "姓名：沈长安\n别名：小石头\n\n姓名：顾清辞\n别名：听雨先生"
    told = read(card, "人物卡.md").aliases
    assert [(each.name, each.alias) for each in told] == [("沈长安", "小石头"), ("顾清辞", "听雨先生")]
    assert read("别名：小石头\n性别：男", "人物.md").aliases == ()  # of whom, it does not say
