"""From documents to the index: what is written is stored in the records first, and enters the index from the outbox.

Read `add.submission` and `add.add_submissions` first: every document comes this way, be it a file (`files`), an event
of another system (`events`) or a value (`knowledge_base`, `Engine.add_documents`). `prepare` chunks and embeds,
`outbox_indexer` applies pending changes to the index, `maintenance` rebuilds and verifies it.

Imports ingest, records, models, graph and bases; imported by answer, jobs and engine.
"""
