"""Exact answers from the cells of tables, without a language model.

Read `answer.py` first: `answer_from_tables` tries every table and takes the one that explains the question best.

    sheet, match       a table made ready for questions; names and cells found in a question
    conditions, scene  which rows it asks about; what it mentions and which columns it asks for
    lookup, plan       the cell where a row and a column meet; counts, sums, superlatives, lists
    run, fitness       the plan carried out on typed rows; whether the outcome is the kind of answer asked for

`headers.txt` has what columns are called. Imports only `core`, `text` and `question`.
"""
