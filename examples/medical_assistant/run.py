"""Runs the flow for a question and prints the prompt it ends in.

    python examples/medical_assistant/run.py 高血压能喝酒吗
    python examples/medical_assistant/run.py --data ./my-data 记一下今天的血压130/85

The first run takes in the sample workbook. Which database and which model are used is up to the settings
(docs/operations/settings.md); without a model the flow still reaches its end, and the log says why there are no
examples.
"""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from nodes import prompt_assembly, query_understanding

from qianxun.core.errors import ModelError
from qianxun.doors.workflow.graph_builder import GraphBuilder
from qianxun.doors.workflow.nodes.retrieval_node import make_retrieval_node
from qianxun.engine.example_library import open_library
from qianxun.engine.settings import load
from qianxun.examples.importing import import_file
from qianxun.examples.library import ExampleLibrary
from qianxun.samples import EXAMPLES

HERE = Path(__file__).resolve().parent


def graph_over(library: ExampleLibrary) -> Any:
    """The flow of flow.yaml, with the retrieval node over this library."""
    functions = {
        "query_understanding": query_understanding,
        "retrieval_node": make_retrieval_node(library),
        "prompt_assembly": prompt_assembly,
    }
    return GraphBuilder(functions).build(HERE / "flow.yaml").compile()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question")
    parser.add_argument("--data", help="数据文件夹")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with open_library(load(arguments={"data": options.data})) as library:
        try:
            import_file(EXAMPLES, library.store)  # what is there already is passed over
        except ModelError as error:
            logging.warning("示例没有导入：%s", error)
        ended = graph_over(library).invoke({"history_messages": [HumanMessage(options.question)]})
    sys.stdout.write(ended["prompt_vars"]["prompt"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
