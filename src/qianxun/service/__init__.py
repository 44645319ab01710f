"""The HTTP service: the engine behind routes, keys and bounds. Its drivers come with the extra ``service``.

Nothing here is imported before `create_app` or `serve` is called, so that the package can be there without them.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from qianxun.errors import MissingExtra

if TYPE_CHECKING:
    from fastapi import FastAPI

    from qianxun.engine import Engine
    from qianxun.settings import Settings

DRIVERS = {
    "fastapi": "fastapi",
    "uvicorn": "uvicorn",
    "httptools": "httptools",
    "python_multipart": "python-multipart",
    "prometheus_client": "prometheus-client",
}


def require_drivers() -> None:
    """Raises MissingExtra where the extra ``service`` is not installed."""
    for module, package in DRIVERS.items():
        if find_spec(module) is None:
            raise MissingExtra(package, "service")


def create_app(engine: Engine, settings: Settings) -> FastAPI:
    """The service over an engine that is open, as an ASGI application."""
    require_drivers()
    from qianxun.service.app import create_app as create

    return create(engine, settings)
