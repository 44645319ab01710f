"""Indexes: derived from the records, rebuilt from them when lost. One folder per backend.

Read `embedded.index.EmbeddedIndex` first: `apply` takes a batch of the outbox, `nearest` and `match` search vectors and
keywords. The contract is `core.ports.Index`; `testing.index_conformance` tests it for every backend.

    shared       what backends do alike: stamps, filter fields, checks of vectors
    bm25         BM25, its constants and formula, and which module of a backend adds it up
    embedded/    files in the data folder: tantivy for keywords, rows of our own and faiss for vectors
    postgres/    tables in a PostgreSQL server with pgvector
    milvus/      rows of a collection in a Milvus server; the client for a collection of one's own

Backends import `shared`, `bm25`, `core` and (PostgreSQL) the connections of `records`, never each other.
"""
