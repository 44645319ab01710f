"""The ways in: every one translates between its own protocol and the engine, and holds no logic of the product.

Read `cli.app` first, the plainest of them, then `http.app`, where routes and middleware are put together; `client`
speaks to `http` and has the calls of the engine. `mcp`, `workflow` (LangGraph) and `frameworks` (LangChain,
LlamaIndex, Neo4j) serve other programs.

Imports `core` (what flows) and `engine` (what can be done), other doors where it wraps them, and nothing below.
"""
