"""Other hybrids, each as its documentation builds it: one file per peer, each run in its own process by `harness`."""
