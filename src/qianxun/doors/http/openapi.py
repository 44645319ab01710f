"""What the OpenAPI document says beyond the types of requests and responses; its texts are in openapi.toml."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from pathlib import Path
from typing import Any, Final

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from qianxun.doors.http import error_formats
from qianxun.doors.http.error_formats import BaseProblem, DifyProblem, OpenAIProblem, Problem, RerankProblem
from qianxun.doors.http.middleware.guard import OPEN
from qianxun.doors.http.responses import STATUSES

SCHEMAS: Final = "#/components/schemas/{model}"
FORMS: Final = (Problem, DifyProblem, OpenAIProblem, RerankProblem)  # of errors, each for its paths
EVERYWHERE: Final = (401, 403, 429, 500, 503)
KEYS: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "qianxun keys create 签发的密钥：qx_…"},
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "同一个密钥，另一种写法"},
}


class Application(FastAPI):
    """FastAPI with the keys in its document, which the guard checks before routing."""

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            api = super().openapi()
            components = api.setdefault("components", {})
            # FastAPI would build a model of each error status of each route: a tenth of its start.
            _, problems = models_json_schema([(form, "serialization") for form in FORMS], ref_template=SCHEMAS)
            components["schemas"] = dict(sorted({**components.get("schemas", {}), **problems["$defs"]}.items()))
            components["securitySchemes"] = KEYS
            api["security"] = [{"bearer": []}, {"key": []}, {}]  # the last: while there is no key at all
            for path, operations in api["paths"].items():
                for operation in operations.values():
                    if path in OPEN:
                        operation["security"] = []
                    if error_formats.format_of(path) is error_formats.openai:
                        operation["responses"].pop("422", None)  # FastAPI adds it to every route that validates
        return self.openapi_schema or {}


@cache
def _texts() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def description() -> str:
    return str(_texts()["description"]).strip()


def request_examples(route: str) -> dict[str, Any]:
    """For ``Body(openapi_examples=…)``."""
    examples = _texts()["examples"][route]
    return {name: {**example, "value": json.loads(example["value"])} for name, example in examples.items()}


def field_texts(owner: str, name: str = "") -> dict[str, Any]:
    """What the document says of a field of a response: its description and an example. Without a name: of the whole."""
    written = _texts()["fields"].get(owner, {}).get(name or "about", {})
    text = {"description": written} if isinstance(written, str) else dict(written)
    if "example" in text:
        text["examples"] = [text.pop("example")]
    return text


def file_form(fields: type[BaseModel]) -> dict[str, Any]:
    """The documentation of a form with a file and these fields; its handler reads it itself, to stream the file."""
    schema = fields.model_json_schema()
    schema["properties"]["file"] = {"type": "string", "format": "binary", "description": "文件本身"}
    schema["required"] = ["file"]
    return {"multipart/form-data": {"schema": schema}}


def event_stream(route: str, *names: str) -> dict[str, Any]:
    """The documentation of a response that may be an event stream; ``names`` of its events, if they have any."""
    fields: dict[str, Any] = {"event": {"enum": list(names)}} if names else {}
    fields["data"] = {"type": "string", "contentMediaType": "application/json"}
    schema = {"type": "object", "required": list(fields), "properties": fields}
    content = {"text/event-stream": {"schema": schema, "example": _texts()["streams"][route]}}
    return {"description": "答案；stream 为 true 时是事件流", "content": content}


def returns(model: Any, *statuses: int, form: type[BaseProblem] = Problem, **success: Any) -> dict[str, Any]:
    """Arguments of a route that document its responses: ``model``, and these error statuses.

    ``form`` is the error format of the route's path (`error_formats`); ``success`` adds to the description of 200.
    """
    documented = error_responses(*statuses, form=form)
    return {"response_model": model, "responses": {200: success, **documented} if success else documented}


def error_responses(*statuses: int, form: type[BaseProblem] = Problem) -> dict[int | str, dict[str, Any]]:
    """The documentation of these error statuses, and of those that every route may return."""
    with_body = (408,) if 413 in statuses else ()
    content = {"application/json": {"schema": {"$ref": SCHEMAS.format(model=form.__name__)}}}
    documented: dict[int | str, dict[str, Any]] = {
        status: {"description": STATUSES[status][1], "content": content}
        for status in sorted({*statuses, *with_body, *EVERYWHERE})
    }
    for status in (429, 503):
        documented[status]["headers"] = {"Retry-After": {"description": "几秒后再试", "schema": {"type": "integer"}}}
    return documented
