"""Models that users registered: stored in the records, looked up and opened for every request."""

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
from qianxun.models.client_pool import ClientPool
from qianxun.models.open_model import open_chat, open_embedding, open_reranker
from qianxun.models.remote.endpoints import ChatEndpoint, RemoteEndpoint, RerankEndpoint
from qianxun.models.remote.url_policy import UrlPolicy, check_url
from qianxun.models.threads import ModelThreads
from qianxun.records import Records
from qianxun.records.secrets import user_models
from qianxun.records.secrets.sealing import Sealing
from qianxun.records.secrets.user_models import SealedKey, Stored

DEFAULT: Final = "default"  # in place of a name: the default of the base's owner
CHAT_TYPES: Final = ("chat", "qa", "rewrite", "vision")
TEST_SECONDS: Final = 30.0  # that `test` waits for a reply, at most
SPARE_SECONDS: Final = 5.0  # … and for a thread
EMBEDDING_BATCH: Final = 10  # texts per request: some services refuse more, and users cannot configure it
TEST_QUERY: Final = "住院费用可以报销多少？"
TEST_PASSAGE: Final = "住院费用的报销比例为百分之八十五。"

Result = TypeVar("Result")
ModelList: TypeAlias = list[UserModel]


def is_registered(name: str) -> bool:
    """Whether a name means a registered model, by its number or as the owner's default."""
    return is_ref(name) or name == DEFAULT


def number_of(ref: str) -> int:
    """Raises NotFound for a malformed reference."""
    digits = ref.removeprefix(REF_PREFIX)
    if not is_ref(ref) or not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise NotFound(f"没有名为“{ref[:80]}”的模型", hint=f"登记的模型写作 {REF_PREFIX}编号，例如 {REF_PREFIX}17")
    return int(digits)


@dataclass(frozen=True, slots=True)
class Registry:
    """The registered models of one tenant; `of` returns that of another one, with the same open clients."""

    records: Records
    sealing: Sealing
    tenant: str
    policy: UrlPolicy = field(default_factory=UrlPolicy)
    threads: ModelThreads = field(default_factory=ModelThreads, repr=False)
    clients: ClientPool = field(default_factory=ClientPool, repr=False)

    def of(self, tenant: str) -> Registry:
        return self if tenant == self.tenant else replace(self, tenant=tenant)

    # ── records ──────────────────────────────────────────────────────────────────────────────────

    async def list(self, user_id: str | None = None, model_type: str | None = None) -> ModelList:
        """All models, or those of one user or type."""
        if user_id is not None:
            user_models.check_user(user_id)
        if model_type is not None:
            user_models.check_type(model_type)
        return await asyncio.to_thread(self._read, user_models.every, user_id, model_type)

    async def get(self, user_id: str, id: int) -> UserModel:
        """Raises NotFound, also for a model of another user or tenant."""
        return await asyncio.to_thread(self._read, user_models.get, id, user_id)

    async def add(self, user_id: str, new: NewModel) -> UserModel:
        """Raises BadInput, naming the field."""
        user_models.check_user(user_id)
        values = self._checked(asdict(new))
        key = check_key(new.api_key)

        def store() -> UserModel:
            with self.records.writing() as tx:
                number = user_models.next_id(tx)
            sealed = self._sealed(number, key)  # slow, so outside of both transactions
            with self.records.writing() as tx:
                return user_models.add(tx, self.tenant, user_id, number, values, sealed)

        return await asyncio.to_thread(store)

    async def change(self, user_id: str, id: int, changes: Mapping[str, Any]) -> UserModel:
        """Changes the given fields, effective for the next request. A key can be replaced, never read."""
        values = self._checked(changes)
        key = check_key(changes["api_key"]) if "api_key" in changes else None

        def store() -> UserModel:
            self._read(user_models.get, id, user_id)  # raises before anything is sealed
            sealed = None if key is None else self._sealed(id, key)
            with self.records.writing() as tx:
                return user_models.change(tx, self.tenant, user_id, id, values, sealed)

        changed = await asyncio.to_thread(store)
        self.clients.drop(id)
        return changed

    async def remove(self, user_id: str, id: int) -> None:
        await self.records.write(lambda tx: user_models.remove(tx, self.tenant, user_id, id))
        self.clients.drop(id)

    def default(self, user_id: str, model_type: str) -> UserModel | None:
        """The user's default of this type. Blocking."""
        found: UserModel | None = self._read(user_models.default, user_id, model_type)
        return found

    def find(self, ref: str) -> UserModel:
        """Raises NotFound. Blocking."""
        found: UserModel = self._read(user_models.get, number_of(ref))
        return found

    # ── testing ──────────────────────────────────────────────────────────────────────────────────

    async def test(self, user_id: str, id: int) -> ModelTest:
        """Calls the model's service once, also if it is disabled, and reports the result."""
        stored: Stored = await asyncio.to_thread(self._read, user_models.stored, id, user_id)
        timeout = min(float(stored.model.timeout), TEST_SECONDS)
        started = time.perf_counter()
        dimension: int | None = None
        try:
            lane = self.threads.lane("test", repr((self.tenant, user_id)))
            call = asyncio.get_running_loop().run_in_executor(lane, self._call_once, stored, timeout)
            dimension = await asyncio.wait_for(call, timeout + SPARE_SECONDS)
            reason = _wrong_dimension(stored.model, dimension)
        except TimeoutError:
            reason = "超时：模型服务没有在时限内回复　检查 base_url 与网络，或稍后再试"
        except QianxunError as error:
            reason = str(error)
        return ModelTest(not reason, reason, round(time.perf_counter() - started, 3), dimension)

    def _call_once(self, stored: Stored, timeout: float) -> int | None:
        """Returns the dimension of an embedding model's vector."""
        client = self._opened(stored, attempts=1, timeout=timeout)
        try:
            if stored.model.model_type == "embedding":
                return int(client.measured(TEST_QUERY))
            if stored.model.model_type == "rerank":
                client.score(TEST_QUERY, [TEST_PASSAGE])
            else:
                client.complete([Message("user", "你好")])
            return None
        finally:
            client.close()

    # ── using; blocking, in worker threads ───────────────────────────────────────────────────────

    def embedding(self, ref: str) -> EmbeddingModel:
        """Raises NotFound, or ModelUnavailable if it is disabled."""
        return RegisteredEmbedding(self, ref, self._usable(ref, ("embedding",)).model.model_dim)

    def rerank(self, ref: str) -> RerankModel:
        return RegisteredRerank(self, ref, self._usable(ref, ("rerank",)).version)

    def chat(self, ref: str) -> StreamingChatModel:
        return RegisteredChat(self, ref, self._usable(ref, CHAT_TYPES).model.model_name)

    @contextmanager
    def borrow(self, ref: str, types: Sequence[str]) -> Iterator[Any]:
        """The client of the model as it is registered now, for one call."""
        try:
            stored = self._usable(ref, types)
        except (NotFound, ModelUnavailable):  # maybe removed or disabled by another process
            self.clients.drop(number_of(ref))
            raise
        with self.clients.borrow(stored.model.id, stored.version, lambda: self._opened(stored)) as client:
            yield client

    def expect(self, ref: str, types: Sequence[str]) -> Stored:
        """The model, also if it is disabled. Raises NotFound, or BadInput for another type. Blocking."""
        stored: Stored = self._read(user_models.stored, number_of(ref))
        if stored.model.model_type not in types:
            raise BadInput(f"{ref} 是 {stored.model.model_type} 模型，这里要 {'、'.join(types)}", hint="换一个模型")
        return stored

    def _usable(self, ref: str, types: Sequence[str]) -> Stored:
        stored = self.expect(ref, types)
        if not stored.model.status:
            raise ModelUnavailable(f"模型 {ref} 已停用", hint="启用它（status 改为 1），或换一个模型")
        return stored

    def _opened(self, stored: Stored, attempts: int | None = None, timeout: float | None = None) -> Any:
        """A new client. Raises ModelUnavailable if its key cannot be unsealed or its address is no longer allowed."""
        model = stored.model
        options: dict[str, Any] = {
            "api_key": self._key(stored),
            "name": model.ref,
            "timeout_seconds": timeout or float(model.timeout),
            "policy": self.policy,
        }
        if attempts is not None:
            options["attempts"] = attempts
        try:
            return _open(model, options)
        except BadInput as error:  # a fault of the registration or of the settings, not of the search
            raise ModelUnavailable(f"模型 {model.ref} 用不了：{error.message}", hint=error.hint) from error

    def _key(self, stored: Stored) -> str:
        if stored.sealed_key is None:
            return ""
        try:
            return self.sealing.open(stored.sealed_key, self._row(stored.model.id))
        except (BadSettings, MissingExtra) as error:
            raise ModelUnavailable(f"模型 {stored.model.ref} 用不了：{error.message}", hint=error.hint) from error

    def _sealed(self, number: int, key: str) -> SealedKey:
        sealed = self.sealing.seal(key, self._row(number)) if key else None
        return SealedKey(sealed, user_models.masked(key))

    def _row(self, number: int) -> tuple[str, ...]:
        return "user_models", self.tenant, str(number)

    def _checked(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        values = user_models.checked(fields)
        if "base_url" in values:
            check_url(values["base_url"], self.policy)
        return values

    def _read(self, work: Callable[..., Result], *arguments: Any) -> Result:
        with self.records.reading() as tx:
            return work(tx, self.tenant, *arguments)


def _wrong_dimension(model: UserModel, dimension: int | None) -> str:
    if dimension is None or dimension == model.model_dim:
        return ""
    wrong = f"维度不对：服务返回 {dimension} 维的向量，登记的是 {model.model_dim} 维"
    return f"{wrong}　把 model_dim 改为 {dimension}，或换一个模型"


def _open(model: UserModel, options: dict[str, Any]) -> Any:
    where = model.base_url, model.model_name
    if model.model_type == "embedding":
        return open_embedding(RemoteEndpoint(*where, model.model_dim, batch_size=EMBEDDING_BATCH, **options))
    if model.model_type == "rerank":
        return open_reranker(RerankEndpoint(*where, **options))
    return open_chat(
        ChatEndpoint(
            *where,
            temperature=model.temperature,
            max_tokens=model.max_tokens or None,
            top_p=model.top_p if model.top_p < 1.0 else None,  # some services take it or a temperature, not both
            **options,
        )
    )


# ── registered models as implementations of the ports ────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RegisteredEmbedding:
    """The registered model of a base; every call looks it up. Implements `ports.EmbeddingModel`."""

    registry: Registry
    name: str
    dimension: int  # of the base's vectors

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        with self._borrow() as client:
            rows: Vectors = client.embed_passages(texts)
            return rows

    def embed_query(self, text: str) -> Vector:
        with self._borrow() as client:
            row: Vector = client.embed_query(text)
            return row

    @contextmanager
    def _borrow(self) -> Iterator[Any]:
        try:
            with self.registry.borrow(self.name, ("embedding",)) as client:
                if client.dimension != self.dimension:
                    raise ModelUnavailable(
                        f"模型 {self.name} 登记为 {client.dimension} 维，而知识库的向量是 {self.dimension} 维",
                        hint="把 model_dim 改回去，或用 qianxun rebuild --model 重建",
                    )
                yield client
        except NotFound as error:  # it existed when the base was made: documents wait for it, searches use words
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
        """Changes with each version: scores are cached by it."""
        return f"{self.ref}/{self.version}"

    def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> Sequence[float]:
        with self.registry.borrow(self.ref, ("rerank",)) as client:
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
        """With the service's name of the model: what another one made is not reused."""
        return f"{self.ref}/{self.model_name}"

    def complete(self, messages: Sequence[Message]) -> str:
        with self.registry.borrow(self.ref, CHAT_TYPES) as client:
            reply: str = client.complete(messages)
            return reply

    def stream(self, messages: Sequence[Message], stop: Callable[[], bool] = never) -> Iterator[str]:
        """The client is borrowed until the last piece has been read, or the iterator is closed."""
        with self.registry.borrow(self.ref, CHAT_TYPES) as client:
            yield from client.stream(messages, stop)
