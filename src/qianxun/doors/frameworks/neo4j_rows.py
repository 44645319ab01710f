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
    properties: Row = {
        "kb": kb,
        "id": entity.id,
        "name": sound_text(entity.name),
        "type": sound_text(entity.type),
        "importance": round(entity.importance, _IMPORTANCE_DIGITS),
        "aliases": [sound_text(alias) for alias in entity.aliases],
        "names": sorted(map(folded_name, {entity.name, *entity.aliases})),
        "chunks": entity.chunks,
    }
    return {"key": key_of(kb, entity.id), "properties": {**properties, "digest": digest_of(properties)}}


def relation_row(kb: str, relation: Relation, chunk_ids: Mapping[int, str]) -> Row:
    evidence = relation.evidence[:MOST_EVIDENCE]
    properties: Row = {
        "kb": kb,
        "type": sound_text(relation.type),
        "weight": float(relation.weight),
        "chunks": [place.chunk for place in evidence],
        "chunk_ids": [sound_text(chunk_ids.get(place.chunk, "")) for place in evidence],
        "starts": [place.start for place in evidence],
        "ends": [place.end for place in evidence],
    }
    ends = (relation.source, relation.type, relation.target)
    return {
        "key": key_of(kb, digest_of(ends)),
        "source": key_of(kb, relation.source),
        "target": key_of(kb, relation.target),
        "properties": {**properties, "digest": digest_of((ends, properties))},
    }


def digest_of(value: object) -> str:
    return blake2b(repr(value).encode("utf-8"), digest_size=12).hexdigest()


def folded_name(name: str) -> str:
    return sound_text(fold(name).strip())


def entity_of(stored: Mapping[str, Any]) -> Entity:
    aliases = tuple(stored.get("aliases") or ())
    return Entity(
        stored["id"], stored["name"], stored["type"], aliases, int(stored["chunks"]), float(stored["importance"])
    )


def relation_of(row: Row, allowed: Collection[int] | None) -> Relation | None:
    stored = row["relation"]
    places = zip(stored["chunks"], stored["starts"], stored["ends"], strict=True)
    evidence = tuple(Evidence(*place) for place in places if allowed is None or place[0] in allowed)
    if allowed is not None and not evidence:
        return None
    return Relation(row["source"], row["target"], stored["type"], float(stored["weight"]), evidence)
