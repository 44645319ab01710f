"""Qianxun 千寻: Chinese-first recall for RAG."""
