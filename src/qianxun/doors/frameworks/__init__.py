"""Adapters for other frameworks, over an engine or a client.

`langchain` and `llamaindex` are retrievers over one knowledge base; `recall` has what both share: options, filters and
the metadata of a result. `engine_caller` calls an engine from code that awaits and from code that does not, `callers`
a client as well. `hybrid_retriever` and `rag_anything` offer the graph and the vectors of a base under the names of the
seed documents; `neo4j` mirrors a graph to a Neo4j server. Each is imported by itself, with the extra it needs. Imports
core, engine and the client only.
"""
