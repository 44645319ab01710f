"""The HTTP service: an engine's calls as routes, with keys, limits and metrics. Drivers: the extra ``service``.

Read `app.create_app` first: it puts middleware, routes and error handlers together. `serve.serve` opens an engine and
listens. Routes are in `native` (our own, under ``/v1``) and, in the formats of other products, in `openai`, `dify`,
`rerank` and `mcp`; `console` has pages for people. They share `context` (tenant, slots), `concurrency`,
`request_models`, `responses` with `error_formats` and `field_errors`, `event_stream` (answers) and `openapi`
(documentation); `middleware` surrounds them.

The command line imports ``require_drivers`` from here, and `serve` after it. The package itself imports
`qianxun.core`, `qianxun.engine` and, for its tools, `qianxun.doors.mcp`.
"""

from __future__ import annotations

from importlib.util import find_spec

from qianxun.core.errors import MissingExtra

DRIVERS = {
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "httptools": "httptools",
    "python_multipart": "python-multipart",
    "jinja2": "jinja2",
    "prometheus_client": "prometheus-client",
    "cryptography": "cryptography",
}


def require_drivers() -> None:
    """Raises MissingExtra if the extra ``service`` is not installed."""
    for module, package in DRIVERS.items():
        if find_spec(module) is None:
            raise MissingExtra(package, "service")
