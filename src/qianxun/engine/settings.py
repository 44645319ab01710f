"""Settings: the only reader of files and environment.

Later sources win: built-in defaults, then a YAML or JSON file, then environment variables, then arguments. Each value
remembers where it came from; `qianxun doctor` shows it.

File (the seed's form; the outer ``rag:`` may be left out)::

    rag:
      vectorization: {model: bge-small-zh-v1.5}
      chunking: {chunk_size: 500, chunk_overlap: 50}
      search: {top_k: 10, semantic_weight: 0.6, keyword_weight: 0.4}

The layered engines may also stand where the seed has them: ``rag_system.retrieval_strategy.text_engine``.

Environment: ``QIANXUN_`` + section + ``_`` + key, in capitals: ``QIANXUN_CHUNKING_CHUNK_SIZE=300``.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from qianxun.core.errors import BadSettings
from qianxun.core.layered_options import CHOICES, ENGINES
from qianxun.core.layered_options import TableEngine as TableEngine
from qianxun.core.layered_options import TextEngine as TextEngine

FILE_NAMES = ("qianxun.yaml", "qianxun.yml", "qianxun.json")
PREFIX = "QIANXUN_"
SEED_OUTER, SEED_INNER = "rag_system", "retrieval_strategy"
PARTED_BY_COMMAS = (
    "outbound.allow",
    "examples.tables",
    "service.trusted_proxies",
    "service.cors_origins",
    "access.algorithms",
)
TRUTH = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


@dataclass(frozen=True, slots=True)
class Vectorization:
    model: str = "bge-small-zh-v1.5"  # "none": zero-model mode, words and characters only
    batch_size: int = 32
    device: str = "cpu"
    threads: int = 0  # 0: all cores
    model_folders: tuple[str, ...] = ()  # looked through first
    model_home: str = "~/.cache/qianxun/models"  # where `models pull` puts files
    base_url: str = ""  # an OpenAI-compatible endpoint; then `model` is its model name
    api_key: str = field(default="", repr=False)
    dimension: int = 0  # of the endpoint's vectors
    timeout_seconds: float = 30.0
    calibration_midpoint: float = 0.0  # with a slope above zero: in place of the model card's calibration
    calibration_slope: float = 0.0


@dataclass(frozen=True, slots=True)
class Chunking:
    chunk_size: int = 500
    chunk_overlap: int = 50
    by_meaning: bool = False


@dataclass(frozen=True, slots=True)
class Search:
    top_k: int = 10
    semantic_weight: float = 0.0  # both 0: as fits the base (the more alike its chunks, the more words count)
    keyword_weight: float = 0.0
    fusion: str = "weighted"  # weighted | min_max | rrf
    rerank: str = ""  # "maxsim", a reranker's card, or the name of the endpoint in `rerank`; "": none
    enable_rerank: bool = False  # true: with `rerank`, or else that of `rerank.model`, or "maxsim"; false: with none
    fuzzy: bool = True  # results that are alike or share a word, not only sure ones; guesses at mistyped words
    arms: tuple[str, ...] = ()  # arms of other packages that take part in searches; "-qa": without this one of ours
    bm25_k1: float = 0.4  # how soon a repeated word stops counting; with another value a search takes longer
    bm25_b: float = 0.75  # how much the length of a chunk counts
    arm_seconds: float = 10.0  # the deadline of each arm
    rerank_seconds: float = 10.0  # after which the fused order is returned
    rewrite_seconds: float = 10.0
    cache_entries: int = 1000  # answers cached in memory; 0: none
    cache_seconds: float = 3600.0  # at least; longer for a base that has not changed for longer: `cache.most_seconds`


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """Answers of searches and scores of rerankers in a server that several processes share."""

    url: str = field(default="", repr=False)  # redis://user:password@host:6379/0; "": in the memory of each process
    most_seconds: float = 86_400.0  # for which an answer is cached at most, while its base does not change


@dataclass(frozen=True, slots=True)
class EventSettings:
    """Document events from a Redis or Valkey stream. Without ``url`` there are none."""

    url: str = field(default="", repr=False)  # redis://user:password@host:6379/0
    stream: str = "qianxun:events"
    group: str = "qianxun"


@dataclass(frozen=True, slots=True)
class ExampleSettings:
    """The example library, in the database of record."""

    prefix: str = "gd2502_"  # of its tables
    tables: tuple[str, ...] = ()  # searched, "policy_examples=8" with so many of it; others than the four are made
    top_k_per_table: int = 5
    global_top_k: int = 15
    similarity_threshold: float = 0.7
    min_results: int = 5  # with fewer the threshold is lowered: .6, then .5
    by_intent: bool = False  # only the tables that a question seems meant for
    hybrid: bool = False  # the words of a question count beside its vector
    cache_seconds: float = 3600.0  # for which an answer is cached; 0: not at all


@dataclass(frozen=True, slots=True)
class RerankSettings:
    """A reranker in the Cohere or Jina form. Without ``base_url`` there is none."""

    base_url: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    timeout_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class ChatSettings:
    """An OpenAI-compatible language model, for bases with a ``rewrite_model`` or ``qa_model`` of this name."""

    base_url: str = ""
    model: str = ""
    api_key: str = field(default="", repr=False)
    timeout_seconds: float = 60.0
    max_tokens: int = 0  # of a reply; 0: as many as the service gives


@dataclass(frozen=True, slots=True)
class GraphSettings:
    lexicon: str = ""  # a TOML file of a domain's types and relations; "": the shipped one, of medicine


@dataclass(frozen=True, slots=True)
class LogSettings:
    keep_days: float = 30.0
    keep_rows: int = 100_000


@dataclass(frozen=True, slots=True)
class IndexSettings:
    backend: str = "embedded"  # or "postgres", with pgvector; or "milvus"
    url: str = field(default="", repr=False)  # of a PostgreSQL database for the index; "": that of the records
    exact_limit: int = 50_000  # up to so many vectors a base is searched exactly
    lease_seconds: float = 10.0  # after which a process takes over the indexing of another that shows no life


@dataclass(frozen=True, slots=True)
class MilvusSettings:
    """A Milvus server, for the index backend of that name and for `qianxun.MilvusClient`."""

    host: str = "localhost"  # https://… for a server that wants TLS
    port: int = 19530
    user: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class RecordsSettings:
    # postgresql:// or mysql://user:password@host/database; "": SQLite in the data folder
    url: str = field(default="", repr=False)
    schema: str = ""  # of a PostgreSQL database, created where it is missing; "": as the server has it
    pool_size: int = 10  # connections of one process to a database server
    connect_seconds: float = 5.0  # to wait for a connection
    statement_seconds: float = 30.0  # after which a reading statement is given up


@dataclass(frozen=True, slots=True)
class Parsing:
    workers: int = 2
    file_megabytes: int = 200
    characters: int = 20_000_000  # of one document
    seconds: float = 120.0
    ocr: bool = True


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    host: str = "127.0.0.1"  # any other address wants keys: `qianxun keys create`
    port: int = 8000
    body_megabytes: int = 16  # of a JSON body; files are bounded by parsing.file_megabytes
    recalls_at_once: int = 0  # searches that run side by side; 0: as fits the cores
    recalls_waiting: int = 256  # … and wait for their turn; beyond, 503
    request_seconds: float = 60.0  # after which a search or a model test is given up
    answers_at_once: int = 32  # which mostly wait for their model; as many may wait for a turn as of searches
    answer_seconds: float = 300.0  # after which an answer is given up, streamed or not
    close_seconds: float = 30.0  # for what was accepted to be finished when the service stops
    drain_seconds: float = 0.0  # after SIGTERM: so long it serves on and says that it is not ready, then it stops
    background: bool = True  # index, learn and build graphs here; False: leave it to `qianxun worker`
    connections: int = 0  # that may be open; 0: as many as there are descriptors for
    connections_per_address: int = 0  # 0: half of them
    trusted_proxies: tuple[str, ...] = ()  # addresses and networks whose X-Forwarded-For counts
    cors_origins: tuple[str, ...] = ()  # of web pages that browsers let call the service; "*": all


@dataclass(frozen=True, slots=True)
class Outbound:
    """Where the models that users register may answer. The endpoints of these settings are the operator's own."""

    allow: tuple[str, ...] = ()  # private hosts, addresses or networks, with or without a port: 127.0.0.1:11434


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Who asks: the principal of local doors, and tokens of an OpenID Connect issuer. Without ``issuer`` no token
    counts."""

    principal: str = ""  # of `qianxun mcp`: user:alice,group:财务; "": the owner, who sees everything
    issuer: str = ""  # as its tokens have it: https://login.example.com/realms/main
    audience: str = ""  # whom its tokens are for; needed with an issuer
    jwks_url: str = ""  # where its keys are; a private address must be in `outbound.allow`
    jwks_file: str = ""  # the same in a file, in its place
    algorithms: tuple[str, ...] = ("RS256", "ES256")  # never one with a shared secret
    user_claim: str = "sub"
    groups_claim: str = "groups"
    roles_claim: str = "roles"  # realm_access.roles: a claim within a claim
    tenant: str = "local"  # whose bases tokens open
    tenant_claim: str = ""  # the claim that names the tenant, in its place
    leeway_seconds: float = 30.0  # by which clocks may differ


@dataclass(frozen=True, slots=True)
class Secrets:
    """What registered keys are encrypted with. "": a file in the data folder that only its owner can read."""

    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Settings:
    data: str = "./qianxun-data"
    vectorization: Vectorization = Vectorization()
    chunking: Chunking = Chunking()
    search: Search = Search()
    cache: CacheSettings = CacheSettings()
    events: EventSettings = EventSettings()
    text_engine: TextEngine = field(default_factory=TextEngine)
    table_engine: TableEngine = field(default_factory=TableEngine)
    examples: ExampleSettings = ExampleSettings()
    rerank: RerankSettings = RerankSettings()
    chat: ChatSettings = ChatSettings()
    graph: GraphSettings = GraphSettings()
    log: LogSettings = LogSettings()
    index: IndexSettings = IndexSettings()
    milvus: MilvusSettings = MilvusSettings()
    records: RecordsSettings = RecordsSettings()
    parsing: Parsing = Parsing()
    service: ServiceSettings = ServiceSettings()
    outbound: Outbound = Outbound()
    access: AccessSettings = AccessSettings()
    secrets: Secrets = Secrets()
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)  # "chunking.chunk_size" → where from

    @property
    def folder(self) -> Path:
        return Path(self.data).expanduser()

    def rows(self) -> list[tuple[str, Any, str]]:
        """(name, value, origin) of every setting; secrets are masked."""
        found: list[tuple[str, Any, str]] = []
        for name in names():
            value = _get(self, name)
            shown = "******" if name.endswith(("api_key", "secrets.key", "password")) and value else value
            shown = without_password(value) if name.endswith(".url") else shown
            found.append((name, shown, self.origins.get(name, "默认值")))
        return found


def without_password(url: str) -> str:
    """The address of a database as people may see it: everything between its user and the last @ is left out."""
    before, at, host = url.rpartition("@")
    user = re.search("://[^:/?#]*:", before)
    hidden = f"{before[: user.end()]}******{at}{host}" if user else url
    return re.sub(r"(password=)[^&]*", r"\1******", hidden, flags=re.IGNORECASE)


@cache
def names() -> tuple[str, ...]:
    """Every setting, dotted."""
    every = Settings()
    return ("data", *(f"{section}.{item.name}" for section in _sections() for item in fields(getattr(every, section))))


def _sections() -> list[str]:
    return [item.name for item in fields(Settings) if item.name not in ("data", "origins")]


def _get(settings: Settings, name: str) -> Any:
    section, _, key = name.partition(".")
    part = getattr(settings, section)
    return getattr(part, key) if key else part


def load(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    arguments: Mapping[str, Any] | None = None,
    folder: Path | None = None,
) -> Settings:
    """The settings in force. ``arguments`` are dotted names; those that are None were not given."""
    environment = os.environ if environment is None else environment
    settings = Settings()
    path = file or _find_file(environment, folder or Path.cwd())
    if path is not None:
        for name, value in _flatten(_read_file(path), path).items():
            settings = _with(settings, name, value, f"文件 {path}")
    for name, variable in ((name, variable_of(name)) for name in names()):
        if variable in environment:
            settings = _with(settings, name, environment[variable], f"环境变量 {variable}")
    for name, value in (arguments or {}).items():
        if value is not None:
            settings = _with(settings, name, value, "参数")
    return _with_reranker(settings)


def _with_reranker(settings: Settings) -> Settings:
    """What ``search.enable_rerank`` means, where somebody has set it."""
    if "search.enable_rerank" not in settings.origins:
        return settings
    chosen, endpoint = settings.search, settings.rerank
    rerank = chosen.rerank or (endpoint.model if endpoint.base_url else "") or "maxsim"
    return replace(settings, search=replace(chosen, rerank=rerank if chosen.enable_rerank else ""))


def has_span_endpoint(environment: Mapping[str, str] | None = None) -> bool:
    """Whether OpenTelemetry's own variables say where spans go. Its SDK reads them, and its other ones, itself."""
    environment = os.environ if environment is None else environment
    is_off = environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
    named = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    is_none = environment.get("OTEL_TRACES_EXPORTER", "").lower() == "none"
    return not (is_off or is_none) and any(environment.get(name) for name in named)


def variable_of(name: str) -> str:
    return PREFIX + name.replace(".", "_").upper()


def _find_file(environment: Mapping[str, str], folder: Path) -> Path | None:
    if named := environment.get(PREFIX + "CONFIG"):
        return Path(named)
    return next((folder / name for name in FILE_NAMES if (folder / name).is_file()), None)


def _read_file(path: Path) -> Any:
    import yaml  # most processes have no such file

    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSettings(f"读不了设置文件 {path}：{error}", hint="检查路径与编码（须为 UTF-8）") from error
    try:
        return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (json.JSONDecodeError, yaml.YAMLError) as error:
        raise BadSettings(f"设置文件 {path} 不是合法的 YAML/JSON：{error}", hint="改正该处后重试") from error


def _flatten(content: Any, path: Path) -> dict[str, Any]:
    content = {} if content is None else content
    if isinstance(content, dict) and "rag" in content and set(content) <= {"rag", SEED_OUTER}:
        inner = content["rag"] or {}
        content = {**inner, **_given(content, SEED_OUTER)} if isinstance(inner, dict) else inner
    if not isinstance(content, dict):
        raise BadSettings(f"设置文件 {path} 的最外层应为键值对", hint="参见 docs/operations.md 的示例")
    content = _with_engines(content, path)
    flat: dict[str, Any] = {}
    for section, value in content.items():
        if isinstance(value, dict):
            flat |= {f"{section}.{key}": inner for key, inner in value.items()}
        else:
            flat[str(section)] = value
    return flat


def _given(content: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {name: content[name]} if name in content else {}


def _with_engines(content: dict[str, Any], path: Path) -> dict[str, Any]:
    """The seed's ``rag_system.retrieval_strategy`` has the two layered engines; here they are sections."""
    if SEED_OUTER not in content:
        return content
    engines = content[SEED_OUTER]
    for name, known in ((SEED_OUTER, (SEED_INNER,)), (SEED_INNER, ENGINES)):
        if not isinstance(engines, dict) or set(engines) - set(known):
            raise BadSettings(f"设置文件 {path} 的 {name} 不对", hint=f"其中只能有键值对：{'、'.join(known)}")
        engines = engines.get(SEED_INNER, {}) if name == SEED_OUTER else engines
    if twice := sorted(set(engines) & set(content)):
        raise BadSettings(f"设置文件 {path} 里 {'、'.join(twice)} 写了两处", hint=f"只留 {SEED_OUTER} 之内或之外的一处")
    return {**{name: value for name, value in content.items() if name != SEED_OUTER}, **engines}


def _with(settings: Settings, name: str, value: Any, origin: str) -> Settings:
    section, _, key = name.partition(".")
    if name not in names():
        raise BadSettings(f"没有名为 {name} 的设置（来自{origin}）", hint=f"是否想写：{'、'.join(_nearest(name))}")
    typed = _typed(name, value, _get(Settings(), name), origin)
    bounds = CHOICES.get(name)
    if bounds is not None and not bounds.hold(typed):
        raise BadSettings(f"设置 {name} 的值 {value!r} 不对（来自{origin}）", hint=f"应在 {bounds} 之间")
    origins = {**settings.origins, name: origin}
    if name == "data" and not typed.strip():  # a variable that was never set, say: the current folder was not meant
        raise BadSettings(f"设置 data 是空的（来自{origin}）", hint="写明数据目录，或去掉它：默认是 ./qianxun-data")
    if not key:
        return replace(settings, data=typed, origins=origins)
    part = replace(getattr(settings, section), **{key: typed})
    return replace(settings, **{section: part}, origins=origins)


def _nearest(name: str) -> list[str]:
    """The settings that were probably meant: the same key elsewhere, or the most similar spelling."""
    section, _, key = name.partition(".")
    same = [known for known in names() if known.partition(".")[2] == (key or section)]
    ends = {known.partition(".")[2] or known: known for known in names()}
    near = get_close_matches(name, names(), n=3, cutoff=0.7)
    near += [ends[end] for end in get_close_matches(key or section, ends, n=2, cutoff=0.6)]
    of_section = [known for known in names() if known.startswith(f"{section}.")]
    return list(dict.fromkeys((*same, *near)))[:3] or of_section or get_close_matches(name, names(), n=1, cutoff=0.0)


def _typed(name: str, value: Any, default: Any, origin: str) -> Any:
    """The value in the type of the default; text from the environment is read as such a value."""
    try:
        if isinstance(default, bool):
            return value if isinstance(value, bool) else TRUTH[str(value).strip().lower()]
        if isinstance(default, int):
            if isinstance(value, bool) or (isinstance(value, float) and not value.is_integer()):
                raise ValueError
            return int(value)
        if isinstance(default, float):
            return float(value)
        if isinstance(default, tuple):
            # Folders are parted as the system parts them; addresses hold colons.
            parted = value.split("," if name in PARTED_BY_COMMAS else os.pathsep) if isinstance(value, str) else value
            return tuple(str(item).strip() for item in parted if str(item).strip())
        if isinstance(value, (dict, list)):
            raise ValueError
        return str(value)
    except (KeyError, TypeError, ValueError) as error:
        expected = {"bool": "true 或 false", "int": "整数", "float": "数字", "tuple": "列表", "str": "文字"}
        raise BadSettings(
            f"设置 {name} 的值 {value!r} 不对（来自{origin}）", hint=f"应为{expected[type(default).__name__]}"
        ) from error
