"""An opened knowledge base, as searches, indexing, answers and graphs share it.

Read `base.OpenBase` first: the records, the index with the model it was built by (`Serving`), the splitter, the
analyser and the models of one base. `known_terms` and `graph_cache` are its memory: synonyms and learnt words, the
derived graph. `engine` opens and closes bases; everything below it gets one as an argument.

Imports core, text, records, models, rank, ingest and graph.network; imported by everything that works on a base.
"""
