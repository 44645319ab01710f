"""From documents to the index: what is written is stored in the records first, and enters the index from the outbox.

Read `add.add_documents` and `add.add_submissions` first: every document comes this way, be it a file (`files`), an
event of another system (`events`) or a value (`knowledge_base`, `Engine.add_documents`). `read` checks and cleans what
comes, `prepare` chunks and embeds, `outbox_indexer` applies pending changes to the index, `correct` applies what people
decided, `maintenance` rebuilds and verifies the index.

Imports ingest, records, models, graph and bases; imported by answer, jobs and engine.
"""
