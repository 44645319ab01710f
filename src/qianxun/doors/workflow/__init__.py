"""LangGraph: the query workflow; the example library as a node, and graphs built from a flow.yaml."""
