"""What of a model's reply may be shown: read as it comes, in pieces cut anywhere.

In the order in which `reply_reader.ReplyReader` uses them:

    marks           citations in other forms become marks [n]; tokens of the model's template go
    plain_text      links, images and HTML are taken out
    citations       sentences, and the passages that they cite
    blocks          tables and lists, whose rows and items share citations
    sentence_check  a sentence is accepted, flagged or dropped
    grounding       whether its figures are in what it cites, or follow from it (derivation, lapses,
                    counting)
    misplaced       whether they are of the same thing; row_figures and row_cells for tables (table_rows)
    contradiction   whether it says the opposite of what it cites (stance); other_names: of somebody else;
                    parallel_clauses: of the clause beside it; near_copies: a clause that is copied with one
                    thing altered

Dropped is what has strong evidence against it: a clause of the sources that is copied with one thing altered, the row
and the column of a table that have something else, a figure that no two steps lead to. Whatever is weaker is flagged.
"""
