"""LangGraph workflows over an engine.

Read `query_workflow` first: the steps of an answer as a graph, whose state is plain JSON (`query_state`). `flow` and
`graph_builder` are the three-node flow with an example library, `nodes` its function nodes. Imports core and engine
only; LangGraph comes with the extra ``langgraph``.
"""
