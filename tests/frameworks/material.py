"""A small medical library, for what is built on an engine."""

from __future__ import annotations

from typing import Final

from qianxun.core.types import Document
from qianxun.engine.engine import Engine

TEXTS: Final = {
    "糖尿病概述": "糖尿病是一种以高血糖为特征的代谢性疾病。糖尿病的主要症状是多饮、多尿、多食和体重下降。",
    "胰岛素": "胰岛素是胰岛β细胞分泌的激素。胰岛素可以降低血糖，是治疗糖尿病的重要药物。",
    "二甲双胍": "二甲双胍是治疗2型糖尿病的一线药物。服用二甲双胍可能引起胃肠道不适。",
    "并发症": "糖尿病的并发症包括糖尿病肾病、糖尿病视网膜病变和糖尿病足。",
    "高血压": "高血压是心脑血管疾病的危险因素。高血压患者应当限制食盐，每天不超过6克。",
    "饮食": "糖尿病患者应当控制总热量，多吃蔬菜，少吃精制糖。",
    "运动": "适量运动有助于控制血糖。每周至少运动150分钟。",
    "监测": "血糖监测包括空腹血糖和餐后两小时血糖。空腹血糖的正常值为3.9至6.1毫摩尔每升。",
    "诊断": "空腹血糖不低于7.0毫摩尔每升，可以诊断为糖尿病。",
    "妊娠": "妊娠期糖尿病发生在怀孕期间，多数在分娩后恢复正常。",
    "儿童": "1型糖尿病多见于儿童和青少年，需要终身使用胰岛素。",
    "低血糖": "低血糖的表现有心慌、出汗、手抖。发生低血糖时应当立即进食糖果。",
}


async def filled(engine: Engine, name: str = "graph-123") -> int:
    base = await engine.create_knowledge_base(name)
    await engine.add_documents(base.id, [Document(title, text, name=title) for title, text in TEXTS.items()])
    return base.id
