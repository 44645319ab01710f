"""The import script of the example library: ``python -m qianxun.doors.cli.import_data --excel_path 提示词案例库.xlsx``.

`qianxun examples import` does the same; this form takes the library of the settings and environment alone.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from qianxun.core.errors import QianxunError
from qianxun.doors.cli.views.examples import show_import
from qianxun.engine.admin.examples import import_examples
from qianxun.engine.settings import load


def main(arguments: Sequence[str] | None = None) -> int:
    """0: everything was imported; 1: rows were rejected; 2: the file or the settings could not be used."""
    parser = argparse.ArgumentParser(prog="import_data.py", description="把 Excel 或 JSON 里的示例导入示例库")
    parser.add_argument("--excel_path", type=Path, required=True, help="工作簿（.xlsx），或同样内容的 .json")
    parser.add_argument("--skip_bad", action="store_true", help="跳过填错的行，其余照收")
    given = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
    try:
        report = import_examples(load(), given.excel_path, skip_bad=given.skip_bad)
    except QianxunError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    show_import(given.excel_path, report)
    return 1 if report.rejected else 0


if __name__ == "__main__":
    sys.exit(main())
