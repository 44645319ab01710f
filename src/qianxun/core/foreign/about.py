"""What a model of another library is called, and how its failures are reported."""

from __future__ import annotations

from typing import Any

from qianxun.core.errors import BadInput, ModelUnavailable


def unusable(given: Any, kind: str, expected: str) -> BadInput:
    return BadInput(f"{type(given).__module__}.{type(given).__qualname__} 不是{kind}", hint=f"请给出 {expected}")


def name_of(given: Any) -> str:
    """What the model itself, or the weights that it was loaded from, are called."""
    card, first = getattr(given, "model_card_data", None), getattr(given, "_first_module", None)
    loaded = getattr(first() if callable(first) else given, "auto_model", None) or getattr(given, "model", None)
    weights = getattr(loaded, "config", None)
    names = (
        getattr(given, "model_name", None),
        getattr(card, "base_model", None),
        getattr(weights, "_name_or_path", None),
        getattr(given, "model", None),
        getattr(given, "name", None),
    )
    return next((name for name in names if isinstance(name, str) and name), type(given).__name__)


def failed(name: str, error: Exception) -> ModelUnavailable:
    reason = str(error).strip().splitlines()
    return ModelUnavailable(
        f"模型 {name} 出错：{reason[0][:200] if reason else type(error).__name__}", hint="检查模型，稍后再试"
    )
