"""Which names are one thing's: as people decided, and as texts say where all texts agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from qianxun.core.graph_types import Alias
from qianxun.graph.network.columns import Kept, Names, Numbers


def main_names(names: Names, stated: Numbers, given: Sequence[Alias]) -> Numbers:
    """Form of a name → form of the name that its thing goes by, for every form there is.

    ``stated`` is (chunk, name, alias, …). A text's word is taken only where no other text gives the same alias to
    another thing (公司 is the short name of every company); what people decided stands above it: a name that they let
    stand for itself (``Alias(name, name)``) is nobody's alias.
    """
    decided = _given(names, given)
    leads = {alias: name for alias, name in (_stated(names, stated) | decided).items() if alias != name}
    main = np.arange(len(names.folded), dtype=np.int64)
    for form in leads:
        main[form] = _end(names, leads, decided, form)
    return main


def _stated(names: Names, stated: Numbers) -> dict[int, int]:
    """Alias → the one name it is said to be another form of."""
    form_of = np.array(names.form_of, dtype=np.int64)
    pairs = np.unique(form_of[stated[:, 1:3]].reshape(-1, 2), axis=0)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    claims: dict[int, list[int]] = {}
    for name, alias in pairs.tolist():
        claims.setdefault(alias, []).append(name)
    return {alias: claimed[0] for alias, claimed in claims.items() if len(claimed) == 1}


def _given(names: Names, given: Sequence[Alias]) -> dict[int, int]:
    """A name that stands in no text is taken in as well: what people decided does not depend on which texts came."""
    return {_form(names, each.alias): _form(names, each.name) for each in given}


def _form(names: Names, name: str) -> int:
    return int(names.form_of[names.number(name)])


def _end(names: Names, leads: Mapping[int, int], decided: Mapping[int, int], form: int) -> int:
    """Where the way of aliases leads. In a circle all go by the name that people chose, or else by the first of its
    names, in the order of letters."""
    way = [form]
    while way[-1] in leads:
        following = leads[way[-1]]
        if following in way:
            circle = way[way.index(following) :]
            chosen = [decided[each] for each in circle if each in decided]
            last = [each for each in chosen if each not in decided]  # and merged no further
            return min(last or chosen or circle, key=names.folded.__getitem__)
        way.append(following)
    return way[-1]


# ── as a filter lets it be seen ──────────────────────────────────────────────────────────────────


def told_forms(kept: Kept, names: Names) -> Numbers:
    """The forms of all names that these chunks tell."""
    told = (kept.mentions[:, 1], kept.statements[:, 1:3].reshape(-1), kept.aliases[:, 1:3].reshape(-1))
    return np.unique(np.array(names.form_of, dtype=np.int64)[np.concatenate(told)])


def visible_names(names: Names, main: Numbers, told: Numbers, hidden: Numbers) -> Numbers:
    """`main_names` where nothing may go by one of the hidden names: what is left of such a thing goes by the first of
    the names that are told of it, in the order of letters."""
    is_hidden, is_told = (np.zeros(len(main), dtype=np.bool_) for _ in range(2))
    is_hidden[hidden], is_told[told] = True, True
    left: dict[int, list[int]] = {}
    for form in np.flatnonzero(~is_hidden & is_hidden[main]).tolist():
        left.setdefault(int(main[form]), []).append(form)
    shown = main.copy()
    for forms in left.values():
        shown[forms] = min((form for form in forms if is_told[form]), key=names.folded.__getitem__, default=forms[0])
    return shown
