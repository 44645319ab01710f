"""Two bases, one with everything, one that never held what a principal may not see; and all that is read of them."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import numpy as np

from qianxun.core.errors import QianxunError
from qianxun.core.governance.access import AccessRule
from qianxun.core.graph_types import Evidence
from qianxun.core.ingest_types import DocumentQuery
from qianxun.core.types import Document, In, Not, QAPair
from qianxun.engine.engine import Engine

LABELS = ("user:alice", "user:bob", "group:财务", "group:人事", "role:主管", "role:审计")
CITIES = ("北京", "上海", "广州", "深圳", "成都", "武汉", "西安", "杭州")
SUBJECTS = ("住院报销", "门诊报销", "差旅住宿", "交通补贴", "培训经费", "加班餐费", "年终奖金", "出国考察")
PEOPLE = ("张伟", "王芳", "李娜", "刘洋", "陈静", "赵敏", "孙磊", "周婷")
NOISE = ("会议纪要另行发布", "逾期不予受理", "须经部门负责人签字", "按月结算", "凭发票原件办理", "解释权归财务部")
QUERIES = (
    "住院报销比例是多少",
    "北京 差旅住宿 标准",
    "张伟负责什么",
    "培训经费的上限",
    "住愿报肖比列",
    "没有这样的事情",
)
RULE = AccessRule("机密", ("role:主管", "role:审计"))


def library(chance: random.Random, size: int) -> list[Document]:
    """Prose, tables, questions, validity and names; a third without labels, some under the folder of the rule."""
    made = []
    for number in range(size):
        labels = None if chance.random() < 0.35 else tuple(sorted(chance.sample(LABELS, chance.randint(1, 2))))
        path = f"机密/{number}.md" if chance.random() < 0.15 else ""
        made.append(
            Document(
                f"d{number}",
                _text(chance, number),
                name=f"{chance.choice(SUBJECTS)}办法{number}.md",
                format="markdown",
                content_type=chance.choice(("规定", "纪要")),
                tags=tuple(chance.sample(("甲", "乙", "丙"), chance.randint(0, 2))),
                metadata={"部门": chance.choice(("财务部", "人事部", "办公室")), **({"path": path} if path else {})},
                pairs=(_pair(chance),) if chance.random() < 0.4 else (),
                access=None if path else labels,
            )
        )
    return made


def _text(chance: random.Random, number: int) -> str:
    subject, city = chance.choice(SUBJECTS), chance.choice(CITIES)
    lines = [f"# {subject}规定 {number}", ""]
    for _ in range(chance.randint(1, 6)):
        person, other = chance.sample(PEOPLE, 2)
        lines.append(
            f"{chance.choice(CITIES)}的{chance.choice(SUBJECTS)}标准为每人每天 {chance.randint(100, 900)} 元，"
            f"{person}负责{chance.choice(SUBJECTS)}，{other}是{person}的上级。{chance.choice(NOISE)}。"
        )
        lines.append("")
    lines.append(f"{subject}的报销比例为百分之{chance.randint(40, 95)}，{city}另有规定。" * chance.randint(1, 3))
    if chance.random() < 0.4:
        rows = [f"| {one} | {chance.randint(100, 900)} |" for one in chance.sample(CITIES, 4)]
        lines += ["", f"## {subject}一览", "", "| 城市 | 标准（元） |", "| --- | --- |", *rows]
    if chance.random() < 0.3:
        lines += ["", f"本办法自20{chance.randint(15, 24)}年{chance.randint(1, 9)}月1日起施行。"]
        if chance.random() < 0.5:
            lines += [f"《{chance.choice(SUBJECTS)}办法{chance.randint(0, 30)}》同时废止。"]
    return "\n".join(lines)


def _pair(chance: random.Random) -> QAPair:
    return QAPair(f"{chance.choice(SUBJECTS)}怎么办理？", f"{chance.choice(NOISE)}，{chance.choice(NOISE)}。")


def seen(documents: Sequence[Document], labels: Sequence[str]) -> list[Document]:
    """Those that one with these labels may see, as it sees them: who else may see them is not there either."""

    def is_seen(document: Document) -> bool:
        own = document.access if document.access is not None else RULE.labels if "path" in document.metadata else ()
        return not own or not set(own).isdisjoint(labels)

    return [replace(one, access=_shared(one.access, labels)) for one in documents if is_seen(one)]


def _shared(own: Sequence[str] | None, labels: Sequence[str]) -> tuple[str, ...] | None:
    return None if own is None else tuple(label for label in own if label in labels)


# ── all that can be read ─────────────────────────────────────────────────────────────────────────

# Of the records' own numbering, of time, and of the state of the whole base: no answer is made of them.
UNCOMPARED = frozenset(
    (
        "key", "seconds", "steps", "trace_id", "generation", "time_cost_ms", "updated_at",
        "created_at",
    )
)  # fmt: skip


async def everything(engine: Engine, kb: int, queries: Sequence[str], hidden: Sequence[str]) -> dict[str, str]:
    """Name of a way to read → what it gives, as JSON."""
    found: dict[str, Any] = {}
    for query in queries:
        found |= await _of_query(engine, kb, query)
    documents = await engine.documents(kb, limit=1000)
    found["documents"] = documents
    found["statistics"] = await engine.statistics(kb)
    found["facets"] = await engine.contents.facets(kb)
    found["page"] = await engine.contents.page(kb, limit=500)
    found["in force"] = await engine.contents.page(kb, DocumentQuery(valid_on="2020-06-01"), limit=500, counted=True)
    for label in LABELS:
        found[f"labelled {label}"] = await engine.contents.page(kb, DocumentQuery(access=label), limit=500)
        found[f"access {label}"] = await engine.governance.access.list(kb, label=label)
    found["labels"] = await engine.governance.access.labels(kb)
    found["access"] = await engine.governance.access.list(kb)
    found["rules"] = await engine.governance.access.rules(kb)
    for state in documents[:3]:
        found[f"content {state.doc_id}"] = await engine.contents.document(kb, state.doc_id)
        found[f"chunks {state.doc_id}"] = await engine.chunks(kb, state.doc_id)
    graph = await engine.graph(kb)
    # Types are numbered as they come, as chunks are: by the order in which documents were written.
    named = replace(graph.relations, type=np.array(graph.types)[graph.relations.type])
    found["entities"], found["relations"], found["communities"] = graph.entities, named, graph.communities
    for doc_id in (*hidden[:2], "从未有过"):
        found[f"unknown {doc_id}"] = await _tried(engine.document(kb, doc_id))
        found[f"unknown chunks {doc_id}"] = await _tried(engine.chunks(kb, doc_id))
        found[f"named {doc_id}"] = await engine.retrieve(kb, "住院报销比例", doc_ids=[doc_id])
        found[f"why not {doc_id}"] = await _tried(engine.explain(kb, "住院报销比例", f"c_{kb}_{doc_id}_0"))
    keys = {chunk.key: chunk.chunk_id for state in documents for chunk in await engine.chunks(kb, state.doc_id)}
    return {name: plain(value, kb, keys) for name, value in found.items()}


async def _of_query(engine: Engine, kb: int, query: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for mode in ("hybrid", "vector", "fulltext"):
        found[f"{mode} {query}"] = await engine.retrieve(kb, query, mode=mode, top_k=20)
    narrowed = Not(In("content_type", ("纪要",)))
    found[f"filtered {query}"] = await engine.retrieve(kb, query, top_k=20, where=narrowed, as_of="any")
    found[f"rrf {query}"] = await engine.retrieve(kb, query, top_k=20, fusion="rrf")
    found[f"explain {query}"] = await engine.explain(kb, query, top_k=5)
    found[f"texts {query}"] = await engine.search_texts(kb, query, 10)
    found[f"tables {query}"] = await engine.search_tables(kb, query, 10)
    for graph_mode in ("local", "global", "mix"):
        found[f"{graph_mode} {query}"] = await engine.gather(kb, query, mode=graph_mode)
    found[f"ask {query}"] = await engine.ask(kb, query)
    return found


async def _tried(work: Any) -> Any:
    try:
        return await work
    except QianxunError as error:
        return [type(error).__name__, str(error)]


def plain(value: Any, kb: int, keys: Mapping[int, str]) -> str:
    """``keys``: how the records number the chunks that are seen. Evidence names them by that."""
    text = json.dumps(_plain(value, keys), ensure_ascii=False, sort_keys=True)
    return text.replace(f"c_{kb}_", "c_KB_").replace(f"知识库 {kb}", "知识库 KB")


def _is_uncompared(name: str, value: Any) -> bool:
    return name in UNCOMPARED or (name == "start" and isinstance(value, float))  # by the clock; of a text it is an int


def _plain(value: Any, keys: Mapping[int, str]) -> Any:
    if isinstance(value, Evidence):
        return [keys.get(value.chunk, "hidden"), value.start, value.end]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {name: _plain(own, keys) for name, own in fields.items() if not _is_uncompared(name, own)}
    if isinstance(value, Mapping):
        return {str(_plain(name, keys)): _plain(own, keys) for name, own in value.items() if name not in UNCOMPARED}
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (set, frozenset)):
        return sorted(map(str, value))
    if isinstance(value, (list, tuple)):
        return [_plain(one, keys) for one in value]
    return str(value) if isinstance(value, Enum) else value
