"""Models on this machine: `onnx` runs a card's weights, `embedding` and `cross_encoder` use them, `maxsim` reranks with
token vectors, `pull` fetches files from `download_sources`, `weights` checks their hashes."""
