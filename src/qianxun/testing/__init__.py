"""For those who extend Qianxun: conformance classes to inherit, scripted models.

Read `scripted` first: chat, rerank and embedding models that do as a test says. Then the conformance class of the part
you write; required abilities come first in each, optional ones are tested where a class names them:

    index_conformance     IndexConformance (index_material: entries and filters to try an index with)
    model_conformance     EmbeddingConformance, RerankConformance, ChatConformance
    parser_conformance    ParserConformance
    arm_conformance       ArmConformance (TextContext: a base of a few texts)

Imported by tests only; needs pytest, and hypothesis for indexes. May import core, text, records, ingest and models.
"""
