"""From a question to an answer whose every sentence is cited, or to the statement that the sources do not answer.

Read `run.py` first: `answer_question` takes the steps in order, `state.py` has the value that they pass on.

    analyze → (route) → retrieve → grade → refine → write     a step a module; `llm_step` runs those that a model takes
    assemble, prompt, reply_reader, generate                  passages in, a model's reply or quoted sentences out
    cited_answer                                              what comes out: sentences, marks [1], sources
    multimodal, question_log                                  attachments of a question; the log entry of an answer
    extractive/                                               answers of the passages' own sentences
    tables/                                                   exact answers computed from the cells of tables
    verify/                                                   marks, links and figures of a model's reply, checked

May be imported: `run`, `state`, `generate.AnswerGenerator`, `question_log`, `tables.answer`. Imports everything above
it in the layer table; `tables/` only `core`, `text` and `question`.
"""
