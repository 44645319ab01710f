"""What the routes of our own API have in common: a summary, an enveloped response, documented errors, and, for those
that change something, a key that may write.

``@router.get("/{id}", **route("一条更正", Correction, 404, 422))``
"""

from __future__ import annotations

from typing import Any

from fastapi import Body
from pydantic import BaseModel

from qianxun.doors.http.context import Writer
from qianxun.doors.http.openapi import request_examples, returns
from qianxun.doors.http.response_models import of
from qianxun.doors.http.responses import Envelope


class Deleted(BaseModel):
    deleted: bool = True


def route(summary: str, model: Any, *statuses: int, **success: Any) -> dict[str, Any]:
    """Arguments of a route that returns ``model``, or a value of `core` whose model is derived, in the envelope; and
    these error statuses. ``success`` adds to the description of 200."""
    data: Any = of(model) if hasattr(model, "__dataclass_fields__") else model
    return {"summary": summary, **returns(Envelope[data], *statuses, **success)}


def write_route(summary: str, model: Any, *statuses: int, status: int | None = None) -> dict[str, Any]:
    """The same for a route that only keys that may write can call; ``status`` is that of its success, if not 200."""
    return {"status_code": status, "dependencies": [Writer], **route(summary, model, *statuses)}


def body_examples(name: str) -> Any:
    """Of a request's body, as `openapi.toml` has them: ``Annotated[NewSet, body_examples("new_set")]``."""
    return Body(openapi_examples=request_examples(name))
