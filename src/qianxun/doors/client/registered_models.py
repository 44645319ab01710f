"""The models that users registered with a service: what `Engine.registry` does, over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from qianxun.core.codec.wire import read_model
from qianxun.core.errors import BadInput, NotFound
from qianxun.core.model_types import MODEL_TYPES, ModelTest, NewModel, UserModel
from qianxun.doors.client.connection import Request
from qianxun.doors.client.payloads import Ask, segment, value_of

Listed: TypeAlias = list[UserModel]


@dataclass(frozen=True, slots=True)
class RegisteredModels:
    """Keys go in and never come back: an answer shows them masked."""

    ask: Ask

    async def list(self, user_id: str, model_type: str | None = None) -> Listed:
        """Of one user, of one type or of all of them."""
        types = MODEL_TYPES if model_type is None else (model_type,)
        found: list[UserModel] = []
        for one in types:
            request = Request("GET", f"{_of(user_id)}/{segment(one)}")
            found += await self.ask(request, lambda data: [read_model(model) for model in data["list"]])
        return sorted(found, key=lambda model: model.id)

    async def get(self, user_id: str, id: int) -> UserModel:
        for model in await self.list(user_id):
            if model.id == id:
                return model
        raise NotFound(f"没有编号为 {id} 的模型", hint="核对编号，或先登记这个模型")

    async def add(self, user_id: str, new: NewModel) -> UserModel:
        return await self.ask(Request("POST", _of(user_id), asdict(new)), read_model)

    async def change(self, user_id: str, id: int, changes: Mapping[str, Any]) -> UserModel:
        return await self.ask(Request("PATCH", f"{_of(user_id)}/{id}", dict(changes), repeatable=True), read_model)

    async def remove(self, user_id: str, id: int) -> None:
        await self.ask(Request("DELETE", f"{_of(user_id)}/{id}"), lambda _: None)

    async def test(self, user_id: str, id: int) -> ModelTest:
        """Asks the model's service once and says what came of it."""
        request = Request("POST", f"{_of(user_id)}/{id}/test", repeatable=True)
        return await self.ask(request, value_of(ModelTest))


def _of(user_id: str) -> str:
    if not user_id:
        raise BadInput("没有写用户", hint="写上 user_id：模型属于登记它的用户")
    if "/" in user_id:
        raise BadInput(f"用户 {user_id[:80]!r} 里有斜杠，写不进服务的地址", hint="换一个没有斜杠的 user_id")
    return f"user/api/{segment(user_id)}"
