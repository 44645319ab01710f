"""The pages in the order of the navigation, and all routes. A page is a module of `pages` and a line here."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter

from qianxun.doors.http.console import assets
from qianxun.doors.http.console.page import Page
from qianxun.doors.http.console.pages import (
    access,
    ask,
    base_settings,
    bases,
    bench,
    corrections,
    document,
    evaluation,
    examples,
    graph,
    health,
    keys,
    logs,
    models,
    receipts,
    sign_in,
    tables,
)

# In the order of the navigation: each has PAGE and router.
MODULES: Final = (bench, bases, ask, evaluation, logs, graph, tables, examples, models, keys, health)
PAGES: Final[tuple[Page, ...]] = tuple(module.PAGE for module in MODULES)

# Pages that are reached from others.
INNER: Final = (
    sign_in.router,
    bases.uploads,
    base_settings.router,
    document.router,
    receipts.router,
    corrections.router,
    access.router,
)

router = APIRouter(include_in_schema=False)
for _part in (assets.router, *INNER, *(module.router for module in MODULES)):
    router.include_router(_part)
