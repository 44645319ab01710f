from __future__ import annotations

import pytest

from qianxun.core import errors
from qianxun.core.errors import MissingExtra, QianxunError, Refused, ServiceUnavailable, error_named


def _kinds(kind: type[QianxunError]) -> list[type[QianxunError]]:
    return [kind, *(found for below in kind.__subclasses__() for found in _kinds(below))]


OWN = [kind for kind in _kinds(QianxunError) if kind.__module__ == errors.__name__]


def test_every_error_has_a_word_of_its_own_and_stands_in_the_tree() -> None:
    assert len({kind.word for kind in OWN}) == len(OWN)
    assert all(kind.__name__ in (errors.__doc__ or "") for kind in OWN)


@pytest.mark.parametrize("kind", OWN, ids=lambda kind: kind.__name__)
def test_an_error_that_was_told_by_its_word_is_the_same_error(kind: type[QianxunError]) -> None:
    told = error_named(kind.word, "坏了", hint="修好它")
    assert (type(told), told.word, told.message, told.hint, str(told)) == (
        kind,
        kind.word,
        "坏了",
        "修好它",
        "坏了　修好它",
    )


def test_an_unknown_word_is_kept() -> None:
    told = error_named("from_the_future", "不认识")
    assert (type(told), told.word) == (QianxunError, "from_the_future")
    assert error_named("", "没有说").word == "error"


def test_a_kind_without_a_word_of_its_own_does_not_take_its_parents_place() -> None:
    class Special(Refused):
        pass

    assert type(error_named(Special.word, "未收")) is Refused


def test_a_missing_extra_that_was_told_names_no_package() -> None:
    told = error_named("missing_extra", "缺少依赖 pypdfium2", hint="请安装")
    assert isinstance(told, MissingExtra)
    assert (told.package, MissingExtra("pypdfium2", "pdf").package) == ("", "pypdfium2")
    assert not isinstance(told, ServiceUnavailable)
