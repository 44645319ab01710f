"""Caches behind the `Cache` port."""
