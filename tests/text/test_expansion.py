"""A query in other words: which of its words are replaced, by what, and in which order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qianxun.text.chinese import Analyser, fold
from qianxun.text.expansion import (
    LIMIT,
    Expansion,
    Place,
    Related,
    comparable,
    known_places,
    unknown_words,
    with_counts,
    wordings,
)
from qianxun.text.synonyms import NO_SYNONYMS, Thesaurus, user_thesaurus
from tests.hypothesis_settings import examples

SHIPPED = Thesaurus(
    [
        ["年假", "带薪休假", "年休假"],
        ["报销", "报账"],
        ["高血压", "高血压病", "血压高"],
        ["人工智能", "AI"],
        ["心脏病", ">冠心病"],
    ],
    same=0.9,
    kin=0.75,
)
ANALYSER = Analyser()


def said(text: str, own: Thesaurus = NO_SYNONYMS, limit: int = LIMIT) -> tuple[Expansion, ...]:
    text = comparable(text)
    return wordings(text, known_places(text, own, SHIPPED, ANALYSER), limit)


def texts(text: str, own: Thesaurus = NO_SYNONYMS) -> list[str]:
    return [each.text for each in said(text, own)]


# ── places ───────────────────────────────────────────────────────────────────────────────────────


def test_a_word_is_replaced_where_it_stands() -> None:
    (one,) = said("差旅费怎么报销？")
    assert one == Expansion("差旅费怎么报账？", (Related("报销", "报账", "shipped", 0.9),), 0.9)


def test_a_short_word_must_be_one_for_the_segmenter() -> None:
    assert texts("去年假期去了哪里") == []
    assert texts("年假怎么休")[0] == "带薪休假怎么休"


def test_letters_must_not_run_on() -> None:
    assert texts("MAIL是什么") == texts("AI2是什么") == []
    assert texts("用ＡＩ写") == ["用人工智能写"]


def test_letters_that_are_put_in_do_not_run_into_others() -> None:
    assert texts("GPT人工智能模型") == ["GPT AI模型"]


def test_traditional_and_wide_writing_is_known_and_the_rest_stays_as_it_was() -> None:
    (one,) = said("差旅費怎麼報銷")
    assert one.text == "差旅費怎麼报账"
    assert one.related[0].word == "報銷"


def test_a_text_that_folding_makes_longer_is_said_in_its_folded_form() -> None:
    assert texts("Ⅱ级報銷") == ["ii级报账"]


def test_the_longest_word_wins_and_what_is_said_already_is_no_other_wording() -> None:
    assert texts("高血压病能吃什么") == ["血压高能吃什么"]
    assert texts("人工智能（AI）") == []


def test_one_way_relations_go_one_way() -> None:
    assert texts("心脏病能运动吗") == ["冠心病能运动吗"]
    assert texts("冠心病能运动吗") == []


def test_a_user_comes_before_the_shipped_list() -> None:
    own = user_thesaurus([["报销", "核销"]])
    first, second = said("怎么报销", own)
    assert (first.text, first.related[0].origin) == ("怎么核销", "user")
    assert (second.text, second.related[0].origin) == ("怎么报账", "shipped")
    assert first.weight > second.weight


def test_a_users_word_takes_the_place_of_a_longer_shipped_one() -> None:
    assert texts("高血压病", user_thesaurus([["血压", "血液压力"]])) == ["血压高"]  # the segmenter sees no 血压 in it
    own = user_thesaurus([["高血压", "高压症"]])
    assert texts("高血压病", own)[0] == "高压症病"


def test_a_user_may_silence_the_shipped_list() -> None:
    assert texts("怎么报销", user_thesaurus([["报销"]])) == []
    assert texts("怎么报销", user_thesaurus([["报销"], ["报销", "核销"]])) == ["怎么核销"]


# ── wordings ─────────────────────────────────────────────────────────────────────────────────────


def test_each_place_by_itself_then_all_together() -> None:
    assert texts("年假和报销") == ["带薪休假和报销", "年假和报账", "带薪休假和报账", "年休假和报销"]


def test_several_replaced_words_weigh_less_than_one() -> None:
    one, *_, _ = found = said("年假和报销")
    together = next(each for each in found if len(each.related) == 2)
    assert one.weight == 0.9
    assert together.weight == round(0.9 * 0.98, 4)


def test_best_first_and_never_more_than_asked() -> None:
    text = "年假报销高血压人工智能心脏病"
    for limit in range(1, 6):
        found = said(text, limit=limit)
        assert len(found) == limit
        weights = [each.weight for each in found]
        assert weights == sorted(weights, reverse=True)
    assert any(len(each.related) == 5 for each in said(text))


def test_what_was_learnt_is_not_mixed_with_what_is_known() -> None:
    known = Place(0, 2, (Related("年假", "年休假", "shipped", 0.9),))
    guesses = [
        Place(2, 4, (Related("脖子", "颈部", "learnt", 0.6),)),
        Place(4, 6, (Related("胳膊", "手臂", "learnt", 0.62),)),
    ]
    assert [each.text for each in wordings("年假脖子胳膊", [known, *guesses])] == [
        "年休假脖子胳膊",
        "年假脖子手臂",
        "年假颈部胳膊",
    ]
    assert [each.text for each in wordings("年假脖子胳膊", guesses)] == [
        "年假脖子手臂",
        "年假颈部胳膊",
        "年假颈部手臂",
    ]


def test_only_what_is_held_is_said_the_more_usual_first() -> None:
    places = known_places("年假怎么休", NO_SYNONYMS, SHIPPED, ANALYSER)
    (place,) = with_counts(places, {"带薪休假": 2, "年休假": 7}, 4)
    assert [each.by for each in place.related] == ["年休假", "带薪休假"]
    assert with_counts(places, {"带薪休假": 0}, 4) == []
    (one,) = with_counts(places, {"带薪休假": 2, "年休假": 7}, 1)
    assert len(one.related) == 1


def test_a_word_that_stands_alone_keeps_its_place() -> None:
    places = known_places("年假怎么休", user_thesaurus([["年假"]]), SHIPPED, ANALYSER)
    assert with_counts(places, {"带薪休假": 2}, 4) == [Place(0, 2, (), alone=True)]


def test_unknown_words_tell_and_stand_outside_what_is_known() -> None:
    text = "年假期间的脖子和2023年的脖子"
    places = known_places(text, NO_SYNONYMS, SHIPPED, ANALYSER)
    assert list(unknown_words(text, places, ANALYSER)) == ["期间", "脖子"]
    assert unknown_words(text, places, ANALYSER)["脖子"] == Place(5, 7)


@given(st.text(alphabet="年假报销高血压病ＡI a1人工智能心脏發費Ⅱ，。 的", max_size=40))
@examples(200)
def test_any_text_is_said_otherwise_alike_each_time(text: str) -> None:
    found = said(text)
    assert found == said(text)
    assert len(found) <= LIMIT
    forms = [fold(each.text) for each in found]
    assert len(set(forms)) == len(forms)
    assert fold(comparable(text)) not in forms
    for each in found:
        assert 0.0 < each.weight <= 1.0
        assert each.related
        assert all(related.by in each.text for related in each.related)
