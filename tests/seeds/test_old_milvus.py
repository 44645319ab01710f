"""The real server of Milvus 2.3.5, before sparse vectors: the document's client works on it, an index is refused.

It comes as a wheel in an environment of its own (`make .venv-milvus/.installed`), and listens on every address of the
machine: run it where that does no harm.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from qianxun import MilvusClient
from qianxun.core.errors import RetrieverUnavailable
from qianxun.index.milvus.index import create
from qianxun.testing.index_material import STAMP, unit
from tests.seeds.test_milvus_client import DIMENSION, chunk

PYTHON = Path(__file__).resolve().parents[2] / ".venv-milvus" / "bin" / "python"
SERVE = """
import sys
from milvus import MilvusServer
server = MilvusServer()
server.set_base_dir(sys.argv[1])
server.listen_port = int(sys.argv[2])
server.start()
print("started", flush=True)
sys.stdin.read()
server.stop()
"""

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not PYTHON.exists(), reason="没有 Milvus 2.3.5：make .venv-milvus/.installed"),
]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = int(free.getsockname()[1])
    server = subprocess.Popen(
        [PYTHON, "-c", SERVE, tmp_path_factory.mktemp("milvus"), str(number)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert server.stdin is not None
    assert server.stdout is not None
    assert b"started" in server.stdout.readline()
    yield number
    server.stdin.close()
    server.wait(60)
    server.stdout.close()


def test_the_client_of_the_document_works_on_it(port: int) -> None:
    client = MilvusClient("127.0.0.1", port, dimension=DIMENSION)
    hostile = ['"', '" or 1==1', "x' OR '1'='1", "\\", '"] or id in ["d0_0', "发票\n", "🧧"]
    client.insert([chunk(at, f"d{at}", user_id=text) for at, text in enumerate(hostile)])
    for at, text in enumerate(hostile):
        assert [hit[0] for hit in client.search(unit(1, DIMENSION), 50, {"user_id": text})] == [f"d{at}_{at}"]
    client.insert([chunk(1, "d1", "薛宝钗")])
    assert client.search(unit(1, DIMENSION), 1)[0][2]["chunk_text"] == "薛宝钗"
    client.delete_by_document_id("d1")
    assert "d1_1" not in {hit[0] for hit in client.search(unit(1, DIMENSION), 50)}
    assert len(client.search(unit(1, DIMENSION), 50)) == len(hostile) - 1
    client.close()


def test_an_index_is_refused_in_a_sentence(port: int) -> None:
    backend = create(f"http://127.0.0.1:{port}")
    for work in (backend.build(1, STAMP), backend.open(1, STAMP)):
        with pytest.raises(RetrieverUnavailable, match=r"2\.3\.5.*太旧") as refused:
            asyncio.run(work)  # type: ignore[arg-type]
        assert "2.5" in refused.value.hint
