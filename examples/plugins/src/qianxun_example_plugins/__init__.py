"""Two parts that Qianxun finds by their entry points (pyproject.toml): `epub`, a parser, and `exact_phrase`, an arm."""

qianxun_api = 1  # the version of the plug-in contract that this was written for
