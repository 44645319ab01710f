"""Which names are one thing's: as people decided, and as texts say where all texts agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from qianxun.chinese import fold
from qianxun.graph.columns import Names, Numbers
from qianxun.graph_types import Alias


def main_names(names: Names, stated: Numbers, given: Sequence[Alias]) -> Numbers:
    """Form of a name → form of the name that its thing goes by, for every form there is.

    ``stated`` is (chunk, name, alias, …). A text's word is taken only where no other text gives the same alias to
    another thing (公司 is the short name of every company); what people decided stands above it.
    """
    leads = _stated(names, stated) | _given(names, given)
    main = np.arange(len(names.folded), dtype=np.int64)
    for form in leads:
        main[form] = _end(names, leads, form)
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
    """Names that no text has are no entities, and need no merging."""
    told = ((names.forms.get(_form(each.alias)), names.forms.get(_form(each.name))) for each in given)
    return {alias: name for alias, name in told if alias is not None and name is not None and alias != name}


def _form(name: str) -> str:
    return fold(name).strip()


def _end(names: Names, leads: Mapping[int, int], form: int) -> int:
    """Where the way of aliases leads. In a circle all go by the first of its names, in the order of letters."""
    way = [form]
    while way[-1] in leads:
        following = leads[way[-1]]
        if following in way:
            return min(way[way.index(following) :], key=names.folded.__getitem__)
        way.append(following)
    return way[-1]
