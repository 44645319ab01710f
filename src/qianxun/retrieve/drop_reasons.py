"""What is said to people of a chunk that a search did not return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qianxun.core.explanation import Explanation
from qianxun.core.options import RecallOptions
from qianxun.core.types import And, Chunk, Eq, Everything, Filter, In, Not, Or, Range, Spelled
from qianxun.rank.tiers import FUZZY, STRICT

SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
SPELT = {"starts": "开头是", "contains": "含有", "ends": "结尾是"}


def filter_text(where: Filter) -> str:
    match where:
        case Everything():
            return "全部"
        case Eq(name, value):
            return f"{name} = {value}"
        case In(name, values):
            return f"{name} ∈ {{{'、'.join(map(str, values))}}}"
        case Range():
            return "、".join(f"{where.field} {SIGNS[name]} {bound}" for name, bound in where.bounds()) or where.field
        case Spelled():
            return "、".join(f"{where.field} {SPELT[name]}“{part}”" for name, part in where.parts()) or where.field
        case And(parts):
            return "（" + " 且 ".join(map(filter_text, parts)) + "）"
        case Or(parts):
            return "（" + " 或 ".join(map(filter_text, parts)) + "）"
        case Not(part):
            return f"非 {filter_text(part)}"


def why_not_of_record(name: str, status: str, reason: str = "", served: int = 0) -> str:
    if status == "superseded":
        return f"文档“{name}”现在的版本只有 {served} 个片段，没有这一个"
    told = {
        "deleted": f"文档“{name}”已删除",
        "pending": f"文档“{name}”还在等待入库",
        "retrying": f"文档“{name}”入库失败，稍后重试",
        "quarantined": f"文档“{name}”入库失败，已隔离",
    }.get(status, f"文档“{name}”没有片段")
    return f"{told}：{reason}" if reason else told


def hint_for(step: str, status: str, changes: Mapping[str, Any] | None = None) -> str:
    """What to do where no option of a search helps."""
    if step == "records":
        return {
            "deleted": "要找它，就把文档再加进来：qianxun add",
            "superseded": "用 --json 检索，看现在的片段编号",
            "pending": "稍候再试；命令行每次打开数据目录都会继续入库",
            "retrying": "按原因处理后等待重试，或再加一次：qianxun add",
            "quarantined": "按原因处理后再加一次：qianxun add",
        }.get(status, "用 qianxun kb show 查看这个文档")
    if step == "index":
        return "运行 qianxun verify 核对，qianxun rebuild 重建索引"
    if step != "returned" and not changes:
        return "它与问题几乎没有相同之处，改选项没有用：换用它原文里的说法来问"
    return ""


def reason_for(known: Explanation, options: RecallOptions, chunk: Chunk) -> str:
    match known.step:
        case "returned":
            return f"已返回，第 {known.rank} 条"
        case "index":
            waits = "还有变更等待进入索引" if known.status == "waiting" else "索引里缺了它"
            return f"记录里有这个片段，索引里没有：{waits}"
        case "filter":
            return "被过滤条件排除：" + "；".join(map(filter_text, known.failing))
        case "recall":
            return "没有一路检索把它排进候选" + ("" if known.arms else "：与问题没有共同的词语或字")
        case "fuse":
            return "融合后的分数是零，不算找到：找到它的那一路权重为零，或自己就给了零分"
        case "threshold":
            return f"分数 {known.score:.4f} 低于阈值 {options.threshold:g}"
        case "tier":
            return _of_tier(known)
        case "rerank":
            return f"重排前第 {known.rank_before}，重排后第 {known.rank}，在前 {options.top_k} 条之后"
    return f"排在第 {known.rank}，只要了前 {options.top_k} 条"


def _of_tier(known: Explanation) -> str:
    alike = "" if known.similarity is None else f"相似度 {known.similarity:.2f}，"
    if known.tier is None:
        return f"没有一层接纳它：{alike}与问题没有共同的字（模糊匹配要相似度 {FUZZY:g}，或有共同的字）"
    facts = f"{alike}覆盖问题的 {known.coverage:.0%}"
    return f"只够模糊匹配，而这次不许模糊：{facts}（严格匹配要相似度高于 {STRICT:g}、覆盖过半）"
