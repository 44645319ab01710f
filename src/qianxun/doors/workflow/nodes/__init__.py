"""Function nodes: each takes the state and gives what changed in it."""
