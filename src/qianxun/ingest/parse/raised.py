"""Powers: 10 with a raised 9 is 10⁹, never 109."""

from __future__ import annotations

import re
from typing import Final

_POWER: Final = re.compile(r"\s*[+\-−–]?\d{1,4}\s*")
_HIGH: Final = str.maketrans("0123456789+-−–", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁻")


def raised(before: str, text: str) -> str:
    """What is set high after ``before``. Behind a digit, a letter or a bracket a number is a power or a unit's (m²).

    Behind anything else it is the mark of a note and stays as it is.
    """
    last = before[-1:]
    if (last.isascii() and last.isalnum()) or last in (")", "）", "]"):
        return text.strip().translate(_HIGH) if _POWER.fullmatch(text) else text
    return text
