"""The HTTP service: the engine behind routes, keys and bounds. Its drivers come with the extra ``service``.

`app.create_app` makes the application over an open engine, `serving.serve` opens one and listens. Whoever may run
without the extra asks `require_drivers` before importing either.
"""

from __future__ import annotations

from importlib.util import find_spec

from qianxun.core.errors import MissingExtra

DRIVERS = {
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "httptools": "httptools",
    "python_multipart": "python-multipart",
    "prometheus_client": "prometheus-client",
    "cryptography": "cryptography",
}


def require_drivers() -> None:
    """Raises MissingExtra where the extra ``service`` is not installed."""
    for module, package in DRIVERS.items():
        if find_spec(module) is None:
            raise MissingExtra(package, "service")
