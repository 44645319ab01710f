"""The index in a Milvus server. Read `index` first: what is stored, and when others see it."""
