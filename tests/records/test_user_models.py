"""Registered models as rows, and their keys as nobody can read them."""

from __future__ import annotations

import base64
import os
import stat
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from sqlalchemy.exc import DBAPIError

from qianxun.core.errors import BadInput, BadSettings, MissingExtra, NotFound
from qianxun.core.model_types import NewModel, UserModel, check_key
from qianxun.records import Records, bases
from qianxun.records.secrets import user_models
from qianxun.records.secrets.sealing import Sealing
from qianxun.records.secrets.user_models import SealedKey, checked, masked
from tests.records.stored_bytes import stored_bytes

CANARY = "sk-canary-0123456789abcdef"
NO_KEY = SealedKey(None, "")
ROW = ("user_models", "甲", "1")


def new(**told: Any) -> dict[str, Any]:
    about = {"config_name": "我的", "base_url": "https://example.com/v1", "model_name": "bge", "model_type": "rerank"}
    return checked(asdict(NewModel(**(about | told))))


def add(records: Records, tenant: str = "甲", user: str = "7", key: SealedKey = NO_KEY, **told: Any) -> UserModel:
    with records.writing() as tx:
        return user_models.add(tx, tenant, user, user_models.next_id(tx), new(**told), key)


def change(records: Records, number: int, key: SealedKey | None = None, user: str = "7", **told: Any) -> UserModel:
    with records.writing() as tx:
        return user_models.change(tx, "甲", user, number, checked(told), key)


def default(records: Records, user: str = "7", model_type: str = "rerank") -> int | None:
    with records.reading() as tx:
        found = user_models.default(tx, "甲", user, model_type)
    return None if found is None else found.id


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_model_is_seen_by_its_own_user_and_tenant_alone(records: Records) -> None:
    one = add(records)
    with records.reading() as tx:
        assert user_models.get(tx, "甲", one.id, "7") == one
        assert user_models.every(tx, "甲", "7", "rerank") == [one]
        for tenant, user in (("甲", "8"), ("乙", "7"), ("乙", None)):
            with pytest.raises(NotFound):
                user_models.get(tx, tenant, one.id, user)
        assert user_models.every(tx, "乙") == user_models.every(tx, "甲", "8") == []
        assert user_models.every(tx, "甲", "7", "chat") == []
    for work in (user_models.remove, lambda *row: user_models.change(*row, {"status": 0}, None)):
        for tenant, user in (("甲", "8"), ("乙", "7")):
            with records.writing() as tx, pytest.raises(NotFound):
                work(tx, tenant, user, one.id)
    with records.reading() as tx:
        assert user_models.get(tx, "甲", one.id) == one


@pytest.mark.parametrize("number", [0, -1, 99, 1 << 70])
def test_a_number_that_nobody_has_is_not_found(records: Records, number: int) -> None:
    with records.reading() as tx, pytest.raises(NotFound):
        user_models.get(tx, "甲", number)


def test_a_number_is_never_used_again(records: Records) -> None:
    one = add(records)
    with records.writing() as tx:
        user_models.remove(tx, "甲", "7", one.id)
    assert add(records).id > one.id


def test_there_is_one_default_of_a_user_and_type(records: Records) -> None:
    one, two = add(records, is_default=1), add(records)
    other_type, other_user = add(records, model_type="chat", is_default=1), add(records, user="8", is_default=1)
    assert default(records) == one.id
    change(records, two.id, is_default=1)
    assert (default(records), default(records, model_type="chat")) == (two.id, other_type.id)
    assert default(records, user="8") == other_user.id
    three = add(records, is_default=1)
    with records.reading() as tx:
        assert [each.id for each in user_models.every(tx, "甲", "7", "rerank") if each.is_default] == [three.id]
    change(records, three.id, is_default=0)
    assert default(records) is None


def test_every_change_makes_another_version(records: Records) -> None:
    one = add(records)
    versions = []
    for told in ({"status": 0}, {"status": 0}, {"timeout": 5}):
        change(records, one.id, **told)
        with records.reading() as tx:
            versions.append(user_models.stored(tx, "甲", one.id).version)
    assert versions == [2, 3, 4]


def test_a_change_makes_kept_answers_of_the_tenant_old_and_of_no_other(records: Records) -> None:
    with records.writing() as tx:
        own, foreign = (bases.create(tx, "库", tenant=tenant).id for tenant in ("甲", "乙"))

    def generations() -> tuple[int, int]:
        with records.reading() as tx:
            return bases.generation(tx, own), bases.generation(tx, foreign)

    seen = [generations()]
    one = add(records, is_default=1)
    seen.append(generations())
    change(records, one.id, status=0)
    seen.append(generations())
    with records.writing() as tx:
        user_models.remove(tx, "甲", "7", one.id)
    seen.append(generations())
    assert len({first for first, _ in seen}) == 4
    assert len({second for _, second in seen}) == 1


def test_a_key_is_not_sent_to_another_address_than_it_was_given_for(records: Records) -> None:
    one = add(records, key=SealedKey(b"sealed", "…"))
    with pytest.raises(BadInput, match="api_key"):
        change(records, one.id, base_url="https://elsewhere.example/v1")
    change(records, one.id, base_url=one.base_url, status=1)  # the same address is no change
    change(records, one.id, NO_KEY, base_url="https://elsewhere.example/v1")
    change(records, one.id, base_url="https://example.com/v1")  # there is no key any more


def test_the_type_stays(records: Records) -> None:
    one = add(records)
    with pytest.raises(BadInput, match="model_type"):
        change(records, one.id, model_type="chat")
    assert change(records, one.id, model_type="rerank").model_type == "rerank"


def test_the_model_behind_a_bases_vectors_stays_what_it_is(records: Records) -> None:
    one = add(records, model_type="embedding", model_dim=16)
    change(records, one.id, model_dim=8)
    with records.writing() as tx:
        bases.create(tx, "医保", tenant="甲", embedding_model=one.ref, dimension=8)
    for told in ({"model_dim": 16}, {"model_name": "别的"}):
        with pytest.raises(BadInput, match="医保"):
            change(records, one.id, **told)
    assert change(records, one.id, timeout=5, model_dim=8).timeout == 5


def test_an_embedding_model_has_a_dimension(records: Records) -> None:
    with pytest.raises(BadInput, match="model_dim"):
        add(records, model_type="embedding")
    one = add(records, model_type="embedding", model_dim=8)
    with pytest.raises(BadInput, match="model_dim"):
        change(records, one.id, model_dim=0)


def test_a_user_has_so_many_models_at_most(records: Records, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_models, "MOST_OF_A_USER", 2)
    add(records), add(records), add(records, user="8"), add(records, tenant="乙")
    with pytest.raises(BadInput, match="2 个"):
        add(records)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("config_name", ""), ("config_name", " "), ("config_name", "名" * 201), ("config_name", "一\n二"),
        ("config_name", 7), ("base_url", "https://" + "a" * 2048), ("model_name", "\x00"), ("model_name", None),
        ("model_type", "oracle"), ("model_type", 7), ("model_dim", -1), ("model_dim", 65_537), ("model_dim", 1.5),
        ("model_dim", "16"), ("max_tokens", 10**30), ("temperature", 2.1), ("temperature", float("nan")),
        ("temperature", float("inf")), ("top_p", 0), ("top_p", 1.01), ("timeout", 0), ("timeout", 601),
        ("status", 2), ("is_default", -1), ("timeout", None), ("没有", 1), ("id", 1), ("tenant", "乙"),
        ("sealed_key", b""), ("version", 1),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_and_the_field_is_named(name: str, value: Any) -> None:
    with pytest.raises(BadInput, match=name):
        checked({name: value})


def test_values_are_kept_in_their_types() -> None:
    told = checked({"config_name": " 我的 ", "timeout": 30.0, "temperature": 1, "is_default": True, "top_p": 1})
    assert told == {"config_name": "我的", "timeout": 30, "temperature": 1.0, "is_default": 1, "top_p": 1.0}
    assert [type(told[name]) for name in ("timeout", "temperature", "is_default")] == [int, float, int]


# ── keys ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("key", "shown"),
    [("", ""), ("short", "…"), ("a" * 15, "…"), ("b" * 12 + "wxyz", "…wxyz"), (CANARY, "sk-…cdef")],
)
def test_a_mask_shows_the_end_of_a_long_key_and_nothing_of_a_short_one(key: str, shown: str) -> None:
    assert masked(key) == shown


def test_a_mask_sent_back_is_no_key() -> None:
    for mask in (masked(CANARY), masked("short")):
        with pytest.raises(BadInput, match="api_key"):
            check_key(mask)


@pytest.mark.parametrize("key", ["芝麻开门", "a b", "a\nb", "a\x00b", "k" * 4097, 7, None, "\ud800"])
def test_an_impossible_key_is_refused_without_being_shown(key: Any) -> None:
    with pytest.raises(BadInput, match="api_key") as refused:
        check_key(key)
    assert not isinstance(key, str) or key not in str(refused.value)


def test_a_key_loses_the_space_around_it() -> None:
    assert check_key(f" {CANARY}\n") == CANARY


def test_a_key_shows_in_no_repr() -> None:
    told = NewModel("甲", "https://example.com", "m", "chat", CANARY)
    assert CANARY not in repr(told)
    assert b"sealed" not in repr(SealedKey(b"sealed", "…")).encode()
    assert CANARY not in repr(Sealing(CANARY, Path("secret.key")))


@pytest.mark.parametrize("secret", ["", "一句口令"])
def test_what_is_sealed_opens_again_for_its_row_alone(tmp_path: Path, secret: str) -> None:
    sealing = Sealing(secret, tmp_path / "secret.key")
    sealed = sealing.seal(CANARY, ROW)
    assert sealing.open(sealed, ROW) == CANARY
    assert Sealing(secret, tmp_path / "secret.key").open(sealed, ROW) == CANARY  # the next process
    assert sealing.seal(CANARY, ROW) != sealed
    for other in (("user_models", "乙", "1"), ("user_models", "甲", "2"), ("user_models", "甲1", ""), ()):
        with pytest.raises(BadSettings, match="解不开"):
            sealing.open(sealed, other)


def test_a_changed_bit_is_noticed(tmp_path: Path) -> None:
    sealing = Sealing("", tmp_path / "secret.key")
    sealed = sealing.seal(CANARY, ROW)
    for place in (2 + 16, 2 + 16 + 12, len(sealed) - 1):
        torn = bytearray(sealed)
        torn[place] ^= 1
        with pytest.raises(BadSettings):
            sealing.open(bytes(torn), ROW)
    for torn in (b"", b"\x01", sealed[:30], b"\x02" + sealed[1:], sealed[:1] + b"s" + sealed[2:]):
        with pytest.raises(BadSettings):
            sealing.open(bytes(torn), ROW)


def test_another_passphrase_is_a_clear_error(tmp_path: Path) -> None:
    sealed = Sealing("旧口令", tmp_path / "secret.key").seal(CANARY, ROW)
    with pytest.raises(BadSettings, match=r"secrets\.key") as wrong:
        Sealing("新口令", tmp_path / "secret.key").open(sealed, ROW)
    assert CANARY not in str(wrong.value)
    assert "口令" not in str(wrong.value).replace("现在的口令", "")
    with pytest.raises(BadSettings, match="没有设置"):
        Sealing("", tmp_path / "secret.key").open(sealed, ROW)


def test_what_the_file_sealed_still_opens_once_there_is_a_passphrase(tmp_path: Path) -> None:
    sealed = Sealing("", tmp_path / "secret.key").seal(CANARY, ROW)
    assert Sealing("新口令", tmp_path / "secret.key").open(sealed, ROW) == CANARY


def test_the_key_file_is_its_owners_alone_and_made_only_when_needed(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    sealing = Sealing("", file)
    assert not file.exists()
    sealed = sealing.seal(CANARY, ROW)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["secret.key"]
    file.chmod(0o640)
    with pytest.raises(BadSettings, match="chmod 600"):
        sealing.open(sealed, ROW)
    file.unlink()
    with pytest.raises(BadSettings, match="不见了"):
        sealing.open(sealed, ROW)
    assert not file.exists()  # a lost key is not replaced in silence


def test_a_key_file_that_is_a_link_or_rubbish_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "secret.key"
    Sealing("", tmp_path / "real.key").seal(CANARY, ROW)
    file.symlink_to(tmp_path / "real.key")
    with pytest.raises(BadSettings):
        Sealing("", file).seal(CANARY, ROW)
    file.unlink()
    for rubbish in (b"", b"short", b"\xff" * 44, "口令".encode()):
        file.write_bytes(rubbish)
        file.chmod(0o600)
        with pytest.raises(BadSettings, match="内容不对"):
            Sealing("", file).seal(CANARY, ROW)


def test_a_folder_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="不能建立"):
        Sealing("", tmp_path / "nowhere" / "secret.key").seal(CANARY, ROW)


def test_all_who_come_first_at_once_have_the_same_key(tmp_path: Path) -> None:
    sealed: list[bytes] = []
    start = threading.Barrier(8)

    def seal() -> None:
        start.wait()
        sealed.append(Sealing("", tmp_path / "secret.key").seal(CANARY, ROW))

    threads = [threading.Thread(target=seal) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {Sealing("", tmp_path / "secret.key").open(each, ROW) for each in sealed} == {CANARY}
    assert len(sealed) == 8
    assert os.listdir(tmp_path) == ["secret.key"]


def test_without_cryptography_the_extra_is_named_and_the_rest_works(tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["cryptography"] = None
from pathlib import Path
from qianxun.core.errors import MissingExtra
from qianxun.records.secrets.sealing import Sealing
import qianxun.models.registry
try:
    Sealing("", Path({str(tmp_path)!r}) / "secret.key").seal("k", ("a",))
except MissingExtra as error:
    sys.stdout.write(str(error))
"""
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert told == str(MissingExtra("cryptography", "service"))


def test_a_key_is_in_no_file_of_the_database_and_in_none_of_its_errors(records: Records, tmp_path: Path) -> None:
    sealing = Sealing("", tmp_path / "secret.key")
    with records.writing() as tx:
        number = user_models.next_id(tx)
    key = SealedKey(sealing.seal(CANARY, ("user_models", "甲", str(number))), masked(CANARY))
    with records.writing() as tx:
        user_models.add(tx, "甲", "7", number, new(), key)
    with pytest.raises(DBAPIError) as twice, records.writing() as tx:
        user_models.add(tx, "甲", "7", number, new(config_name="机密的名字"), key)
    assert "机密的名字" not in str(twice.value)
    with records.writing() as tx:
        user_models.remove(tx, "甲", "7", number)
    found = stored_bytes(records, tmp_path)
    for form in (CANARY, quote(CANARY), CANARY.encode().hex(), base64.b64encode(CANARY.encode()).decode()[:20]):
        assert form.encode() not in found
    assert b"user_models" in found
