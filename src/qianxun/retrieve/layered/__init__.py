"""Layered search: each layer admits results only while those before it have admitted too few.

Read `texts.search_texts` first, then `tables.search_tables`. `ladder` has the layers as data, the run over them and the
operators' log; `search` the evidence of the arms that all layers share; `table_fit` how a table fits a question, and
`table_rows` what is shown of it. Imported by `engine` and `answer`; may import what `retrieve` may.
"""
