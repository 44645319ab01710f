"""A small real language model runs everything that a language model takes part in: `make llm-check`.

`server` starts llama.cpp's own server with Gemma 3 270M from packages of an environment of its own (.venv-llm);
`checks` are run against it, one function each, and `__main__` prints which of them held. The model is far too small to
be good and was never taught to converse. So what is checked is never what it says, but what becomes of it: an answer
stays cited or is declined, a step that it fails is named and taken by rules, nothing breaks, nothing waits for ever.
"""
