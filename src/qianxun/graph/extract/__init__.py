"""Extraction of facts (mentions, statements, aliases, sentences) from the text of one chunk.

Read `chunk.extract_facts` first: it needs no model. `names`, `patterns` and `english` find names and relations in
prose, `triples` in tables and structured lines; their word lists are in ``lexicon.toml``. `domain` gives the types and
relations of a domain (``medicine.toml``, or another file). `llm.extract_batch` asks a language model and `llm_reply`
checks its reply against the texts. Imports `core` and `text` only.
"""
