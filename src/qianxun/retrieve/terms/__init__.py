"""Related words. Read `related.expanded` first, which puts a query in other words, then `learn.learn`, which learns the
words of a base for it, in the background. Imported by `layered`, `answer` and `engine`; may import what `retrieve` may.
"""
