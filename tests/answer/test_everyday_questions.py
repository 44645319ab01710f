"""Everyday questions over documents of offices: headings, everyday words, other writings, lists, several questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from qianxun.answer.generate import AnswerGenerator
from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.sentence_check import check
from qianxun.core.answer_types import Answer, Passage


def passage(text: str, *headings: str, number: int = 1, name: str = "花店守则.md", score: float = 0.6) -> Passage:
    return Passage(number, name, name, f"c{number}", text, 0, len(text), score, {"headings": list(headings)})


RULES = (
    passage("每月28日发放上月薪酬，遇节假日提前。", "花店守则", "薪酬发放"),
    passage(
        "| 花材 | 每枝（元） |\n| --- | --- |\n| 洋桔梗 | 9 |\n| 雪柳 | 12 |",
        "花店守则",
        "花枝价格",
        number=2,
        score=0.3,
    ),
    passage("工牌遗失的，应当在三日内报告店长，补办费15元。", "花店守则", "工牌", number=3, score=0.3),
    passage(
        "入职满两年的店员，年休假为8天。未休完的年休假可以顺延至次年2月底。", "花店守则", "休假", number=4, score=0.3
    ),
    passage(
        "有下列情形之一的，取消当月奖金：\n（一）无故缺勤；\n（二）私收货款。", "花店守则", "奖惩", number=5, score=0.3
    ),
)


def answer(question: str) -> Answer:
    return AnswerGenerator().generate(question, RULES)


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("工资每个月几号发", "28日"),  # another word, and only the heading has the subject
        ("花枝价格是多少", "雪柳"),  # of a table under that heading
        ("工牌丢了要在几天内报告", "三日"),
        ("入职满2年的店员年假有几天", "8天"),  # 两年
        ("nianjia可以顺延吗", "顺延"),
        ("私收货款会怎样", "取消当月奖金"),  # what opens the list comes along
    ],
)
def test_everyday_questions_find_their_line(question: str, fact: str) -> None:
    found = answer(question)
    assert fact in found.answer
    assert found.form == "extractive"


@pytest.mark.parametrize("question", ["店里的噪音是多少分贝", "店长的股票期权怎么分配", "花店去年的房租是多少"])
def test_what_is_not_there_is_declined_with_what_comes_nearest(question: str) -> None:
    found = answer(question)
    assert found.form == "declined"
    assert found.answer.startswith("资料中没有找到")
    assert "最接近的是" in found.answer
    assert [source.number for source in found.sources] == [1]
    assert "[1]" in found.answer


def test_a_figure_of_another_kind_is_no_answer() -> None:
    rules = [passage("办理会员卡须出示证件，三日内生效。", "会员")]
    assert AnswerGenerator().generate("办理会员卡要多少钱", rules).form != "extractive"


def test_what_probably_answers_is_marked_as_such() -> None:
    shop = [passage("门店的盘点由值班店员负责。", "人员")]
    likely = AnswerGenerator(likeness=lambda _, texts: [0.9] * len(texts)).generate("门店盘货归谁管", shop)
    assert likely.form == "probable"
    assert not likely.is_declined
    assert not likely.is_sure
    assert "值班店员" in likely.answer
    assert likely.sources
    unlike = AnswerGenerator(likeness=lambda _, texts: [0.1] * len(texts)).generate("门店盘货归谁管", shop)
    assert unlike.is_declined


def answer_by_meaning(question: str, passages: Sequence[Passage], alike: Mapping[str, float]) -> Answer:
    """With lines so alike to the question as the words in them say; others are not."""

    def likeness(_: str, texts: Sequence[str]) -> list[float]:
        return [max((value for word, value in alike.items() if word in text), default=0.3) for text in texts]

    return AnswerGenerator(likeness=likeness).generate(question, passages)


def test_a_line_found_by_its_meaning_alone_is_probable_where_no_other_document_means_nearly_the_same() -> None:
    """However unsure the search was: everyday words find nothing surely."""
    machine = passage("不得烘烤衣物。\n机器搬运后须直立静置2小时以上才能通电。", name="除湿机.md", score=0.2)
    lift = passage("电梯停机后须由持证人员送电。", name="电梯.md", number=2, score=0.3)
    asked = "刚搬回家的东西能马上插电用吗"
    found = answer_by_meaning(asked, [machine, lift], {"静置": 0.6, "送电": 0.45})
    assert found.form == "probable"
    assert "2小时" in found.answer
    assert answer_by_meaning(asked, [machine, lift], {"静置": 0.6, "送电": 0.55}).is_declined
    assert answer_by_meaning(asked, [machine, lift], {"静置": 0.45}).is_declined


def test_of_somebody_who_is_named_a_line_must_be_more_alike() -> None:
    """Only lines about them can be it: the most alike of these need not be alike."""
    record = passage("姓名：周雅琴 科室：心内科\n其弟患心肌梗死。", name="周雅琴出院小结.txt", score=0.9)
    other = passage("电梯停机后送电。", name="电梯.md", number=2)
    assert answer_by_meaning("周雅琴的亲戚身体如何", [record, other], {"其弟": 0.6}).is_declined
    assert answer_by_meaning("周雅琴的亲戚身体如何", [record, other], {"其弟": 0.7}).form == "probable"


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("园里养了几只老虎", "园里的老虎由两名饲养员各持一把钥匙看管。"),
        ("峰流速的最佳值是多少L/min", "峰流速低于最佳值60%时立即就医。"),
        ("卫生间的装修是哪家公司做的", "卫生间的装修2019年做的。"),
    ],
)
def test_a_line_without_what_is_asked_for_is_no_plain_answer(question: str, line: str) -> None:
    """However many of its words it has: a count of 只, a unit, the name of a firm."""
    assert AnswerGenerator().generate(question, [passage(line)]).is_declined
    assert answer_by_meaning(question, [passage(line)], {line[:3]: 0.74}).form != "extractive"


def test_a_place_of_the_same_kind_is_another() -> None:
    dam = passage("云溪水库的蓄水量为3800万立方米。", name="通报.md")
    other = passage("电梯停机后送电。", name="电梯.md", number=2)
    assert answer_by_meaning("青山水库能装下多少水", [dam, other], {"云溪": 0.7}).is_declined


def test_names_in_question_and_line_say_nothing_of_what_is_asked() -> None:
    compared: list[str] = []

    def alike(question: str, texts: Sequence[str]) -> list[float]:
        compared.extend((question, *texts))
        return [0.1] * len(texts)

    record = [passage("姓名：周雅琴 科室：心内科\n其弟患心肌梗死。", name="周雅琴出院小结.txt", score=0.9)]
    AnswerGenerator(likeness=alike).generate("周雅琴家里人得过心脏病吗", record)
    assert compared
    assert not any("周雅琴" in text for text in compared)


def test_of_lines_that_fit_alike_the_one_that_means_the_same_is_quoted() -> None:
    record = [passage("检查无活动性出血，放置引流管1根。\n手术顺利，术中出血约20毫升。", name="郝建平手术记录.txt")]
    by_meaning = AnswerGenerator(likeness=lambda _, texts: [0.8 if "20毫升" in text else 0.6 for text in texts])
    assert "20毫升" in by_meaning.generate("郝建平术中出血多少", record).answer


def test_a_short_field_is_a_line_and_no_heading() -> None:
    verdict = [passage("本判决为终审判决。\n审判长　郑海燕\n书记员：何田", name="盗窃案判决书.txt")]
    assert "郑海燕" in AnswerGenerator().generate("盗窃案的审判长是谁", verdict).answer
    assert "何田" in AnswerGenerator().generate("盗窃案的书记员是谁", verdict).answer


def test_every_item_of_a_list_is_given_where_all_are_asked_for() -> None:
    record = [passage("初步诊断：\n1.社区获得性肺炎\n2.呼吸衰竭\n3.2型糖尿病\n4.高血压病", name="孟庆海入院记录.txt")]
    found = AnswerGenerator().generate("孟庆海的初步诊断有哪些", record).answer
    assert all(one in found for one in ("肺炎", "呼吸衰竭", "2型糖尿病", "高血压病"))


def test_a_name_may_be_short_for_the_one_in_a_title() -> None:
    terms = [passage("申请理赔应提交：理赔申请书、身份证明、病历。", "理赔", name="意外伤害保险条款.md")]
    assert "身份证明" in AnswerGenerator().generate("申请意外险理赔需要提交哪些材料", terms).answer


def test_two_questions_are_answered_each_by_itself() -> None:
    found = answer("工牌丢了要在几天内报告？年假可以顺延到什么时候？")
    assert "三日" in found.answer
    assert "2月底" in found.answer
    half = answer("工牌丢了要在几天内报告？店里的噪音是多少分贝？")
    assert "三日" in half.answer
    assert "噪音是多少分贝：资料中没有找到" in half.answer


# ── the check ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sentence", "source", "stays"),
    [
        ("讲座于15:00开始。", "讲座定于下午3时开始。", True),
        ("讲座于下午4时开始。", "讲座定于下午3时开始。", False),
        ("（1）少吃盐；（2）多散步。", "应少吃盐，多散步。", True),
        ("共有以下3点：少吃盐、多散步、早睡。", "应少吃盐，多散步，早睡。", True),
        ("三项费用合计90元。", "门票20元，船票40元，讲解30元。", True),
        ("三项费用合计95元。", "门票20元，船票40元，讲解30元。", False),
        ("租期至2031年4月30日止，共三年。", "租期自2028年5月1日起至2031年4月30日止。", True),
        ("租期至2031年4月30日止，共四年。", "租期自2028年5月1日起至2031年4月30日止。", False),
        ("票价由30元调整为36元，涨了6元。", "票价由30元调整为36元。", True),
        ("押金600元，相当于三个月租金。", "月租金200元，押金600元。", True),
        ("赵甲的体温是38.5℃。", "赵甲的心率为90次，钱乙的体温是38.5℃，赵甲的体温是36.8℃。", False),
        ("产假为158天。", "女职工享受一百五十八天产假。", True),
    ],
)
def test_figures_are_recomputed_and_stay_with_their_subject(sentence: str, source: str, stays: bool) -> None:
    assert check(Sentence(sentence, (1,)), [passage(source)]).accepted is stays


def test_a_figure_of_another_document_does_not_stand_for_this_one() -> None:
    sources = [passage("绳长不得超过一点五米。"), passage("货架间距不小于2米。", number=2, name="仓库.md")]
    assert not check(Sentence("绳长不得超过2米。", (1, 2)), sources).accepted
    assert check(Sentence("绳长不得超过1.5米。", (1, 2)), sources).accepted


def test_what_cells_answer_of_several_questions_is_given_with_the_rest() -> None:
    row = passage("| 花材 | 每枝（元） |\n| --- | --- |\n| 雪柳 | 12 |", name="价目.csv")
    question = "雪柳每枝多少钱？工资每个月几号发？"
    found = AnswerGenerator(exact_parts={"雪柳每枝多少钱": ("12元（查“每枝（元）”）", (row,))}).generate(
        question, RULES
    )
    assert "12元" in found.answer
    assert "28日" in found.answer
    assert {source.doc_name for source in found.sources} == {"价目.csv", "花店守则.md"}
    assert [source.number for source in found.sources] == [1, 2]


def test_what_fits_barely_is_doubted_where_it_means_something_else() -> None:
    """The words are there, and what is asked for is not: who approved of it."""
    church = [passage("由于教堂简朴的设计，所以该教堂代表了早期的样式。", score=0.4)]
    question = "教堂样式的设计由谁审批"
    by_words = AnswerGenerator().consider(question, church)[0]
    assert by_words.is_enough
    assert by_words.fit < 0.84
    unlike = AnswerGenerator(likeness=lambda _, texts: [0.3] * len(texts)).generate(question, church)
    alike = AnswerGenerator(likeness=lambda _, texts: [0.9] * len(texts)).generate(question, church)
    assert unlike.form == "declined"
    assert alike.form == "extractive"


def test_among_the_lines_of_a_passage_the_one_that_tells_something_else_than_its_topic_is_chosen() -> None:
    tower = [passage("云岭大厦是一座办公楼。云岭大厦总建筑面积为十万平方米。建筑师为北方建筑事务所。", score=0.9)]
    assert "北方建筑事务所" in AnswerGenerator().generate("云岭大厦的建筑师是谁", tower).answer


def test_another_grade_or_edition_is_no_answer() -> None:
    notice = [passage("学校定于10月17日组织五年级学生开展研学活动。", "研学活动")]
    assert AnswerGenerator().generate("五年级什么时候开展研学活动", notice).form == "extractive"
    assert AnswerGenerator().generate("六年级什么时候开展研学活动", notice).is_declined


def test_beside_the_best_sentence_of_a_fact_comes_one_that_has_the_rest_of_the_question() -> None:
    """The best comes first, wherever it is; what is about something else does not come."""
    house = [
        passage("外墙每两年清洗一次。清洗由物业公司负责，费用从维修资金列支。"),
        passage("电梯由厂家维护。", number=2, score=0.4),
    ]
    found = AnswerGenerator().generate("外墙清洗由谁负责", house).answer
    assert found == "清洗由物业公司负责，费用从维修资金列支。[1]外墙每两年清洗一次。[1]"


def test_of_several_questions_one_may_have_only_a_probable_answer() -> None:
    """The grade reads for what is sure alone; once one question has its answer, nothing else is searched for."""
    meaning = AnswerGenerator(
        only_sure=True, likeness=lambda _, texts: [0.9 if "顺延" in text else 0.1 for text in texts]
    )
    sufficiency, found = meaning.consider("工牌丢了要在几天内报告？没歇完的假过了年还作数吗？", RULES)
    assert sufficiency
    first, second = found.answer.split("\n")
    assert "三日" in first
    assert "可能在这里" in second
    assert "顺延" in second
    assert meaning.consider("没歇完的假过了年还作数吗？", RULES)[1].form == "declined"  # another search may follow


def test_a_party_is_who_its_label_says() -> None:
    contract = [
        passage("甲方逾期付款的，支付违约金。争议由甲方所在地人民法院管辖。", "违约", score=0.9),
        passage("甲方（采购方）：云帆花店\n乙方（供货方）：青禾苗圃", "合同", number=2, score=0.3),
    ]
    assert AnswerGenerator().generate("甲方是谁", contract).answer.startswith("甲方（采购方）：云帆花店[1]")
    assert AnswerGenerator().generate("乙方是谁", contract).answer.startswith("乙方（供货方）：青禾苗圃[1]")


def test_what_is_paid_in_part_is_a_share_and_no_number_of_days() -> None:
    rules = [passage("试用期满前十五天提出转正意见，五个工作日内答复工资。试用期内薪酬按转正薪酬的百分之八十发放。")]
    found = AnswerGenerator().generate("试用期工资打几折", rules).answer
    assert found.startswith("试用期内薪酬按转正薪酬的百分之八十发放。[1]")


def test_a_row_without_what_is_asked_of_it_is_no_answer() -> None:
    """Its name alone is most of the question."""
    head = "| 型号 | 定价（元） | 续航（小时） |\n| --- | --- | --- |\n"
    rows = f"{head}| R300 | 4980 | 6 |\n| R300 Pro | 6280 | 9 |\n| T120 | 2980 | 4 |"
    others = ("客服电话400-820-0731。", "试用期三个月。", "停车费8元。", "押金三个月。")
    products = [
        passage(rows, "产品", name="产品手册2024.md", score=0.9),
        *(passage(text, number=at, score=0.1) for at, text in enumerate(others, start=2)),
    ]
    assert "4980" in AnswerGenerator().generate("R300的定价是多少", products).answer
    assert AnswerGenerator().generate("R300的防水等级是多少", products).is_declined


# ── lay words and everyday forms ─────────────────────────────────────────────────────────────────

SOURCES = (
    passage("案件受理费由败诉方承担。", "费用", name="诉讼.md"),
    passage("犬只致人伤害的，由饲养人承担医疗费用。", "养犬", name="养犬.md", number=2),
    passage("租赁期限届满，出租人应当在三日内无息退还押金。", name="合同.md", number=3),
    passage("婚假十天，产假一百五十八天。", "休假", name="制度.md", number=4),
)


@pytest.mark.parametrize(
    ("question", "fact"),
    [
        ("打官司的钱谁出", "败诉方"),
        ("狗咬伤人谁出钱", "饲养人"),  # 狗咬伤 is written in none of its words
        ("押金到期退不退呀", "三日内"),
    ],
)
def test_a_lay_question_is_answered_by_a_document_in_its_own_words(question: str, fact: str) -> None:
    found = AnswerGenerator().generate(question, SOURCES)
    assert found.form == "extractive"
    assert fact in found.answer


def test_how_many_times_is_answered_in_times() -> None:
    assert AnswerGenerator().generate("婚假能分几次休", SOURCES).is_declined


def test_a_time_of_day_is_no_number_of_hours() -> None:
    lost = [
        passage("客服查询48小时后无法找到的，视为丢失。客服电话见官网。", "丢失", name="快递理赔规则.md", score=0.9)
    ]
    assert not AnswerGenerator().generate("快递客服电话几点下班", lost).is_sure
    open_hours = [passage("客服工作时间为每天8:00至20:00。", "客服", name="快递理赔规则.md", score=0.9)]
    assert "20:00" in AnswerGenerator().generate("快递客服几点下班", open_hours).answer


def test_a_limit_of_time_may_be_asked_by_how_long_it_is() -> None:
    notice = [passage("突发故障的抢修到达时限：城区45分钟，农村90分钟。", "停电", name="公告.md", score=0.9)]
    assert AnswerGenerator().generate("突发故障时，农村的抢修到达时限为多长？", notice).is_sure
