"""An opened knowledge base, as searches, indexing, answers and graphs share it.

Read `base.OpenBase` first: the records, the index with the model it was built by (`Serving`), the splitter, the
analyser and the models of one base. `principal_view` is a base as a principal sees it, `in_force` which documents count
on a day. Its memory: `known_terms` (synonyms and learnt words), `graph_cache`, `chunk_cache`, `table_cache`,
`document_names`; a purge empties it (`forget`). `lease` is on its outbox. `engine` opens and closes bases; everything
below it gets one as an argument.

Imports core, text, records, models, rank, ingest and graph.network; imported by everything that works on a base.
"""
