"""Facts written by hand: what a chunk would tell."""

from __future__ import annotations

from qianxun.core.graph_types import ChunkFacts, Facts, Mention, StatedAlias, Statement

PERSON, PLACE, TERM = "PERSON", "PLACE", "TERM"


def triple(chunk: int, source: str, relation: str, target: str, document: int | None = None) -> ChunkFacts:
    """A chunk that says “source 的 relation 是 target”."""
    text = f"{source} 的 {relation} 是 {target}"
    at = text.rindex(target)
    mentions = (Mention(source, TERM, 0, len(source)), Mention(target, TERM, at, at + len(target)))
    told = Facts(mentions, (Statement(source, target, relation, 0, len(text)),), (), ((0, len(text)),))
    return ChunkFacts(chunk, document or chunk, told, "statistical:test")


def prose(chunk: int, *names: str, kind: str = PERSON, apart: int = 3) -> ChunkFacts:
    """A chunk of one sentence in which these names stand, one after the other."""
    at, mentions = 0, []
    for name in names:
        mentions.append(Mention(name, kind, at, at + len(name)))
        at += len(name) + apart
    sentences = ((0, at),) if len(names) > 1 else ()
    return ChunkFacts(chunk, chunk, Facts(tuple(mentions), (), (), sentences), "statistical:test")


def alias(chunk: int, name: str, other: str) -> ChunkFacts:
    """A chunk that says “name（other）”."""
    at = len(name) + 1
    mentions = (Mention(name, PERSON, 0, len(name)), Mention(other, PERSON, at, at + len(other)))
    told = Facts(mentions, (), (StatedAlias(name, other, 0, at + len(other) + 1),), ())
    return ChunkFacts(chunk, chunk, told, "statistical:test")
