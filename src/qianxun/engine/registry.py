"""Names to parts: a new index backend is one new file with a `create()` and one row here, or a dotted module name."""

from __future__ import annotations

import importlib
from typing import Any

from qianxun.core.errors import BadSettings

INDEX_BACKENDS = {"embedded": "qianxun.index.embedded.index", "postgres": "qianxun.index.postgres.index"}


def create_index_backend(name: str, **arguments: Any) -> Any:
    """Imports the backend's module and calls its `create`."""
    module = INDEX_BACKENDS.get(name, name if "." in name else None)
    if module is None:
        known = "、".join(sorted(INDEX_BACKENDS))
        raise BadSettings(f"没有名为 {name} 的索引后端", hint=f"可用：{known}，或写出带 create() 的模块全名")
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise BadSettings(f"导入不了索引后端 {module}：{error}", hint="检查模块名与安装") from error
    return found.create(**arguments)
