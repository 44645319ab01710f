"""Entities and relations as the rows that are sent to a graph server, and back."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from hashlib import blake2b
from typing import Any, Final, TypeAlias

from qianxun.core.graph_types import Entity, Evidence, Relation
from qianxun.core.unicode import sound_text
from qianxun.engine.graph_mirror import fold

Row: TypeAlias = dict[str, Any]

MOST_EVIDENCE: Final = 200  # places of one relation that are copied
_IMPORTANCE_DIGITS: Final = 4  # that of all changes a little with every document; less than this is not worth sending


def key_of(kb: str, id_: str) -> str:
    return f"{len(kb)}:{kb}:{id_}"  # no two pairs give the same


def entity_row(kb: str, entity: Entity) -> Row:
    said: Row = {
        "kb": kb,
        "id": entity.id,
        "name": sound_text(entity.name),
        "type": sound_text(entity.type),
        "importance": round(entity.importance, _IMPORTANCE_DIGITS),
        "aliases": [sound_text(alias) for alias in entity.aliases],
        "names": sorted(map(folded_name, {entity.name, *entity.aliases})),
        "chunks": entity.chunks,
    }
    return {"key": key_of(kb, entity.id), "said": {**said, "digest": digest_of(said)}}


def relation_row(kb: str, relation: Relation, chunk_ids: Mapping[int, str]) -> Row:
    evidence = relation.evidence[:MOST_EVIDENCE]
    said: Row = {
        "kb": kb,
        "type": sound_text(relation.type),
        "weight": float(relation.weight),
        "chunks": [each.chunk for each in evidence],
        "chunk_ids": [sound_text(chunk_ids.get(each.chunk, "")) for each in evidence],
        "starts": [each.start for each in evidence],
        "ends": [each.end for each in evidence],
    }
    ends = (relation.source, relation.type, relation.target)
    return {
        "key": key_of(kb, digest_of(ends)),
        "source": key_of(kb, relation.source),
        "target": key_of(kb, relation.target),
        "said": {**said, "digest": digest_of((ends, said))},
    }


def digest_of(said: object) -> str:
    return blake2b(repr(said).encode("utf-8"), digest_size=12).hexdigest()


def folded_name(name: str) -> str:
    return sound_text(fold(name).strip())


def entity_of(held: Mapping[str, Any]) -> Entity:
    aliases = tuple(held.get("aliases") or ())
    return Entity(held["id"], held["name"], held["type"], aliases, int(held["chunks"]), float(held["importance"]))


def relation_of(row: Row, allowed: Collection[int] | None) -> Relation | None:
    held = row["relation"]
    places = zip(held["chunks"], held["starts"], held["ends"], strict=True)
    evidence = tuple(Evidence(*place) for place in places if allowed is None or place[0] in allowed)
    if allowed is not None and not evidence:
        return None
    return Relation(row["source"], row["target"], held["type"], float(held["weight"]), evidence)
