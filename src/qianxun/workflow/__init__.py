"""The example library in a LangGraph: the retrieval node, and graphs built from a flow.yaml."""
