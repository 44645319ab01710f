"""Regulations and their amendments: is what is in force found and answered, now and as of a day? A made set.

    python -m benchmarks.validity [--pairs 200] [--model bge-small-zh-v1.5]

Every pair is a regulation and the one that replaced it: the same subject, the same clauses, other figures. How they say
when they begin and what they replace differs from pair to pair; of every tenth pair the metadata state it instead.
Asked are: the rule now, the rule in a year in which the old one was in force, the same by ``as_of``, and history.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import tempfile
from dataclasses import dataclass

from qianxun import Engine
from qianxun.core.types import Document

SUBJECTS = """
    差旅费 会议费 培训费 公务接待 公务用车 采购 固定资产 印章 合同 档案 考勤 加班 年休假
    婚假 产假 探亲假 医疗费 住房补贴 交通补贴 通讯补贴 高温津贴 夜班津贴 绩效 奖学金 助学金 图书借阅
    实验室安全 危险品 消防 食堂 宿舍 停车 门禁 信息安全 密码 备份 变更 应急 投诉
    退货
"""
CLAUSES = (
    ("单次最高限额", "{subject}的单次最高限额为 {figure} 元。", (300, 9000, 50)),
    ("审批时限", "{subject}的审批时限为收到申请后 {figure} 个工作日。", (2, 30, 1)),
    ("报销比例", "{subject}的报销比例为 {figure}%。", (40, 95, 1)),
    ("每月标准", "{subject}的每月标准为每人 {figure} 元。", (60, 2000, 10)),
    ("保存期限", "与{subject}有关的材料，保存期限为 {figure} 年。", (2, 30, 1)),
)
KINDS = ("管理办法", "实施细则", "管理规定", "暂行规定", "制度")
ENDINGS = (
    "第九条 本{kind}自{day}起施行。{old}同时废止。",
    "第十二条 本{kind}由办公室负责解释，自{day}起执行，原{old}停止执行。",
    "本{kind}自{day}起实施，{old}（{number}）同时废止。",
    "第七条 本{kind}自{day}起施行，有效期十年。{old}即行废止。",
    "本{kind}自 {day} 起正式实施。同时废止{old}。",
)


@dataclass(frozen=True)
class Pair:
    question: str
    old: Document
    new: Document
    was: int
    now: int
    year: int  # in which the old one was in force


def made_pairs(count: int, seed: int = 21) -> list[Pair]:
    random_ = random.Random(seed)
    subjects = [(subject, kind) for kind in KINDS for subject in SUBJECTS.split()]
    random_.shuffle(subjects)
    return [_pair(random_, at, *subjects[at]) for at in range(min(count, len(subjects)))]


def _pair(random_: random.Random, at: int, subject: str, kind: str) -> Pair:
    name, begins, begun = f"{subject}{kind}", random_.randint(2020, 2025), random_.randint(2010, 2017)
    clauses = random_.sample(CLAUSES, 3)
    figures = [random_.sample(range(*span), 2) for _, _, span in clauses]
    day, first = f"{begins}年{random_.randint(1, 9)}月1日", f"{begun}年{random_.randint(1, 12)}月1日"

    def text(which: int, ending: str) -> str:
        rules = [
            f"第{number}条 {clause.format(subject=subject, figure=pair[which])}"
            for number, (_, clause, _), pair in zip("三四五", clauses, figures, strict=True)
        ]
        return "\n\n".join([name, f"第一条 为规范{subject}，制定本{kind}。", *rules, ending])

    old_name = f"{name}（{begun}）"
    is_stated = at % 10 == 9
    ending = random_.choice(ENDINGS).format(
        kind=kind, day=day, old=f"《{random_.choice((name, old_name))}》", number=f"办发〔{begun}〕{at + 1}号"
    )
    new_metadata = {"valid_from": day, "supersedes": f"{at}-old"} if is_stated else {}
    begin_old = "" if random_.random() < 0.3 else f"第九条 本{kind}自{first}起施行。"
    asked = random_.randrange(3)
    return Pair(
        f"{name}规定的{clauses[asked][0]}是多少",
        Document(f"{at}-old", text(0, begin_old), name=f"{old_name}.txt"),
        Document(
            f"{at}-new", text(1, f"第九条 本{kind}由办公室解释。" if is_stated else ending),
            name=f"{name}（{begins}）.txt", metadata=new_metadata,
        ),
        figures[asked][0],
        figures[asked][1],
        begins - 1,
    )  # fmt: skip


async def measure(pairs: list[Pair], model: str) -> dict[str, tuple[int, int]]:
    """Row → (right, of)."""
    rows: dict[str, list[bool]] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with Engine.open(folder) as engine:
            base = await engine.create_knowledge_base("制度", **({"embedding_model": model} if model else {}))
            documents = [document for pair in pairs for document in (pair.old, pair.new)]
            random.Random(7).shuffle(documents)
            await engine.add_documents(base.id, documents)
            for pair in pairs:
                await _ask(engine, base.id, pair, rows)
    return {name: (sum(right), len(right)) for name, right in rows.items()}


async def _ask(engine: Engine, base: int, pair: Pair, rows: dict[str, list[bool]]) -> None:
    then = f"{pair.year}年{pair.question}"

    async def first(name: str, query: str, expected: str, never: str, as_of: str = "") -> None:
        found = [one.chunk.doc_id for one in (await engine.retrieve(base, query, as_of=as_of, top_k=10)).results]
        rows.setdefault(f"{name}: first result", []).append(found[:1] == [expected])
        rows.setdefault(f"{name}: other version not returned", []).append(never not in found)

    await first("now", pair.question, pair.new.id, pair.old.id)
    await first("by the question's year", then, pair.old.id, pair.new.id)
    await first("as_of that year", pair.question, pair.old.id, pair.new.id, f"{pair.year}-12-31")
    history = [one.chunk.doc_id for one in (await engine.retrieve(base, pair.question, as_of="any", top_k=10)).results]
    is_behind = pair.old.id not in history or (
        pair.new.id in history and history.index(pair.new.id) < history.index(pair.old.id)
    )
    rows.setdefault("any: never before its successor", []).append(is_behind)
    for name, question, figure in (("now", pair.question, pair.now), ("by the question's year", then, pair.was)):
        answer = await engine.ask(base, question)
        rows.setdefault(f"{name}: figure in the answer", []).append(str(figure) in answer.answer)
        if name != "now" and not answer.is_declined:
            rows.setdefault("answers from outdated sources that say so", []).append(len(answer.notes) == 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--model", default="")
    chosen = parser.parse_args()
    measured = asyncio.run(measure(made_pairs(chosen.pairs), chosen.model))
    for name, (right, of) in measured.items():
        print(f"{name:48} {right:4} of {of}  {right / of:.3f}")


if __name__ == "__main__":
    main()
