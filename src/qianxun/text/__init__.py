"""Chinese text for search. Nothing here changes the stored text.

Read `chinese` first: `fold` (one written form), `Analyser` (words), `grams`. The rest:

    synonyms, expansion, homophones    other words for a query: synonyms, related words, corrections by sound
    figures, quantities                numbers in texts and questions
    headings, tokens, matching         a chunk below its headings, token budgets, what matches in a text
    table_types                        the type of a table
    reasoning, llm_json                replies of language models: thoughts removed, JSON read
    lexicon/                           the lists and tables as data files, each with where it comes from

Imports `core` only.
"""
