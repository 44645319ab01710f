"""Imports a workbook of examples into the library of the settings.

    cd examples/medical_assistant
    python import_data.py --excel_path 提示词案例库.xlsx

`qianxun examples template 提示词案例库.xlsx` writes the workbook to fill in. QIANXUN_DATA or QIANXUN_RECORDS_URL say
where the library is.
"""

import sys

from qianxun.doors.cli.import_data import main

if __name__ == "__main__":
    sys.exit(main())
