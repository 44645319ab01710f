"""Models that users registered: kept in the records, looked up and opened anew for every request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar

from qianxun.core.errors import BadInput, BadSettings, MissingExtra, ModelUnavailable, NotFound, QianxunError
from qianxun.core.model_types import REF_PREFIX, ModelTest, NewModel, UserModel, check_key, is_ref
from qianxun.core.ports import EmbeddingModel, RerankModel, StreamingChatModel, never
from qianxun.core.types import Message, Vector, Vectors
from qianxun.models import ChatEndpoint, RemoteEndpoint, RerankEndpoint
from qianxun.models.registry.clients import Clients
from qianxun.models.remote.url_policy import Reach, check_url
from qianxun.models.threads import ModelThreads
from qianxun.records import Records, user_models
from qianxun.records.sealing import Sealing
from qianxun.records.user_models import SealedKey, Stored

DEFAULT: Final = "default"  # in place of a name: the default of whoever owns the base
CHATTING: Final = ("chat", "qa", "rewrite", "vision")
TEST_SECONDS: Final = 30.0  # the longest that `test` waits for a reply
SPARE_SECONDS: Final = 5.0  # … and for its turn
SENTENCE: Final = "住院费用可以报销多少？"
TEXTS_AT_ONCE: Final = 10  # that every service takes in one request: some refuse more, and a user cannot say so
ANSWER: Final = "住院费用的报销比例为百分之八十五。"

Result = TypeVar("Result")
Listed: TypeAlias = list[UserModel]


def is_registered(name: str) -> bool:
    """Whether a name means a registered model, by its number or as somebody's default."""
    return is_ref(name) or name == DEFAULT


def number_of(ref: str) -> int:
    """Raises NotFound for what no registered model can be named."""
    digits = ref.removeprefix(REF_PREFIX)
    if not is_ref(ref) or not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise NotFound(f"没有名为“{ref[:80]}”的模型", hint=f"登记的模型写作 {REF_PREFIX}编号，例如 {REF_PREFIX}17")
    return int(digits)


@dataclass(frozen=True, slots=True)
class Registry:
    """The registered models of one tenant. `of` gives another tenant's; opened clients are shared."""

    records: Records
    sealing: Sealing
    tenant: str
    reach: Reach = field(default_factory=Reach)
    threads: ModelThreads = field(default_factory=ModelThreads, repr=False)
    clients: Clients = field(default_factory=Clients, repr=False)

    def of(self, tenant: str) -> Registry:
        return self if tenant == self.tenant else replace(self, tenant=tenant)

    # ── keeping ──────────────────────────────────────────────────────────────────────────────────

    async def list(self, user_id: str | None = None, model_type: str | None = None) -> Listed:
        """Of one user and one type, or of all."""
        if user_id is not None:
            user_models.check_user(user_id)
        if model_type is not None:
            user_models.check_type(model_type)
        return await asyncio.to_thread(self._read, user_models.every, user_id, model_type)

    async def get(self, user_id: str, id: int) -> UserModel:
        """Raises NotFound for another user's or tenant's."""
        return await asyncio.to_thread(self._read, user_models.get, id, user_id)

    async def add(self, user_id: str, new: NewModel) -> UserModel:
        """Raises BadInput, naming the field, for what cannot work."""
        user_models.check_user(user_id)
        values = self._checked(asdict(new))
        key = check_key(new.api_key)

        def keep() -> UserModel:
            with self.records.writing() as tx:
                number = user_models.next_id(tx)
            sealed = self._sealed(number, key)  # between the two: it takes its time, and writers wait for no one
            with self.records.writing() as tx:
                return user_models.add(tx, self.tenant, user_id, number, values, sealed)

        return await asyncio.to_thread(keep)

    async def change(self, user_id: str, id: int, changes: Mapping[str, Any]) -> UserModel:
        """Changes what is named; it holds for the very next request. A key can be replaced, never read."""
        values = self._checked(changes)
        key = check_key(changes["api_key"]) if "api_key" in changes else None

        def keep() -> UserModel:
            self._read(user_models.get, id, user_id)  # before anything is sealed for a row that is not there
            sealed = None if key is None else self._sealed(id, key)
            with self.records.writing() as tx:
                return user_models.change(tx, self.tenant, user_id, id, values, sealed)

        kept = await asyncio.to_thread(keep)
        self.clients.drop(id)
        return kept

    async def remove(self, user_id: str, id: int) -> None:
        def forget() -> None:
            with self.records.writing() as tx:
                user_models.remove(tx, self.tenant, user_id, id)

        await asyncio.to_thread(forget)
        self.clients.drop(id)

    def default(self, user_id: str, model_type: str) -> UserModel | None:
        """The user's default of this type. Blocking."""
        found: UserModel | None = self._read(user_models.default, user_id, model_type)
        return found

    def find(self, ref: str) -> UserModel:
        """Raises NotFound. Blocking."""
        found: UserModel = self._read(user_models.get, number_of(ref))
        return found

    # ── trying ───────────────────────────────────────────────────────────────────────────────────

    async def test(self, user_id: str, id: int) -> ModelTest:
        """Asks the model's service once, disabled or not, and says what came of it."""
        held: Stored = await asyncio.to_thread(self._read, user_models.stored, id, user_id)
        patience = min(float(held.model.timeout), TEST_SECONDS)
        started = time.perf_counter()
        dimension: int | None = None
        try:
            lane = self.threads.lane("test", repr((self.tenant, user_id)))
            asked = asyncio.get_running_loop().run_in_executor(lane, self._asked_once, held, patience)
            dimension = await asyncio.wait_for(asked, patience + SPARE_SECONDS)
            reason = _amiss(held.model, dimension)
        except TimeoutError:
            reason = "超时：模型服务没有在时限内回复　检查 base_url 与网络，或稍后再试"
        except QianxunError as error:
            reason = str(error)
        return ModelTest(not reason, reason, round(time.perf_counter() - started, 3), dimension)

    def _asked_once(self, held: Stored, patience: float) -> int | None:
        client = self._opened(held, attempts=1, patience=patience)
        try:
            if held.model.model_type == "embedding":
                return int(client.measured(SENTENCE))
            if held.model.model_type == "rerank":
                client.score(SENTENCE, [ANSWER])
            else:
                client.complete([Message("user", "你好")])
            return None
        finally:
            client.close()

    # ── using; blocking, in worker threads ───────────────────────────────────────────────────────

    def embedding(self, ref: str) -> EmbeddingModel:
        """Raises NotFound, or ModelUnavailable for one that is disabled."""
        return RegisteredEmbedding(self, ref, self._usable(ref, ("embedding",)).model.model_dim)

    def rerank(self, ref: str) -> RerankModel:
        return RegisteredRerank(self, ref, self._usable(ref, ("rerank",)).version)

    def chat(self, ref: str) -> StreamingChatModel:
        return RegisteredChat(self, ref, self._usable(ref, CHATTING).model.model_name)

    @contextmanager
    def lent(self, ref: str, types: Sequence[str]) -> Iterator[Any]:
        """The model's client as it is registered at this moment, for one call."""
        try:
            held = self._usable(ref, types)
        except (NotFound, ModelUnavailable):  # removed or disabled by another process, maybe
            self.clients.drop(number_of(ref))
            raise
        with self.clients.lent(held.model.id, held.version, lambda: self._opened(held)) as client:
            yield client

    def expect(self, ref: str, types: Sequence[str]) -> Stored:
        """The model, disabled or not. Raises NotFound, or BadInput for one of another type. Blocking."""
        held: Stored = self._read(user_models.stored, number_of(ref))
        if held.model.model_type not in types:
            raise BadInput(f"{ref} 是 {held.model.model_type} 模型，这里要 {'、'.join(types)}", hint="换一个模型")
        return held

    def _usable(self, ref: str, types: Sequence[str]) -> Stored:
        held = self.expect(ref, types)
        if not held.model.status:
            raise ModelUnavailable(f"模型 {ref} 已停用", hint="启用它（status 改为 1），或换一个模型")
        return held

    def _opened(self, held: Stored, attempts: int | None = None, patience: float | None = None) -> Any:
        """A new client. Raises ModelUnavailable where its key cannot be opened, or its address is allowed no more."""
        model = held.model
        told: dict[str, Any] = {
            "api_key": self._key(held),
            "name": model.ref,
            "timeout_seconds": patience or float(model.timeout),
            "reach": self.reach,
        }
        if attempts is not None:
            told["attempts"] = attempts
        try:
            return _OPENING.get(model.model_type, _open_chat)(model, told)
        except BadInput as error:  # of whoever registered it or set its limits, not of whoever searches
            raise ModelUnavailable(f"模型 {model.ref} 用不了：{error.message}", hint=error.hint) from error

    def _key(self, held: Stored) -> str:
        if held.sealed_key is None:
            return ""
        try:
            return self.sealing.open(held.sealed_key, self._row(held.model.id))
        except (BadSettings, MissingExtra) as error:
            raise ModelUnavailable(f"模型 {held.model.ref} 用不了：{error.message}", hint=error.hint) from error

    def _sealed(self, number: int, key: str) -> SealedKey:
        sealed = self.sealing.seal(key, self._row(number)) if key else None
        return SealedKey(sealed, user_models.masked(key))

    def _row(self, number: int) -> tuple[str, ...]:
        return "user_models", self.tenant, str(number)

    def _checked(self, told: Mapping[str, Any]) -> dict[str, Any]:
        values = user_models.checked(told)
        if "base_url" in values:
            check_url(values["base_url"], self.reach)
        return values

    def _read(self, work: Callable[..., Result], *arguments: Any) -> Result:
        with self.records.reading() as tx:
            return work(tx, self.tenant, *arguments)


def _amiss(model: UserModel, dimension: int | None) -> str:
    if dimension is None or dimension == model.model_dim:
        return ""
    wrong = f"维度不对：服务返回 {dimension} 维的向量，登记的是 {model.model_dim} 维"
    return f"{wrong}　把 model_dim 改为 {dimension}，或换一个模型"


def _open_embedding(model: UserModel, told: dict[str, Any]) -> Any:
    from qianxun.models.remote.embedding import RemoteEmbedding  # its HTTP client is slow to import

    told["batch_size"] = TEXTS_AT_ONCE
    return RemoteEmbedding(RemoteEndpoint(model.base_url, model.model_name, model.model_dim, **told))


def _open_rerank(model: UserModel, told: dict[str, Any]) -> Any:
    from qianxun.models.remote.rerank import RemoteRerank  # as above

    return RemoteRerank(RerankEndpoint(model.base_url, model.model_name, **told))


def _open_chat(model: UserModel, told: dict[str, Any]) -> Any:
    from qianxun.models.remote.chat import RemoteChat  # as above

    return RemoteChat(
        ChatEndpoint(
            model.base_url,
            model.model_name,
            temperature=model.temperature,
            max_tokens=model.max_tokens or None,
            top_p=model.top_p if model.top_p < 1.0 else None,  # some services take it or a temperature, not both
            **told,
        )
    )


_OPENING: Final[Mapping[str, Callable[[UserModel, dict[str, Any]], Any]]] = {
    "embedding": _open_embedding,
    "rerank": _open_rerank,
}


# ── registered models, as the pipelines see them ─────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RegisteredEmbedding:
    """Stands for a registered model in a base; every call looks the model up. Implements `ports.EmbeddingModel`."""

    registry: Registry
    name: str
    dimension: int  # of the base's vectors

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        with self._lent() as client:
            rows: Vectors = client.embed_passages(texts)
            return rows

    def embed_query(self, text: str) -> Vector:
        with self._lent() as client:
            row: Vector = client.embed_query(text)
            return row

    @contextmanager
    def _lent(self) -> Iterator[Any]:
        try:
            with self.registry.lent(self.name, ("embedding",)) as client:
                if client.dimension != self.dimension:
                    raise ModelUnavailable(
                        f"模型 {self.name} 登记为 {client.dimension} 维，而知识库的向量是 {self.dimension} 维",
                        hint="把 model_dim 改回去，或用 qianxun rebuild --model 重建",
                    )
                yield client
        except NotFound as error:  # it was there when the base was made: documents wait for it, searches go by words
            raise ModelUnavailable(f"知识库的向量模型 {self.name} 已被删去", hint="重新登记，再重建知识库") from error


@dataclass(frozen=True, slots=True)
class RegisteredRerank:
    """Implements `ports.RerankModel`."""

    registry: Registry
    ref: str
    version: int
    share: float = 1.0

    @property
    def name(self) -> str:
        """Another one after each change: scores are kept by it."""
        return f"{self.ref}/{self.version}"

    def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> Sequence[float]:
        with self.registry.lent(self.ref, ("rerank",)) as client:
            scores: Sequence[float] = client.score(query, passages, stop)
            return scores


@dataclass(frozen=True, slots=True)
class RegisteredChat:
    """Implements `ports.StreamingChatModel`."""

    registry: Registry
    ref: str
    model_name: str

    @property
    def name(self) -> str:
        """With the service's own name for it: what it made before is another model's once that changes."""
        return f"{self.ref}/{self.model_name}"

    def complete(self, messages: Sequence[Message]) -> str:
        with self.registry.lent(self.ref, CHATTING) as client:
            reply: str = client.complete(messages)
            return reply

    def stream(self, messages: Sequence[Message], stop: Callable[[], bool] = never) -> Iterator[str]:
        """The client is lent until the last piece has been read, or the iterator is closed."""
        with self.registry.lent(self.ref, CHATTING) as client:
            yield from client.stream(messages, stop)
