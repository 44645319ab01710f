"""Models that users register: what is given, what is shown, and how they are referred to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from qianxun.core.errors import BadInput
from qianxun.core.limits import API_KEY_LIMIT

MODEL_TYPES: Final = ("embedding", "chat", "qa", "rewrite", "rerank", "vision")
REF_PREFIX: Final = "user-model:"


@dataclass(frozen=True, slots=True)
class NewModel:
    """A model to register. The key is never shown, not even by ``repr``."""

    config_name: str
    base_url: str
    model_name: str
    model_type: str
    api_key: str = field(default="", repr=False)
    model_dim: int = 0  # of an embedding model
    max_tokens: int = 0  # of a reply; 0: as many as the service gives
    temperature: float = 0.0
    top_p: float = 1.0
    timeout: int = 30  # seconds
    status: int = 1  # 0: disabled
    is_default: int = 0


@dataclass(frozen=True, slots=True)
class UserModel:
    """A registered model, without its key."""

    id: int
    user_id: str
    config_name: str
    base_url: str
    model_name: str
    model_type: str
    model_dim: int
    max_tokens: int
    temperature: float
    top_p: float
    timeout: int
    status: int
    is_default: int
    created_at: str
    updated_at: str
    masked_key: str  # "sk-…abcd"; "" without a key

    @property
    def ref(self) -> str:
        """The name of this model in the configuration of a base and in requests."""
        return f"{REF_PREFIX}{self.id}"


@dataclass(frozen=True, slots=True)
class ModelTest:
    """The outcome of one call of a model's service; ``reason`` says what is wrong and what to do."""

    ok: bool
    reason: str
    seconds: float
    dimension: int | None = None  # of the vector that came back


def is_ref(name: str) -> bool:
    """True for the name of a registered model: ``user-model:17``."""
    return name.startswith(REF_PREFIX)


def check_key(api_key: Any) -> str:
    """The key without surrounding space. Raises BadInput, which never contains the key.

    A masked key does not pass: an answer that is sent back cannot overwrite the real one.
    """
    if not isinstance(api_key, str) or len(api_key) > API_KEY_LIMIT:
        raise BadInput(f"api_key 须为至多 {API_KEY_LIMIT} 个字符的文字", hint="请重新复制密钥")
    key = api_key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise BadInput("api_key 含有不可用的字符", hint="请重新复制密钥，注意空白、省略号和全角字符")
    return key
