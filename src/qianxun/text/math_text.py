"""Figures that a model sets as formulas, as plain text: $60\\%$ is 60%, \\(5\\sim10\\,\\text{mg}\\) is 5~10mg."""

from __future__ import annotations

import re
from typing import Final

_PLAIN: Final = tuple(
    (re.compile(pattern), plain)
    for pattern, plain in (
        (r"\\(?:text|textbf|mathrm|mathbf|operatorname)\s*\{([^{}\n]{0,80})\}", r"\1"),
        (r"\\sim(?![A-Za-z])", "~"),
        (r"\\(?:leq?|geq?|approx|pm)(?![A-Za-z])", " "),
        (r"\\(?:times|cdot)(?![A-Za-z])", "×"),
        (r"\^\s*\{?\\circ\}?\s*C?", "℃"),
        (r"\{,\}", ","),
        (r"\\([%$])", r"\1"),
        (r"\\[,;:!()\[\] ]|\$", ""),
    )
)


def without_formulas(text: str) -> str:
    """The same text, to be read for its figures."""
    if "\\" not in text and "$" not in text:
        return text
    for pattern, plain in _PLAIN:
        text = pattern.sub(plain, text)
    return text
