"""An upload whose client gave up, to a service that is then killed with SIGKILL, is found in the next one."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.http.served import BASES, Running, running

LINES = 20_000  # of a text that takes a while to be read
MARKED = "住院费用在职职工报销比例为八成五"


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 300
    while not holds():
        assert time.monotonic() < ends, "it never came to that"
        time.sleep(0.002)


def upload(url: str, documents: str, file: Path, seconds: float) -> int:
    """The status of the answer; 0 where the client did not wait for it, or the service went."""
    try:
        with file.open("rb") as opened, httpx.Client(base_url=url, timeout=seconds, trust_env=False) as http:
            return http.post(documents, files={"file": (file.name, opened)}).status_code
    except httpx.TransportError:
        return 0


def kill(service: Running) -> None:
    service.process.send_signal(signal.SIGKILL)
    service.process.wait(60)


@pytest.mark.long
@pytest.mark.parametrize("has_left", [True, False])
def test_what_was_received_is_read_after_the_kill(tmp_path: Path, has_left: bool) -> None:
    """``has_left``: the client gives up while the file is read, and only then the service is killed."""
    data, file = tmp_path / "data", tmp_path / "手册.txt"
    file.write_text("\n".join(f"第{number}条　门诊费用按目录报销。" for number in range(LINES)) + MARKED, "utf-8")
    with running(data) as service, ThreadPoolExecutor(1) as clients:
        base = httpx.post(f"{service.url}{BASES}", json={"name": "医保", "embedding_model": "none"}, trust_env=False)
        number = base.json()["data"]["id"]
        documents = f"{BASES}/{number}/documents"
        asked: Future[int] = clients.submit(upload, service.url, documents, file, 0.5 if has_left else 300.0)
        until(lambda: any((data / "inbox").glob("*.json")))  # before there is one nothing has been received
        if has_left:
            assert asked.result() == 0, "it was answered before its client left"
        kill(service)
        assert asked.result() == 0, "it was answered before the kill"
    with running(data) as service, httpx.Client(base_url=service.url, timeout=300, trust_env=False) as http:

        def found() -> bool:
            answer = http.post(f"/v1/retrieval/{number}", json={"query": MARKED})
            return any(MARKED in chunk["content"] for chunk in answer.json()["data"]["chunks"])

        until(found)
        (listed,) = http.get(documents).json()["data"]["documents"]
        assert (listed["name"], listed["status"]) == ("手册.txt", "indexed")
        until(lambda: not any((data / "inbox").glob("*")))
