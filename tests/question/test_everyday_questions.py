"""What an everyday question is read to ask: its terms, without how it is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from qianxun.question import colloquial
from qianxun.question import evidence_query as reading
from qianxun.question.colloquial import situation, standard
from qianxun.question.evidence_query import EvidenceQuery, evidence_query
from qianxun.question.words import lay_words

LAY = {
    "打官司的钱": ("诉讼费",),
    "没休完": ("未休",),
    "要回来": ("返还",),
    "谁出钱": ("承担",),
    "不租了": ("解除",),
    "不要了": ("终止",),
    "不能吃": ("禁忌",),
    "判了多久": ("刑期",),
    "赔不赔": ("赔偿",),
    "丢了": ("遗失",),
    "到期": ("届满",),
    "租约": ("租赁合同",),
}


@pytest.fixture
def few_lay_words(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """These, whatever else is added to the list."""
    for module in (colloquial, reading):
        monkeypatch.setattr(module, "lay_words", lambda: LAY)
    colloquial._lay_phrases.cache_clear()
    yield
    colloquial._lay_phrases.cache_clear()


def terms(question: str) -> list[str]:
    """Without phrases."""
    return [term.text for term in evidence_query(question).terms if not term.parts]


def share(query: EvidenceQuery, word: str) -> float:
    return next(term.share for term in query.terms if term.text == word)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        # whether: 退不退 is 退
        ("押金退不退", "押金 退"),
        ("误餐费给不给报", "误餐费 报"),
        ("火车票改签收不收手续费", "火车票 改签 收 手续费"),
        ("出国要不要提前报备", "出国 提前 报备"),
        ("病假可不可以扣钱", "病假 扣钱"),
        ("公司有没有食堂", "食堂"),
        ("上个月奖金发没发", "上个月 奖金 发"),
        ("合同到期续签没续签", "合同 到期 续签"),
        ("健身卡能转让不", "健身卡 转让"),
        ("定金退得了吗", "定金 退"),
        ("孕妇能不能吃这个药", "孕妇 吃 药"),  # 不能吃 is not in it
        # question words, particles, fillers
        ("身份证丢了咋办", "身份证 丢"),
        ("会议室咋预订", "会议室 预订"),
        ("大病救助怎么个申请法", "大病 救助 申请"),
        ("图书馆多会儿关门", "图书馆 关门"),
        ("一般来说贷款几天下款", "贷款 下款"),
        ("试用期工资打几折呀", "试用期 工资 打"),
        ("一个人能借几本书", "借 书"),
        ("租房合同没到期想搬走的话押金还退吗", "租房 合同 没 到期 搬走 押金 退"),
        # greetings, and who asks
        ("您好，请问健身卡能转让吗", "健身卡 转让"),
        ("帮我查一下门诊报销比例", "门诊 报销 比例"),
        ("查一查工伤认定要多少天", "工伤 认定"),
        ("求助！手机进水了怎么处理，急", "手机 进水 处理"),
        ("我家狗咬了人要赔多少", "狗 咬 赔"),
        ("俺村里修路占了地怎么补偿", "村里 修路 占 补偿"),
        # what the segmenter only guesses: 药吃错, 养狗要, 宝能; a figure is one word
        ("药吃错了怎么办", "药 吃错"),
        ("养狗要不要办证", "养狗 办证"),
        ("洗衣机周末洗一小时吵不吵", "洗衣机 周末 洗 一小时 吵"),
    ],
)
@pytest.mark.usefixtures("few_lay_words")
def test_an_everyday_question_asks_of_its_things(question: str, expected: str) -> None:
    assert terms(question) == expected.split()


@pytest.mark.parametrize(
    ("question", "words", "entry"),
    [
        ("打官司的钱谁出", "打官司 钱", "打官司的钱"),
        ("年假没休完能折现吗", "没 休 完", "没休完"),  # the segmenter has 没休 and 完能
        ("被骗的钱怎么要回来", "回来", "要回来"),
        ("管道修理谁出钱", "出钱", "谁出钱"),
        ("房子不租了押金退不退", "不 租", "不租了"),
        ("他打人判了多久", "判", "判了多久"),
        ("摔伤了赔不赔", "赔", "赔不赔"),
    ],
)
@pytest.mark.usefixtures("few_lay_words")
def test_a_document_may_write_the_words_of_a_lay_entry_as_it_writes_the_entry(
    question: str, words: str, entry: str
) -> None:
    formal = {term.text: term.formal for term in evidence_query(question).terms}
    assert all(set(LAY[entry]) <= set(formal[word]) for word in words.split())


@pytest.mark.usefixtures("few_lay_words")
def test_an_entry_is_not_cut_out_of_another_word() -> None:
    assert not any(term.formal for term in evidence_query("要不要了解一下").terms)  # no 不要了


def test_nearly_every_lay_phrase_can_be_found() -> None:
    """But for those that only ask (多长时间), or are dates."""
    frames = ("{}", "昨天{}了", "物业{}的规定")
    phrases = {word: formal for word, formal in lay_words().items() if len(word) > 2}
    missing = [
        word
        for word, formal in phrases.items()
        if not any(
            set(formal) <= set(term.formal) for frame in frames for term in evidence_query(frame.format(word)).terms
        )
    ]
    assert len(missing) <= 0.03 * len(phrases), missing


def test_dialect_is_read_as_the_standard_language() -> None:
    assert standard("请问体检报告啥时候能拿") == "体检报告什么时候能拿"
    assert standard("啥") == "什么"
    assert "time" in evidence_query("体检报告几时能拿").needs
    assert "time" not in evidence_query("十几时").needs
    assert evidence_query("住院押金咋退").kind == evidence_query("住院押金怎么退").kind == "explain"
    assert standard("你好") == "你好"


@pytest.mark.usefixtures("few_lay_words")
def test_how_things_stand_is_a_condition_of_what_is_asked() -> None:
    assert situation("我工作8年了，年假几天") == ("我工作8年了", "年假几天")
    assert situation("根据判决书，押金谁退") == ("", "押金谁退")
    own = evidence_query("孩子刚满3岁，能上幼儿园吗")
    assert share(own, "幼儿园") == 1.0
    assert share(own, "孩子") == 0.6
    bare = evidence_query("手机进水了，怎么办")  # the clause that asks has no subject of its own
    assert share(bare, "手机") == 1.0


@pytest.mark.usefixtures("few_lay_words")
def test_common_words_are_no_names_and_no_qualities() -> None:
    """Whatever the segmenter's dictionary has: 东西 as a place, 合同 as an adjective."""
    assert not evidence_query("顾客过敏了找谁").proper
    assert share(evidence_query("合同到期了吗"), "合同") == 0.6


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("手机的话费怎么退", "话费"),  # 的话
        ("其实施日期是哪天", "实施"),  # 其实
        ("一万一千元的押金谁退", "一万一千元"),  # 万一
        ("主要是谁负责维修", "维修"),  # 要是
        ("公司取得了什么资质", "取得"),  # 退得了
        ("那支付方式有哪些", "支付"),  # 那支
        ("小区附近的酒吧？", "酒吧"),
        ("求助热线电话是多少", "求助"),
    ],
)
@pytest.mark.usefixtures("few_lay_words")
def test_a_word_that_looks_like_a_filler_stays(question: str, word: str) -> None:
    assert any(word in term for term in terms(question))


@pytest.mark.usefixtures("few_lay_words")
def test_what_is_counted_is_a_thing_that_a_document_names() -> None:
    """颜色 of 有几种颜色, unlike the 等级 of 是什么等级."""
    assert share(evidence_query("这款车有几种颜色"), "颜色") == 1.0
    assert share(evidence_query("伤残是什么等级"), "等级") < 0.6
