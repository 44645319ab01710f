"""The OpenAPI document of one application serves the next one with the same routes: to make it takes a second."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from qianxun.doors.http.openapi import Application


@pytest.fixture(scope="session", autouse=True)
def _shared_documents() -> Iterator[None]:
    made: dict[tuple[int, ...], tuple[list[Any], dict[str, Any]]] = {}
    whole = Application.openapi

    def openapi(app: Application) -> dict[str, Any]:
        routes = [route for route in app.routes if getattr(route, "include_in_schema", False)]
        numbers = tuple(map(id, routes))
        if numbers not in made:
            app.openapi_schema = None
            made[numbers] = (
                routes,
                whole(app),
            )  # with the routes: while they are there, nothing else has their numbers
        return made[numbers][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Application, "openapi", openapi)
        yield
