"""Types and relations by a domain's lexicon, and none of them where a text is about something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from qianxun.core.errors import BadSettings
from qianxun.graph.extract.chunk import extract_facts, facts_origin
from qianxun.graph.extract.domain import load_domain
from qianxun.text.chinese import Analyser
from tests.linear import is_linear

ANALYSER = Analyser()
SHIPPED = load_domain()
MEDICAL = {*SHIPPED.words.values(), *SHIPPED.words_in_context.values(), *SHIPPED.endings.values()}


def typed(text: str, doc_name: str = "", lexicon: str = "") -> dict[str, str]:
    return {
        each.name: each.type
        for each in extract_facts(text, doc_name=doc_name, analyser=ANALYSER, lexicon=lexicon).mentions
    }


def related(text: str, doc_name: str = "") -> set[tuple[str, str, str]]:
    found = extract_facts(text, doc_name=doc_name, analyser=ANALYSER).statements
    return {(each.source, each.type, each.target) for each in found}


@pytest.mark.parametrize(
    ("text", "name", "type"),
    [
        ("急性上呼吸道感染可引起发热，可服用布洛芬缓释胶囊。", "急性上呼吸道感染", "DISEASE"),
        ("急性上呼吸道感染可引起发热，可服用布洛芬缓释胶囊。", "布洛芬缓释胶囊", "MEDICINE"),
        ("急性上呼吸道感染可引起发热，可服用布洛芬缓释胶囊。", "发热", "SYMPTOM"),
        ("高血压患者常服用匹伐他汀。", "匹伐他汀", "MEDICINE"),  # by its ending, whatever the segmentation
        ("胃镜检查可诊断慢性萎缩性胃炎，应到消化内科就诊。", "胃镜检查", "EXAMINATION"),
        ("胃镜检查可诊断慢性萎缩性胃炎，应到消化内科就诊。", "消化内科", "DEPARTMENT"),
        ("早期肺癌患者可行肺叶切除术。", "肺叶切除术", "TREATMENT"),
        ("這種疾病的患者會出現頭痛。", "頭痛", "SYMPTOM"),
    ],
)
def test_names_have_the_types_of_the_domain(text: str, name: str, type: str) -> None:
    assert typed(text)[name] == type


@pytest.mark.parametrize(
    "text",
    [
        "公司的骨干都说这是通病，也是因素之一，照片、名片和热点让人痛快，语病是毛病。",
        "治疗社会的通病要抓主要因素、关键要素和热点问题，干部队伍的骨干要解决老毛病。",
        "他拍的故事片和纪录片讲一位医师的生活，素材是老照片，患者家属看了很痛快。",
        "张炎、陈炎与王素来自北海道，在世界卫生组织工作，研究疾病的统计。",
    ],
)
def test_texts_about_something_else_get_no_medical_types(text: str) -> None:
    assert MEDICAL.isdisjoint(typed(text).values()), typed(text)


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("糖尿病用胰岛素治疗。", ("胰岛素", "治疗", "糖尿病")),
        ("治疗高血压的药物有硝苯地平、缬沙坦等。", ("缬沙坦", "治疗", "高血压")),
        ("2型糖尿病的并发症有糖尿病肾病、糖尿病足。", ("2型糖尿病", "并发症", "糖尿病足")),
        ("肺炎可引起咳嗽和胸痛。", ("肺炎", "症状", "胸痛")),
        ("胃镜检查可诊断慢性胃炎。", ("慢性胃炎", "检查", "胃镜检查")),
        ("青光眼患者禁用地西泮。", ("地西泮", "禁忌", "青光眼")),
        ("本品的不良反应有恶心、呕吐。", ("布洛芬", "不良反应", "呕吐")),
        ("板蓝根颗粒用于感冒引起的头痛。", ("感冒", "症状", "头痛")),
    ],
)
def test_cues_between_typed_names_state_relations(text: str, relation: tuple[str, str, str]) -> None:
    assert relation in related(text, "布洛芬" if text.startswith("本品") else "")


@pytest.mark.parametrize("text", ["阿司匹林不能治疗糖尿病。", "糖尿病患者不可随意服用板蓝根。"])
def test_what_is_denied_is_no_treatment(text: str) -> None:
    assert "治疗" not in {kind for _, kind, _ in related(text)}


def test_a_lexicon_of_ones_own_takes_the_place_of_the_shipped_one(tmp_path: Path) -> None:
    file = tmp_path / "law.toml"
    file.write_text('context = "法院"\n[types.CRIME]\nendings = "罪"\nnot = "得罪"\n', encoding="utf-8")
    assert typed("法院认定他犯盗窃罪。", lexicon=str(file))["盗窃罪"] == "CRIME"
    assert MEDICAL.isdisjoint(typed("糖尿病患者伴有多汗。", lexicon=str(file)).values())
    assert facts_origin(ANALYSER, str(file)) != facts_origin(ANALYSER)


@pytest.mark.parametrize(
    "content", ['types = "糖尿病"', "[types.DISEASE", '[[relations]]\nname = "治疗"', "[types.A]\nwords = 3"]
)
def test_a_lexicon_that_cannot_be_read_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(BadSettings, match="领域词表"):
        load_domain(str(file))
    with pytest.raises(BadSettings, match="领域词表"):
        load_domain(str(tmp_path / "missing.toml"))


def test_the_time_grows_with_the_length_of_the_text() -> None:
    unit = "糖尿病可引起头痛、多汗和肾病"
    assert is_linear(lambda size: lambda: extract_facts(unit * size, analyser=ANALYSER), 400)
