"""The page /docs, made of the OpenAPI document, without scripts or anything from other servers."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Request, Response

METHODS: Final = ("get", "post", "put", "patch", "delete")

Json = Mapping[str, Any]

router = APIRouter()


@cache
def _style() -> tuple[str, str]:
    """The style sheet, and a content security policy that permits it and nothing else."""
    style = Path(__file__).with_suffix(".css").read_text("utf-8")
    digest = b64encode(sha256(style.encode()).digest()).decode()
    others = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    return style, f"default-src 'none'; style-src 'sha256-{digest}'; {others}"


@router.get("/docs", include_in_schema=False)
async def docs(request: Request) -> Response:
    style, policy = _style()
    page = "".join(_page(request.app.openapi(), style))
    return Response(page, media_type="text/html; charset=utf-8", headers={"content-security-policy": policy})


def _page(api: Json, style: str) -> Iterator[str]:
    info = api["info"]
    yield f'<!doctype html><html lang="zh"><meta charset="utf-8"><title>{escape(info["title"])}</title>'
    yield f"<style>{style}</style><h1>{escape(info['title'])} <small>{escape(info['version'])}</small></h1>"
    yield f"<p>{escape(info['summary'])}</p><pre>{escape(info['description'])}</pre>"
    yield '<p>机器可读：<a href="openapi.json">openapi.json</a></p>'
    group = None
    operations = ((path, method, methods) for path, methods in api["paths"].items() for method in METHODS)
    for path, method, operation in ((path, method, m[method]) for path, method, m in operations if method in m):
        tag = operation.get("tags", ["其他"])[0]
        if tag != group:
            group = tag
            yield f"<h2>{escape(tag)}</h2>"
        yield from _operation(api, path, method, operation)


def _operation(api: Json, path: str, method: str, operation: Json) -> Iterator[str]:
    yield f'<details><summary><b class="m">{method.upper()}</b> <code>{escape(path)}</code> '
    yield f"{escape(operation.get('summary', ''))}</summary>"
    if description := operation.get("description"):
        yield f"<p>{escape(description)}</p>"
    if parameters := operation.get("parameters"):
        yield "<h4>参数</h4><table>"
        for one in parameters:
            yield f"<tr><td><code>{escape(one['name'])}</code><td>{escape(one['in'])}"
            yield f"<td>{escape(one.get('description', ''))}<td><code>{escape(_brief(api, one['schema']))}</code>"
        yield "</table>"
    for kind, body in operation.get("requestBody", {}).get("content", {}).items():
        yield f"<h4>请求体 {escape(kind)}（＊ 必填）</h4>{_schema(api, body['schema'])}{_examples(api, body)}"
    yield "<h4>回答</h4><table>"
    for status, answer in operation["responses"].items():
        yield f"<tr><td>{escape(status)}<td>{escape(answer.get('description', ''))}"
    yield f"</table>{_data(api, operation['responses'])}</details>"


def _data(api: Json, responses: Json) -> str:
    """The ``data`` of a successful response."""
    for response in (response for status, response in responses.items() if status.startswith("2")):
        schema = response.get("content", {}).get("application/json", {}).get("schema", {})
        if data := _resolved(api, schema).get("properties", {}).get("data"):
            return f"<h4>回答的 data</h4>{_schema(api, data, is_request=False)}"
    return ""


def _schema(api: Json, schema: Json, *, is_request: bool = True) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(name)}</code>{'＊' if is_required and is_request else ''}"
        f"<td><code>{escape(_brief(api, field))}</code><td>{escape(_description(api, field))}"
        for name, field, is_required in _fields(api, schema, "", ())
    )
    return f"<table>{rows}</table>"


def _fields(api: Json, schema: Json, prefix: str, parents: tuple[str, ...]) -> Iterator[tuple[str, Json, bool]]:
    """The fields of an object and, after each, those within it: ``retrieval_config.top_k``, ``history[].role``.

    A recursive schema, or one whose field names are the caller's, is explained by its description.
    """
    for option in (_resolved(api, option) for option in _options(api, schema)):
        if option.get("type") == "array":
            yield from _fields(api, option.get("items", {}), prefix.removesuffix(".") + "[].", parents)
        title = option.get("title", "")
        if title in parents or "patternProperties" in option:
            continue
        for name, field in option.get("properties", {}).items():
            yield prefix + name, field, name in option.get("required", ())
            yield from _fields(api, field, f"{prefix}{name}.", (*parents, title))


def _options(api: Json, schema: Json) -> list[Json]:
    resolved = _resolved(api, schema)
    return list(resolved.get("anyOf") or resolved.get("oneOf") or [resolved])


def _description(api: Json, schema: Json) -> str:
    """A field's own, or that of its type."""
    of_types = (_resolved(api, option).get("description", "") for option in _options(api, schema))
    description = schema.get("description") or next(filter(None, of_types), "")
    default = schema.get("default")
    return description + ("" if default in (None, "", [], {}) else f"　默认 {json.dumps(default)}")


def _examples(api: Json, body: Json) -> str:
    """Those of the request; without any, the schema's first."""
    own = [(example.get("summary", ""), example["value"]) for example in body.get("examples", {}).values()]
    examples = own or [("", value) for value in _resolved(api, body["schema"]).get("examples", [])[:1]]
    return "".join(
        f"<p>{escape(summary)}</p><pre>{escape(json.dumps(value, ensure_ascii=False, indent=1))}</pre>"
        for summary, value in examples
    )


def _resolved(api: Json, schema: Json) -> Json:
    reference = schema.get("$ref")
    if reference is None:
        return schema
    found: Json = api["components"]["schemas"][reference.rsplit("/", 1)[1]]
    return found


def _brief(api: Json, schema: Json) -> str:
    """A schema in a few words: ``integer``, ``string 或 null``, ``weighted | rrf``."""
    resolved = _resolved(api, schema)
    if options := resolved.get("anyOf") or resolved.get("oneOf"):
        return " 或 ".join(dict.fromkeys(_brief(api, option) for option in options))
    if choices := resolved.get("enum") or ([resolved["const"]] if "const" in resolved else []):
        return " | ".join(map(str, choices))
    types = resolved.get("type", "任意")
    kind = types if isinstance(types, str) else " | ".join(types)
    return f"{kind} of {_brief(api, resolved['items'])}" if kind == "array" and "items" in resolved else kind
