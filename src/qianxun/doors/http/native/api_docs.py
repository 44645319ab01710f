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
td,th{text-align:left;vertical-align:top;padding:.15rem .8rem .15rem 0}td{color:#444}p,td{white-space:pre-line}
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
    yield '<p>机器可读：<a href="openapi.json">openapi.json</a></p>'
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
        yield f"<h4>请求体 {escape(kind)}（＊ 必填）</h4>{_schema(api, body['schema'])}{_examples(api, body)}"
    yield "<h4>回答</h4><table>"
    for status, answer in operation["responses"].items():
        yield f"<tr><td>{escape(status)}<td>{escape(answer.get('description', ''))}"
    yield f"</table>{_data(api, operation['responses'])}</details>"


def _data(api: Mapping[str, Any], responses: Mapping[str, Any]) -> str:
    """What stands in ``data`` of an answer that is not an error."""
    for answer in (told for status, told in responses.items() if status.startswith("2")):
        schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
        if data := _resolved(api, schema).get("properties", {}).get("data"):
            return f"<h4>回答的 data</h4>{_schema(api, data, is_asked=False)}"
    return ""


def _schema(api: Mapping[str, Any], schema: Mapping[str, Any], *, is_asked: bool = True) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code>{'＊' if is_needed and is_asked else ''}"
        f"<td><code>{escape(_brief(api, each))}</code><td>{escape(_description(api, each))}"
        for name, each, is_needed in _fields(api, schema, "", ())
    )
    return f"<table>{rows}</table>"


def _fields(
    api: Mapping[str, Any], schema: Mapping[str, Any], before: str, above: tuple[str, ...]
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """The fields of an object and, right after each, those within it: ``retrieval_config.top_k``, ``history[].role``.

    A schema that stands in itself, or whose fields have names of the caller's, says in its description what it takes.
    """
    for held in (_resolved(api, each) for each in _options(api, schema)):
        if held.get("type") == "array":
            yield from _fields(api, held.get("items", {}), before.removesuffix(".") + "[].", above)
        title = held.get("title", "")
        if title in above or "patternProperties" in held:
            continue
        for name, each in held.get("properties", {}).items():
            yield before + name, each, name in held.get("required", ())
            yield from _fields(api, each, f"{before}{name}.", (*above, title))


def _options(api: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    held = _resolved(api, schema)
    return list(held.get("anyOf") or held.get("oneOf") or [held])


def _description(api: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """A field's own; without one, that of what it holds."""
    told: str = schema.get("description", "")
    held = (_resolved(api, each).get("description", "") for each in _options(api, schema))
    default = schema.get("default")
    is_told = default not in (None, "", [], {})
    return (told or next(filter(None, held), "")) + (f"　默认 {json.dumps(default)}" if is_told else "")


def _examples(api: Mapping[str, Any], body: Mapping[str, Any]) -> str:
    """Those of the request, each with what it is for; without any, the schema's first."""
    told = [(each.get("summary", ""), each["value"]) for each in body.get("examples", {}).values()]
    shown = told or [("", each) for each in _resolved(api, body["schema"]).get("examples", [])[:1]]
    return "".join(
        f"<p>{escape(summary)}</p><pre>{escape(json.dumps(value, ensure_ascii=False, indent=1))}</pre>"
        for summary, value in shown
    )


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
    if choices := held.get("enum") or ([held["const"]] if "const" in held else []):
        return " | ".join(str(each) for each in choices)
    told = held.get("type", "任意")
    kind = told if isinstance(told, str) else " | ".join(told)
    return f"{kind} of {_brief(api, held['items'])}" if kind == "array" and "items" in held else kind
