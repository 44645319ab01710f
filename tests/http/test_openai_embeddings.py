"""OpenAI's own client asks the service for models and vectors."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import openai
import pytest

from qianxun.core.model_types import NewModel
from qianxun.core.types import Document, Vector, Vectors
from qianxun.doors.http.openai.embeddings import TEXTS_LIMIT
from qianxun.testing.scripted import HashEmbedding
from tests.http.openai_doors import Doors, doors
from tests.http.served import MODEL
from tests.http.vendor import DIMENSION, vendor

TEXTS = ["住院费用的报销比例为85%。", "门诊报销需要发票原件。", "ＡＢＣ１２３"]
PREFIX = "为这个句子生成表示："


class Prefixed(HashEmbedding):
    """A model that wants a prefix before a question, as many do."""

    def embed_query(self, text: str) -> Vector:
        return super().embed_query(PREFIX + text)


PREFIXED = Prefixed(32, "prefixed")


@pytest.fixture(scope="module")
def at(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with vendor() as sold:
        here = tmp_path_factory.mktemp("service")
        told = {"outbound.allow": [sold.address], "vectorization.model_home": str(here / "models")}
        with doors(here, told, HashEmbedding(), PREFIXED) as made:
            made.base("医保")
            made.base("部门/制度", model=PREFIXED.name)
            made.base("只有词语", model="none")
            made.base("别人的", tenant="乙")
            new = NewModel("嵌入", sold.url, "embedding", "embedding", model_dim=DIMENSION)
            made.run(made.served.engine.of("乙").registry.add("u1", new))
            yield made


def rows(model: HashEmbedding, texts: Sequence[str], *, as_query: bool = False) -> np.ndarray:
    return np.stack([model.embed_query(each) for each in texts]) if as_query else model.embed_passages(texts)


# ── models ───────────────────────────────────────────────────────────────────────────────────────


def test_the_models_are_the_bases_and_what_embeds(at: Doors) -> None:
    client = at.client()
    listed = {each.id: each for each in client.models.list()}
    assert {"医保", "部门/制度", "只有词语", MODEL, PREFIXED.name} <= set(listed)
    assert "别人的" not in listed
    assert not any(each.startswith("user-model:") for each in listed)
    for name, told in listed.items():
        assert client.models.retrieve(name) == told
    number = str(listed["医保"].model_extra["knowledge_base_id"])  # type: ignore[index]
    assert client.models.retrieve(number).id == "医保"
    assert listed["医保"].created > 1_700_000_000
    with pytest.raises(openai.NotFoundError, match="别人的"):
        client.models.retrieve("别人的")
    client = at.client("乙")
    theirs = [each.id for each in client.models.list()]
    assert theirs[0] == "别人的"
    assert [each for each in theirs if each.startswith("user-model:")] == theirs[-1:]


# ── vectors ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("encoding", ["float", "base64", None])
@pytest.mark.parametrize(
    ("name", "model"), [(MODEL, HashEmbedding()), ("医保", HashEmbedding()), ("部门/制度", PREFIXED)]
)
def test_the_vectors_are_the_engines_own(at: Doors, name: str, model: HashEmbedding, encoding: str | None) -> None:
    client = at.client()
    asked = {} if encoding is None else {"encoding_format": encoding}
    answer = client.embeddings.create(model=name, input=TEXTS, **asked)  # type: ignore[arg-type]
    assert (answer.object, answer.model) == ("list", model.name)
    assert [each.index for each in answer.data] == [0, 1, 2]
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 20
    told = [
        np.frombuffer(base64.b64decode(each.embedding), "<f4") if encoding == "base64" else np.array(each.embedding)  # type: ignore[arg-type]
        for each in answer.data
    ]
    assert np.allclose(np.stack(told), rows(model, TEXTS), atol=1e-6)


def test_a_client_that_awaits_is_told_the_same(at: Doors) -> None:
    answer = at.awaited(lambda client: client.embeddings.create(model=MODEL, input=TEXTS[0], dimensions=64))
    assert np.allclose(answer.data[0].embedding, rows(HashEmbedding(), TEXTS[:1])[0], atol=1e-6)


def test_a_query_is_embedded_as_one(at: Doors) -> None:
    client = at.client()
    for told, as_query in ((None, False), ("document", False), ("query", True), ("search_query", True)):
        asked = {"extra_body": {"input_type": told, "truncate": "END"}} if told else {}
        answer = client.embeddings.create(model=PREFIXED.name, input=TEXTS, **asked)  # type: ignore[arg-type]
        assert np.allclose(
            [each.embedding for each in answer.data], rows(PREFIXED, TEXTS, as_query=as_query), atol=1e-6
        )


def test_many_texts_are_embedded_in_their_order(at: Doors) -> None:
    texts = [f"第{number}条" for number in range(150)]
    client = at.client()
    answer = client.embeddings.create(model=MODEL, input=texts)
    assert np.allclose([each.embedding for each in answer.data], rows(HashEmbedding(), texts), atol=1e-6)


class Held(HashEmbedding):
    """A model that is at a text until it is let go."""

    def __init__(self) -> None:
        super().__init__(32, "held")
        self.is_at_it, self.is_let_go = threading.Event(), threading.Event()

    def embed_passages(self, texts: Sequence[str]) -> Vectors:
        if "很多" in texts:
            self.is_at_it.set()
            assert self.is_let_go.wait(120)
        return super().embed_passages(texts)


def test_who_embeds_much_keeps_no_search_waiting(tmp_path: Path) -> None:
    held = Held()
    told = {"service.recalls_at_once": 1, "service.recalls_waiting": 0}
    with doors(tmp_path, told, held) as here, ThreadPoolExecutor(1) as beside:
        here.base("医保", Document("a", "住院费用报销比例为85%。"), model=held.name)
        here.key()
        embedding = beside.submit(here.client().embeddings.create, model="医保", input="很多")
        try:
            assert held.is_at_it.wait(120)
            found = here.plain("POST", "vector_stores/医保/search", {"query": "住院报销"})
            assert [each["file_id"] for each in found.json()["data"]] == ["a"], found.text
        finally:
            held.is_let_go.set()
        assert len(embedding.result(120).data) == 1


def test_a_registered_model_embeds_for_its_tenant_alone(at: Doors) -> None:
    client = at.client("乙")
    (ref,) = [each.id for each in client.models.list() if each.id.startswith("user-model:")]
    answer = client.embeddings.create(model=ref, input=TEXTS)
    assert (answer.model, len(answer.data[0].embedding)) == (ref, DIMENSION)
    client = at.client()
    told = []
    for name in (ref, "user-model:999999"):
        with pytest.raises(openai.NotFoundError) as raised:
            client.embeddings.create(model=name, input=TEXTS)
        told.append(str(raised.value).replace(name.removeprefix("user-model:"), "N"))
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"input": [1, 2, 3]}, "input"),
        ({"input": [[1, 2], [3]]}, "input"),
        ({"input": []}, "input"),
        ({"input": ""}, "input.0"),
        ({"input": ["a", ""]}, "input.1"),
        ({"input": ["a"] * (TEXTS_LIMIT + 1)}, "input"),
        ({"input": "a", "dimensions": 3}, "dimensions"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "extra_body": {"input_type": "classification"}}, "input_type"),
    ],
)
def test_what_cannot_be_embedded_is_a_bad_request(at: Doors, body: dict[str, object], param: str) -> None:
    client = at.client()
    with pytest.raises(openai.BadRequestError) as raised:
        client.embeddings.create(model=MODEL, **body)  # type: ignore[arg-type]
    assert (raised.value.param, raised.value.code, raised.value.type) == (param, "validation", "invalid_request_error")


@pytest.mark.parametrize("name", ["没有", "none", "sentence-transformers:any/model", "bge-large-zh-v1.5", "别人的"])
def test_a_model_that_is_not_at_hand_is_not_found(at: Doors, name: str) -> None:
    """Nor is any model of the world fetched because somebody names it."""
    client = at.client()
    with pytest.raises(openai.NotFoundError, match="/v1/models"):
        client.embeddings.create(model=name, input="a")


def test_a_base_without_vectors_says_so(at: Doors) -> None:
    client = at.client()
    with pytest.raises(openai.BadRequestError, match="没有向量"):
        client.embeddings.create(model="只有词语", input="a")


def test_keys_are_wanted_and_errors_have_both_forms(at: Doors) -> None:
    client = at.client(key="qx_" + "A" * 43)
    with pytest.raises(openai.AuthenticationError):
        client.models.list()
    with pytest.raises(openai.AuthenticationError):
        client.embeddings.create(model=MODEL, input="a")
    told = at.plain("POST", "embeddings", {"model": "没有", "input": "a"})
    said = told.json()
    assert (told.status_code, said["code"], said["data"]) == (404, 404, None)
    assert said["error"] == {
        "message": said["msg"],
        "type": "invalid_request_error",
        "param": None,
        "code": "not_found",
    }
