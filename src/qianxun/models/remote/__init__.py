"""Models of services: `embedding`, `rerank` and `chat` over the one client of `http`.

`url_policy` says which addresses are allowed and `pinned_transport` connects to no others; `breaker` pauses calls to a
failing service, `redaction` masks keys in what it returns. `endpoints` can be imported without an HTTP library.
"""
