"""Bounds that several packages share: what a request, a name or an attachment may be at most."""

from __future__ import annotations

from typing import Final

MIB: Final = 1024 * 1024
GIB: Final = 1024 * MIB
MAX_ID: Final = 2**63 - 1  # the largest integer that every database stores

QUERY_LIMIT: Final = 2048  # characters of a query
TOP_K_LIMIT: Final = 100
NAME_LIMIT: Final = 200  # characters of a knowledge base's name
DOC_ID_LIMIT: Final = 255
DOC_IDS_LIMIT: Final = 1000  # documents that one search may be narrowed to
CHUNK_ID_LIMIT: Final = 300  # c_, a base, a document's id, a position
SOURCE_LIMIT: Final = 2_000  # characters that say where a document came from
METADATA_CHARACTERS: Final = 50_000  # of a document, names and values: every hit carries them
EVENT_ID_LIMIT: Final = 200

FEEDBACK_COMMENT_LIMIT: Final = 2_000
FEEDBACK_CHUNKS_LIMIT: Final = 100  # as many as a search can return

ATTACHMENTS_LIMIT: Final = 10  # images and tables that come with one question
CAPTION_LIMIT: Final = 200
IMAGE_BYTES_LIMIT: Final = 20 * MIB
API_KEY_LIMIT: Final = 4096

CASES_LIMIT: Final = 20_000  # questions in one evaluation set
RELEVANT_LIMIT: Final = 100  # passages that one question may have
PASSAGE_LIMIT: Final = 2_000  # characters of one of them
EXPECTED_LIMIT: Final = 10_000  # characters of an expected answer
RUNS_LIMIT: Final = 500  # of one evaluation set
SLOW_MS: Final = 200.0  # a search that takes longer is called slow where nothing else is chosen
