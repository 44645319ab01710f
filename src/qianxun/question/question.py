"""A question, read once: everything that its text alone gives, each part computed when it is first used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from qianxun.core.answer_types import QuestionKind
from qianxun.core.system.cache import cached_texts
from qianxun.question import kinds
from qianxun.question.evidence_query import EvidenceQuery, evidence_query
from qianxun.question.graph_query import GraphQuery, graph_query
from qianxun.question.parts import parts
from qianxun.question.subjects import Subject, subjects
from qianxun.question.table_query import TableQuery, TableSearchQuery, table_query, table_search_query
from qianxun.text.chinese import Analyser, fold
from qianxun.text.synonyms import Thesaurus


@dataclass(frozen=True)
class Question:
    """``kind`` decides how a question is analysed and routed; that of `for_evidence`, which sentences answer it.

    The two define comparison and summary differently: 分别 and 更高 make sentences of every side an answer, but are no
    reason to ask a model for an analysis. `words.toml` has both lists side by side.
    """

    text: str

    @cached_property
    def folded(self) -> str:
        return fold(self.text)

    @cached_property
    def kind(self) -> QuestionKind:
        return kinds.kind_of(self.folded)

    @property
    def is_small_talk(self) -> bool:
        return self.kind == "greeting"

    @cached_property
    def is_about_everything(self) -> bool:
        """A request for a summary of nothing in particular: 总结一下这些资料."""
        return self.kind == "summary" and not kinds.names_anything(self.folded)

    @cached_property
    def subjects(self) -> tuple[Subject, ...]:
        """The subjects of which it asks the same; empty where it asks of one."""
        return subjects(self.text)

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The questions of which it is made, each complete by itself; empty where it is one."""
        return parts(self.text)

    @cached_property
    def for_tables(self) -> TableQuery:
        return table_query(self.text)

    def for_table_search(self, words: Mapping[str, float]) -> TableSearchQuery:
        """With the weights of its significant words, which depend on the base."""
        return table_search_query(self.text, words)

    def for_evidence(self, doc_names: Iterable[str] = (), people: Sequence[str] = ()) -> EvidenceQuery:
        """Its terms, figures and times; names of documents, as far as it has them, are set apart."""
        return evidence_query(self.text, doc_names, people)

    def for_graph(self, analyser: Analyser, synonyms: Thesaurus | None = None) -> GraphQuery:
        """Its units; ``synonyms`` are those that the base's user gave."""
        return graph_query(self.text, analyser, synonyms)


@cached_texts(256, longest=4_000)
def read(text: str) -> Question:
    return Question(text)
