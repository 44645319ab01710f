"""Answers of the passages' own sentences, and whether passages can answer at all.

Read `sufficiency.py` first: `read` scores every sentence and table row of the passages (`passage_lines.py` reads
them, `sentence_scores.py` scores them) and leaves out rows about another subject; `enough` decides; `extractive.py`
picks the sentences that answer best, word for word. Thresholds were tuned on rageval_zh_fin and cmrc2018
(docs/quality.md).
"""
