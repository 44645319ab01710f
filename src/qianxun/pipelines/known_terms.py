"""What an open base has at hand of words that belong together: its own synonyms, made ready once per configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qianxun.synonyms import NO_SYNONYMS, Thesaurus, of_user


class KnownTerms:
    """One for each open base, and never shared: a word of one base cannot come up in another."""

    def __init__(self) -> None:
        self._config: Mapping[str, Any] | None = None
        self._own = NO_SYNONYMS

    def own(self, config: Mapping[str, Any]) -> Thesaurus:
        """The synonyms of this configuration; a changed one is another value, and is read anew."""
        if config is not self._config:
            groups = config.get("synonyms")
            self._own, self._config = (of_user(groups) if groups else NO_SYNONYMS), config
        return self._own
