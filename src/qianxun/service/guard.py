"""The first to see a request: who asks, for which tenant, and how large a body may be. Nothing is read before."""

from __future__ import annotations

import logging

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from qianxun.records.bases import LOCAL_TENANT
from qianxun.service.answers import unforeseen
from qianxun.service.context import Service

log = logging.getLogger(__name__)


class Guard:
    """Pure ASGI: it stands before the routes, so that a body is only read for those who may send it."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        state = scope.setdefault("state", {})
        state["tenant"], state["access"] = LOCAL_TENANT, "write"
        started = False

        async def sending(message: Message) -> None:
            nonlocal started
            started = started or message["type"] == "http.response.start"
            await send(message)

        try:
            await self.app(scope, receive, sending)
        except Exception as error:  # the outer door: told without detail, its place in the log
            log.exception("unforeseen")
            if started:
                raise
            await unforeseen(error, state.get("trace_id", ""))(scope, receive, send)
