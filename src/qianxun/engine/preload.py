"""Imports what the methods of `Engine` import on first use.

For a service: the first question of a kind would else hold up all others while the code for it is loaded.
"""

import qianxun.answer.question_log
import qianxun.answer.run
import qianxun.graph.curate
import qianxun.graph.modes
import qianxun.indexing.add
import qianxun.indexing.events
import qianxun.indexing.files
import qianxun.indexing.knowledge_base
import qianxun.retrieve.explain
import qianxun.retrieve.layered.tables
import qianxun.retrieve.layered.texts  # noqa: F401
