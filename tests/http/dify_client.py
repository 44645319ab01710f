"""Dify's side of its external knowledge API, as Dify's own service does it: what it sends, and what it makes of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx


class DifyClient:
    """``endpoint`` and ``api_key`` are the two fields of Dify's form."""

    def __init__(self, http: httpx.AsyncClient, endpoint: str, api_key: str = "") -> None:
        self.http, self.endpoint, self.api_key = http, endpoint, api_key

    async def register(self) -> None:
        """The check with which Dify saves an API: a POST that has no body at all. Raises ValueError as Dify does."""
        answer = await self.http.post(f"{self.endpoint}/retrieval", headers={"Authorization": f"Bearer {self.api_key}"})
        if answer.status_code in (502, 404, 403):
            raise ValueError(f"{answer.status_code}: failed to connect to the endpoint")

    async def ask(
        self,
        knowledge_id: str,
        query: str,
        top_k: int | None = 4,
        score_threshold: float = 0.0,
        metadata_condition: Mapping[str, Any] | None = None,
    ) -> httpx.Response:
        body: dict[str, Any] = {
            "retrieval_setting": {"top_k": top_k, "score_threshold": score_threshold},
            "query": query,
            "knowledge_id": knowledge_id,
        }
        if metadata_condition:
            body["metadata_condition"] = dict(metadata_condition)
        headers = {"Content-Type": "application/json"}
        if self.api_key:
            headers["Authorization"] = f"Bearer {self.api_key}"
        return await self.http.post(f"{self.endpoint}/retrieval", content=json.dumps(body), headers=headers)

    async def retrieve(self, *asked: Any, **more: Any) -> list[dict[str, Any]]:
        """The sources that Dify shows under an answer, best first; none where the answer is no 200."""
        answer = await self.ask(*asked, **more)
        records = answer.json().get("records", []) if answer.status_code == 200 else []
        found = []
        for record in records:
            metadata = record.get("metadata")
            metadata["score"] = record.get("score")  # fails on null, as Dify does
            metadata["title"] = record.get("title")
            source = {
                "document_id": metadata.get("document_id") or metadata.get("title"),
                "document_name": metadata["title"],
                "score": metadata["score"],
                "content": record.get("content"),
                "doc_metadata": metadata,
            }
            found.append(source)
        return sorted(found, key=lambda each: each["score"], reverse=True)
