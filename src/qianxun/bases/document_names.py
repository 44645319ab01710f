"""The names of an open base's documents in memory, by their first letters: a question may name one without a mark.

To look through a hundred thousand names in the records takes ten times as long as the search for the question. They are
kept as of a state of the records in which nothing waits for the index: whatever comes, goes or is renamed later raises
the state.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from sqlalchemy import Connection

from qianxun.records import bases, listing, outbox
from qianxun.text.document_names import by_name

MOST_NAMES: Final = 200_000  # some 60 MB; those of a larger base are looked up in the records each time

Lookup: TypeAlias = Callable[[str], set[str]]  # the ids of the documents that a name means


class DocumentNames:
    """``by_letter``: (id, name) of documents by the first letter of either, as of ``state``; None: too many, or not
    read, because this is the first question at that state: under writes without a pause there is no second."""

    def __init__(self, state: int = -1, by_letter: Mapping[str, list[tuple[str, str]]] | None = None) -> None:
        self.state, self.by_letter = state, by_letter
        self._is_read = by_letter is not None
        self._called: dict[str, dict[str, set[str]]] = {}

    def called(self, letter: str) -> dict[str, set[str]]:
        if letter not in self._called:
            self._called[letter] = by_name((self.by_letter or {}).get(letter, ()))
        return self._called[letter]

    def current(self, tx: Connection, knowledge_base: int) -> DocumentNames:
        """These, or those of the records as they are now."""
        state = bases.generation(tx, knowledge_base)
        if self.state != state or self._is_read or outbox.depth(tx, knowledge_base):
            return self if self.state == state else DocumentNames(state)
        self._is_read = True
        documents = listing.names(tx, knowledge_base, limit=MOST_NAMES + 1)
        if len(documents) > MOST_NAMES:
            return self
        by_letter = defaultdict(list)
        for doc_id, name in documents:
            for letter in {doc_id[:1], name[:1]}:
                by_letter[letter].append((doc_id, name))
        return DocumentNames(state, by_letter)

    def lookup(self, tx: Connection, knowledge_base: int, letters: Collection[str]) -> Lookup:
        """For names that begin with one of these letters."""
        if self.by_letter is None:
            called = by_name(listing.names_beginning(tx, knowledge_base, letters))
            return lambda name: called.get(name, set())
        known = [self.called(letter) for letter in letters]
        return lambda name: set().union(*(called.get(name, ()) for called in known))
