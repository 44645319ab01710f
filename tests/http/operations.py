"""The operations of the OpenAPI document, each with a request that is right, for tests that leave none out."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

METHODS = ("get", "post", "put", "patch", "delete")
JSON = "application/json"
FORM = "multipart/form-data"


@dataclass(frozen=True)
class Operation:
    """One method of one address."""

    method: str
    path: str
    parameters: Mapping[str, str]  # name → path or query
    bodies: tuple[Any, ...]  # the documentation's own examples, as JSON
    fields: Mapping[str, Any]  # dotted name of a field of the body → its schema
    statuses: frozenset[int]
    is_form: bool  # its body is a form with a file, and nothing else

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def has_body(self) -> bool:
        return bool(self.bodies)

    @property
    def in_path(self) -> list[str]:
        return [name for name, place in self.parameters.items() if place == "path"]

    def url(self, values: Mapping[str, Any]) -> str:
        """Raises KeyError for a parameter of the path that has no value."""
        path = self.path
        for name in self.in_path:
            path = path.replace(f"{{{name}}}", quote(str(values[name]), safe=""))
        return path

    def body(self, number: int = 0) -> Any:
        return copy.deepcopy(self.bodies[number])


def operations(document: Mapping[str, Any]) -> list[Operation]:
    return [
        _operation(document, method, path, told[method])
        for path, told in document["paths"].items()
        for method in METHODS
        if method in told
    ]


def _operation(document: Mapping[str, Any], method: str, path: str, told: Mapping[str, Any]) -> Operation:
    content = told.get("requestBody", {}).get("content", {})
    is_form = bool(content) and JSON not in content
    schema = _resolved(document, content[FORM if is_form else JSON]["schema"]) if content else {}
    named = [each["value"] for each in content.get(JSON, {}).get("examples", {}).values()]
    bodies = tuple(named or schema.get("examples", ()))
    assert bool(bodies) == (bool(content) and not is_form), f"{method} {path}: no example of its body is documented"
    return Operation(
        method=method.upper(),
        path=path,
        parameters={each["name"]: each["in"] for each in told.get("parameters", ())},
        bodies=bodies,
        fields=dict(_fields(document, schema, "", ())),
        statuses=frozenset(int(status) for status in told["responses"]),
        is_form=is_form,
    )


def _fields(
    document: Mapping[str, Any], schema: Mapping[str, Any], prefix: str, above: tuple[str, ...]
) -> Iterator[tuple[str, Any]]:
    """Where a schema holds itself, once."""
    if (named := schema.get("$ref", "")) in above:
        return
    above = (*above, named) if named else above
    for name, inner in _resolved(document, schema).get("properties", {}).items():
        yield prefix + name, inner
        for option in (inner, *inner.get("anyOf", ())):
            yield from _fields(document, option, f"{prefix}{name}.", above)


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found: Mapping[str, Any] = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return found
