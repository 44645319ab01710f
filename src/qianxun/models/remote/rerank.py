"""Reranking by a service in the Cohere and Jina form: POST {base_url}/rerank."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence

import numpy as np

from qianxun.core.errors import BadInput, BadModelReply
from qianxun.core.ports import never
from qianxun.core.types import Scores
from qianxun.core.unicode import sound_text
from qianxun.core.vectors import sigmoid
from qianxun.models.remote.endpoints import RerankEndpoint
from qianxun.models.remote.http import RemoteModel

BYTES_PER_RESULT = 1 << 10
SPARE_BYTES = 1 << 20


class RemoteRerank(RemoteModel):
    """A RerankModel over HTTP. Thread-safe; close it when done.

    Scores outside [0, 1] are logits: if any score of a call is outside, all of that call go through a sigmoid. If the
    logits of a service may by chance all be inside, it needs ``scale="logit"``: otherwise scores would depend on the
    other passages. A blank query or passage scores 0 and is not sent.
    """

    share = 1.0

    def __init__(self, endpoint: RerankEndpoint, *, sleep: Callable[[float], None] = time.sleep) -> None:
        if endpoint.batch_size < 1:
            raise BadInput("batch_size 必须大于零", hint="请改正重排模型的设置")
        self._endpoint = endpoint
        super().__init__(endpoint, sleep)

    def score(self, query: str, passages: Sequence[str], stop: Callable[[], bool] = never) -> list[float]:
        scores = np.zeros(len(passages))
        filled = [place for place, passage in enumerate(passages) if passage.strip()] if query.strip() else []
        size = self._endpoint.batch_size
        replies = []
        for start in range(0, len(filled), size):
            batch = [passages[place] for place in filled[start : start + size]]
            replies.append(self._request(query, batch, stop))
        if replies:
            scores[filled] = self._scaled(np.concatenate(replies))
        found: list[float] = scores.tolist()
        return found

    def _request(self, query: str, passages: Sequence[str], stop: Callable[[], bool]) -> Scores:
        payload = {
            "model": self._endpoint.model,
            "query": sound_text(query),
            "documents": [sound_text(passage) for passage in passages],
            "top_n": len(passages),
            "return_documents": False,
        }
        body = self._service.post("rerank", payload, len(passages) * BYTES_PER_RESULT + SPARE_BYTES, stop)
        return _read_scores(body, len(passages), self.name)

    def _scaled(self, scores: Scores) -> Scores:
        outside = bool(((scores < 0.0) | (scores > 1.0)).any())
        if outside and self._endpoint.scale == "unit":
            raise BadModelReply(
                f"重排服务 {self.name} 的分数不在 0 到 1 之间", hint="若它返回的是 logit，请把 scale 设为 logit"
            )
        return sigmoid(scores) if outside or self._endpoint.scale == "logit" else scores


def _read_scores(body: bytes, count: int, model: str) -> Scores:
    """The scores in the order of the passages. Raises BadModelReply unless every passage has one finite number."""
    try:
        pairs = [(item["index"], item["relevance_score"]) for item in json.loads(body)["results"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _bad(model, f"的回复不是 Cohere/Jina 格式（{type(error).__name__}）") from error
    if not all(type(index) is int and type(score) in (int, float) for index, score in pairs):
        raise _bad(model, "的回复里有不是数字的序号或分数")
    if sorted(index for index, _ in pairs) != list(range(count)):
        raise _bad(model, f"应为 {count} 段文本各给一个分数，实际给出 {len(pairs)} 个，序号缺失、重复或越界")
    try:
        scores = np.array([float(score) for _, score in sorted(pairs)])
    except OverflowError as error:
        raise _bad(model, "的分数过大") from error
    if not np.isfinite(scores).all():
        raise _bad(model, "的分数里有非数或无穷大")
    return scores


def _bad(model: str, reason: str) -> BadModelReply:
    return BadModelReply(f"重排服务 {model} {reason}", hint="请检查 base_url 指向的是 /rerank 接口，以及模型名")
