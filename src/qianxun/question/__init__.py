"""What a question asks for: the one reader that answers, tables, graph and layered search share.

Read `question.py` first: `read(text)` returns a `Question`, whose parts are computed once, when they are first used.

    kinds           its kind for the analysis; small talk, courtesy
    subjects        several subjects of which it asks the same
    colloquial      an everyday question without how it is asked, and its lay entries
    evidence_query  its terms, figures and times, as sentences of documents are scored by them
    table_query     its plain form, as the names and cells of a table are matched with it; its words and types of
                    table, as tables are searched by them
    graph_query     its units, as relations of a graph are matched with it
    relation_query  whether it asks for a relation between named things
    steps           a question that needs what a first search finds
    follow_ups      a question that leans on the conversation, made complete

Word lists are in `words.toml`, by idea; `words.py` loads them. Imports only `core` and `text`.
"""
