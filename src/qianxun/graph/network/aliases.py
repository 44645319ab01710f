"""Names of one entity: as texts state, as people decided, and as a model proposes when asked.

A decision is one row ``Alias(name, alias)``: the entity called ``alias`` is called ``name``. Where both are equal, the
name is an entity of its own whatever texts state. Facts are never changed: a graph derived without the row is the graph
before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from qianxun.core.errors import AlreadyThere, BadInput, BadModelReply, NotFound
from qianxun.core.graph_types import Alias
from qianxun.core.ports import ChatModel
from qianxun.core.types import Message
from qianxun.graph.extract.lexicon import system_prompt
from qianxun.graph.extract.llm import quoted
from qianxun.graph.network.columns import FactTables, Names, Numbers
from qianxun.text.chinese import fold
from qianxun.text.llm_json import Malformed, read_json, text_of

GIVEN: Final = "given"
APART: Final = "apart"  # in a row's details: the name was decided to be an entity of its own before
NAME_LIMIT: Final = 200
PROPOSED_AMONG: Final = 200  # names that a model is shown
PROPOSALS: Final = 100


@dataclass(frozen=True, slots=True)
class Decision:
    """Changes to the rows: aliases whose rows are removed, then rows that are added."""

    removed: tuple[str, ...] = ()
    added: tuple[Alias, ...] = ()


def form(name: str) -> str:
    """The form in which names are compared."""
    return fold(name).strip()


def is_apart(row: Alias) -> bool:
    """Whether the row makes a name an entity of its own."""
    return form(row.name) == form(row.alias)


def merge(decided: Sequence[Alias], name: str, alias: str, origin: str = GIVEN) -> Decision:
    """Calls both ``name``; `split` of the alias undoes it. Raises BadInput or AlreadyThere."""
    for given in (name, alias):
        if not given.strip() or len(given) > NAME_LIMIT or not given.isprintable():
            raise BadInput(f"实体名须为 1–{NAME_LIMIT} 个可见字符：{given[:40]!r}", hint="用图谱里显示的实体名再试")
    if form(name) == form(alias):
        raise BadInput(f"“{name}”与“{alias}”本来就是一个名称", hint="给出两个不同的实体")
    rows = {form(row.alias): row for row in decided}
    before = rows.get(form(alias))
    if before is not None and not is_apart(before):
        raise AlreadyThere(f"“{alias}”已经并入“{before.name}”", hint=f"先拆开它：split {alias}")
    if form(alias) in _chain(rows, form(name)):
        raise AlreadyThere(f"“{name}”已经并入“{alias}”", hint=f"要反过来，先拆开它：split {name}")
    details = {APART: True} if before is not None else {}
    removed = () if before is None else (before.alias,)
    return Decision(removed, (Alias(name.strip(), alias.strip(), origin, details),))


def _chain(rows: Mapping[str, Alias], start: str) -> list[str]:
    """The forms that decisions lead to from this one."""
    chain = [start]
    while (row := rows.get(chain[-1])) is not None and form(row.name) not in chain:
        chain.append(form(row.name))
    return chain


def split(decided: Sequence[Alias], name: str, stated: Sequence[str] = ()) -> Decision:
    """Undoes the merge of a name; of a main name, every merge into it.

    Without a decision about it, the name is separated from the names that texts give it: ``stated`` become entities of
    their own. Raises NotFound if it has no other name.
    """
    own = form(name)
    merged = [row for row in decided if not is_apart(row)]
    undone = [row for row in merged if form(row.alias) == own] or [row for row in merged if form(row.name) == own]
    if undone:
        again = (Alias(row.alias, row.alias) for row in undone if row.details.get(APART))
        return Decision(tuple(row.alias for row in undone), tuple(again))
    known = {form(row.alias) for row in decided}
    parted = tuple(Alias(other.strip(), other.strip()) for other in stated if form(other) not in known)
    if not parted:
        raise NotFound(f"“{name}”没有与别的实体合并", hint="用 show 看它有哪些别名")
    return Decision((), parted)


# ── proposed by a model ──────────────────────────────────────────────────────────────────────────


def propose(model: ChatModel, names: Iterable[str]) -> tuple[Alias, ...]:
    """Pairs of these names that the model considers the same entity; decides nothing.

    Raises ModelUnavailable or BadModelReply. Names that were not shown are left out.
    """
    shown = list(dict.fromkeys(filter(None, (" ".join(name.split()) for name in names))))[:PROPOSED_AMONG]
    if len(shown) < 2:
        return ()
    listed = "\n".join(shown).replace("<名称>", "〈名称〉").replace("</名称>", "〈/名称〉")
    user = Message("user", f"<名称>\n{quoted(listed)}\n</名称>")
    reply = model.complete((Message("system", system_prompt("aliases")), user))
    try:
        return _proposals(reply, shown, f"model:{model.name}")
    except Malformed as error:
        raise BadModelReply(f"模型 {model.name} 的别名建议不可用：{error}", hint="换一个模型，或再试一次") from error


def _proposals(reply: str, shown: Sequence[str], origin: str) -> tuple[Alias, ...]:
    items = read_json(reply)
    if not isinstance(items, list):
        raise Malformed("应为数组")
    known = {form(name): name for name in shown}
    found: dict[str, Alias] = {}
    for item in items[:PROPOSALS]:
        if not isinstance(item, dict):
            raise Malformed("数组中有不是对象的项")
        name, alias = (known.get(form(text_of(item.get(field), NAME_LIMIT))) for field in ("name", "alias"))
        reason = str(item.get("reason") or "")[:NAME_LIMIT]
        if name and alias and name != alias and alias not in found and form(name) not in map(form, found):
            found[alias] = Alias(name, alias, origin, {"reason": reason} if reason.isprintable() and reason else {})
    return tuple(found.values())


# ── the main name of every form ──────────────────────────────────────────────────────────────────


def main_names(names: Names, stated: Numbers, given: Sequence[Alias]) -> Numbers:
    """Form of a name → form of its entity's main name, for all forms.

    ``stated`` has rows (chunk, name, alias, …). A stated alias counts only if no text gives it to another name (公司 is
    the short name of every company). People's decisions take precedence: with ``Alias(name, name)`` it is no alias.
    """
    decided = {_form(names, row.alias): _form(names, row.name) for row in given}  # names of no text, too
    targets = {alias: name for alias, name in (_stated(names, stated) | decided).items() if alias != name}
    main = np.arange(len(names.folded), dtype=np.int64)
    for alias in targets:
        main[alias] = _resolved(names, targets, decided, alias)
    return main


def _stated(names: Names, stated: Numbers) -> dict[int, int]:
    """Alias → its name, where texts agree on one."""
    form_of = np.array(names.form_of, dtype=np.int64)
    pairs = np.unique(form_of[stated[:, 1:3]].reshape(-1, 2), axis=0)
    claims: dict[int, list[int]] = {}
    for name, alias in pairs[pairs[:, 0] != pairs[:, 1]].tolist():
        claims.setdefault(alias, []).append(name)
    return {alias: claimed[0] for alias, claimed in claims.items() if len(claimed) == 1}


def _form(names: Names, name: str) -> int:
    return int(names.form_of[names.number(name)])


def _resolved(names: Names, targets: Mapping[int, int], decided: Mapping[int, int], alias: int) -> int:
    """The end of a chain of aliases. In a cycle, the name that people chose, else the alphabetically first."""
    chain = [alias]
    while chain[-1] in targets:
        following = targets[chain[-1]]
        if following in chain:
            cycle = chain[chain.index(following) :]
            chosen = [decided[member] for member in cycle if member in decided]
            last = [member for member in chosen if member not in decided]  # not merged further
            return min(last or chosen or cycle, key=names.folded.__getitem__)
        chain.append(following)
    return chain[-1]


def forms_in(tables: FactTables, names: Names) -> Numbers:
    """The forms of all names in these chunks."""
    used = (tables.mentions[:, 1], tables.statements[:, 1:3].reshape(-1), tables.aliases[:, 1:3].reshape(-1))
    return np.unique(np.array(names.form_of, dtype=np.int64)[np.concatenate(used)])


def visible_names(names: Names, main: Numbers, visible: Numbers, hidden: Numbers) -> Numbers:
    """`main_names` without hidden main names: such an entity is called by its alphabetically first visible name."""
    is_hidden, is_visible = (np.zeros(len(main), dtype=np.bool_) for _ in range(2))
    is_hidden[hidden], is_visible[visible] = True, True
    groups: dict[int, list[int]] = {}
    for own in np.flatnonzero(~is_hidden & is_hidden[main]).tolist():
        groups.setdefault(int(main[own]), []).append(own)
    shown = main.copy()
    for forms in groups.values():
        shown[forms] = min((own for own in forms if is_visible[own]), key=names.folded.__getitem__, default=forms[0])
    return shown
