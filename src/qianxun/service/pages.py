"""The documentation as a page: made here from the OpenAPI document, without a script or anything from elsewhere."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Any, Final

from fastapi import APIRouter, Request, Response

METHODS: Final = ("get", "post", "put", "patch", "delete")

STYLE: Final = """
body{max-width:60rem;margin:2rem auto;padding:0 1rem;font:15px/1.6 system-ui,sans-serif;color:#222;background:#fff}
h1 small{font-size:1rem;color:#777}h2{margin-top:2.5rem;border-bottom:1px solid #ddd}
details{margin:.4rem 0;border:1px solid #ddd;border-radius:6px;padding:.2rem .8rem}summary{cursor:pointer}
code,pre{font:13px/1.5 ui-monospace,monospace}pre{background:#f6f6f6;padding:.6rem;overflow:auto;white-space:pre-wrap}
b.m{display:inline-block;min-width:4.2rem;color:#0a6}table{border-collapse:collapse}
td,th{text-align:left;vertical-align:top;padding:.15rem .8rem .15rem 0}td{color:#444}
"""
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{b64encode(sha256(STYLE.encode()).digest()).decode()}'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def routes() -> APIRouter:
    router = APIRouter()
    router.get("/docs", include_in_schema=False)(docs)
    return router


async def docs(request: Request) -> Response:
    page = "".join(_page(request.app.openapi()))
    return Response(page, media_type="text/html; charset=utf-8", headers={"content-security-policy": POLICY})


def _page(api: Mapping[str, Any]) -> Iterator[str]:
    info = api["info"]
    yield f'<!doctype html><html lang="zh"><meta charset="utf-8"><title>{escape(info["title"])}</title>'
    yield f"<style>{STYLE}</style><h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>"
    yield f"<p>{escape(info['summary'])}</p><pre>{escape(info['description'])}</pre>"
    yield '<p>机器可读：<a href="/openapi.json">/openapi.json</a></p>'
    group = None
    for path, method, operation in _operations(api):
        tag = operation.get("tags", ["其他"])[0]
        if tag != group:
            group = tag
            yield f"<h2>{escape(tag)}</h2>"
        yield from _operation(api, path, method, operation)


def _operations(api: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for path, methods in api["paths"].items():
        for method in METHODS:
            if method in methods:
                yield path, method, methods[method]


def _operation(api: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f'<details><summary><b class="m">{method.upper()}</b> <code>{escape(path)}</code> '
    yield f"{escape(operation.get('summary', ''))}</summary>"
    if told := operation.get("description"):
        yield f"<p>{escape(told)}</p>"
    if parameters := operation.get("parameters"):
        yield "<h4>参数</h4><table>"
        for each in parameters:
            yield f"<tr><td><code>{escape(each['name'])}</code><td>{escape(each['in'])}"
            yield f"<td>{escape(each.get('description', ''))}<td><code>{escape(_brief(api, each['schema']))}</code>"
        yield "</table>"
    for kind, body in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<h4>请求体 {escape(kind)}</h4>{_schema(api, body['schema'])}"
    yield "<h4>回答</h4><table>"
    for status, answer in operation["responses"].items():
        yield f"<tr><td>{escape(status)}<td>{escape(answer.get('description', ''))}"
    yield "</table></details>"


def _schema(api: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    held = _resolved(api, schema)
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code>{'＊' if name in held.get('required', ()) else ''}"
        f"<td><code>{escape(_brief(api, each))}</code><td>{escape(_resolved(api, each).get('description', ''))}"
        for name, each in held.get("properties", {}).items()
    )
    examples = held.get("examples", [])
    shown = f"<pre>{escape(json.dumps(examples[0], ensure_ascii=False, indent=1))}</pre>" if examples else ""
    return f"<table>{rows}</table>{shown}"


def _resolved(api: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    found: Mapping[str, Any] = api["components"]["schemas"][reference.rsplit("/", 1)[1]]
    return found


def _brief(api: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """A schema in a few words: ``integer``, ``string 或 null``, ``weighted | rrf``."""
    held = _resolved(api, schema)
    if options := held.get("anyOf") or held.get("oneOf"):
        return " 或 ".join(dict.fromkeys(_brief(api, each) for each in options))
    if choices := held.get("enum"):
        return " | ".join(str(each) for each in choices)
    kind = str(held.get("type", "任意"))
    return f"{kind} of {_brief(api, held['items'])}" if kind == "array" and "items" in held else kind
