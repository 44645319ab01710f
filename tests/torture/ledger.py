"""What the dead writer had promised."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.torture.script import Operation


class Violation(AssertionError):
    """A promise was broken."""


@dataclass
class Ledger:
    """For each document the version of record (None: deleted), and the operations nobody knows the end of."""

    versions: dict[str, int | None] = field(default_factory=dict)
    searchable: set[str] = field(default_factory=set)  # acknowledged as such by the last write
    unfinished: list[Operation] = field(default_factory=list)
    acknowledged: int = 0

    def hear(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            word, operation = Operation.heard(line)
            if word == "begin":
                self.unfinished.append(operation)
            else:
                self.unfinished.remove(operation)
                self._note(operation)

    def _note(self, operation: Operation) -> None:
        self.acknowledged += 1
        for doc_id in operation.doc_ids:
            self.versions[doc_id] = None if operation.kind == "delete" else operation.version
            (self.searchable.add if operation.kind == "put" else self.searchable.discard)(doc_id)

    def resolve(self, seen: dict[str, int | None]) -> None:
        """Takes what was found as the truth about unfinished operations; raises where no ending explains it."""
        for operation in self.unfinished:
            ends = {self._ending(operation, doc_id, seen.get(doc_id)) for doc_id in operation.doc_ids}
            if operation.kind == "accept" and len(ends - {"either"}) > 1:  # that one is a single transaction
                raise Violation(f"half of a transaction: {operation}")
            self.searchable -= set(operation.doc_ids)
        self.unfinished.clear()
        for doc_id, version in self.versions.items():
            if seen.get(doc_id) != version:
                raise Violation(f"{doc_id} should be at {version}, and is at {seen.get(doc_id)}")
        if strangers := seen.keys() - self.versions.keys():
            raise Violation(f"nobody wrote {sorted(strangers)}")

    def _ending(self, operation: Operation, doc_id: str, seen: int | None) -> str:
        before = self.versions.get(doc_id)
        after = None if operation.kind == "delete" else operation.version
        if before == after:
            return "either"
        if seen == after:
            self.versions[doc_id] = after
            return "after"
        return "before"
