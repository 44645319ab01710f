"""From a file or a text to chunks.

Read `sandbox.pool.ParserPool.parse` first: a path in, a `ParsedFile` (headings, paragraphs, tables) out, parsed by a
worker process. The order of the rest:

    sources       which files a path stands for
    sandbox/      worker processes that parse untrusted files, and their limits
    parse/        one module per format, found by content (`sniff`); parsers of plug-ins
    tables/       grids of cells to typed tables
    headings, preprocess, assemble    blocks to the text that is stored, with exact offsets
    chunk, boundaries                 the text to chunks
    questions     questions that chunks answer
    attachments   pictures and tables that come with a question

Imports `core` and `text` only.
"""
