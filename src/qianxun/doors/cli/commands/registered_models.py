"""`qianxun models add` and `remove`, and what `list` and `test` do with registered models: through a service, or in the
data folder, also while a service has it open."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeVar

import typer
from rich.markup import escape
from rich.table import Table

from qianxun.core.errors import BadInput, NotFound
from qianxun.doors.cli.i18n import done, hint, print_json, tr
from qianxun.doors.cli.session import JsonFlag, Session, expect_data, has_records, run_offline, session_of, with_client
from qianxun.doors.cli.views.drawing import new_table

if TYPE_CHECKING:
    from qianxun.core.model_types import ModelTest, UserModel

T = TypeVar("T")

KEY_FILE_LIMIT = 8192  # characters

UserOption: TypeAlias = Annotated[str, typer.Option("--user", metavar="U", help="谁的 · whose it is")]
TenantOption: TypeAlias = Annotated[str, typer.Option("--tenant", metavar="T", help="哪个租户的 · of which tenant")]
RefArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="REF", help="user-model:编号，见 models list · see models list")
]


ModelType = StrEnum("ModelType", ["embedding", "chat", "qa", "rewrite", "rerank", "vision"])


def add_model(
    context: typer.Context,
    user: UserOption,
    name: Annotated[str, typer.Option("--name", metavar="N", help="给它起的名字 · what to call it")],
    base_url: Annotated[
        str, typer.Option("--base-url", metavar="URL", help="服务的地址，连同版本 · the service, with its version")
    ],
    model: Annotated[str, typer.Option("--model", metavar="M", help="模型在服务那里的名字 · its name there")],
    model_type: Annotated[ModelType, typer.Option("--type", help="做什么用 · what it is for")] = ModelType.embedding,
    dim: Annotated[int, typer.Option("--dim", metavar="D", help="向量的维度（嵌入模型） · of its vectors")] = 0,
    default: Annotated[bool, typer.Option("--default", help="设为这个用户此类的默认 · the user's default")] = False,
    key_file: Annotated[
        str | None,
        typer.Option("--key-file", metavar="FILE", help="从文件读密钥，- 为标准输入 · the key is in this file, or -"),
    ] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="它不要密钥 · it wants no key")] = False,
    timeout: Annotated[int, typer.Option("--timeout", metavar="S", help="等它几秒 · how long to wait for it")] = 30,
    temperature: Annotated[float, typer.Option("--temperature", metavar="X", help="0–2")] = 0.0,
    top_p: Annotated[float, typer.Option("--top-p", metavar="X", help="0–1")] = 1.0,
    max_tokens: Annotated[int, typer.Option("--max-tokens", metavar="N", help="回复的上限 · of a reply")] = 0,
    tenant: TenantOption = "local",
    as_json: JsonFlag = False,
) -> None:
    from qianxun.core.model_types import NewModel

    session = session_of(context)
    new = NewModel(
        config_name=name,
        base_url=base_url,
        model_name=model,
        model_type=model_type.value,
        api_key=_read_key(key_file, no_key),
        model_dim=dim,
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        timeout=timeout,
        is_default=int(default),
    )
    added: UserModel = _with_registry(session, tenant, lambda registry: registry.add(user, new), may_create=True)
    if as_json:
        print_json(_as_json(added))
        return
    done(f"已登记“{escape(name)}”：{added.ref}", f"“{escape(name)}” is {added.ref}")
    whose = "" if tenant == "local" else f" --tenant {tenant}"
    try_it = f"{session.start} models test {added.ref} --user {user}{whose}"
    hint(f"下一步，试试它：{try_it}", f"Next, try it: {try_it}")


def remove_model(
    context: typer.Context,
    ref: RefArgument,
    user: UserOption,
    tenant: TenantOption = "local",
    as_json: JsonFlag = False,
) -> None:
    number = _number_in(ref)
    _with_registry(session_of(context), tenant, lambda registry: registry.remove(user, number))
    if as_json:
        print_json({"removed": f"user-model:{number}"})
        return
    done(f"已删去 user-model:{number}", f"Removed user-model:{number}")


def try_registered(session: Session, ref: str, user: str | None, tenant: str) -> dict[str, Any]:
    """Calls the model's service once. Returns what came of it, as JSON."""
    number = _number_in(ref)
    if session.url and not user:
        raise BadInput(
            tr("没有写是谁的模型", "Whose model it is was not said"),
            hint=tr(f"写明用户：models test {ref} --user U", f"Say so: models test {ref} --user U"),
        )

    def work(registry: Any) -> Awaitable[ModelTest]:
        """In the data folder models of all users are visible; a service needs to know whose it is."""
        tried: Awaitable[ModelTest] = registry.test(user or registry.find(ref).user_id, number)
        return tried

    return {"model": ref, **asdict(_with_registry(session, tenant, work))}


def registered_models(session: Session, user: str | None, tenant: str) -> list[dict[str, Any]]:
    """As JSON; of one user, or of all where the data folder itself is read."""
    if not (user if session.url else has_records(session.settings())):
        return []
    found: list[UserModel] = _with_registry(session, tenant, lambda registry: registry.list(user))
    return [_as_json(model) for model in found]


def registered_table(rows: list[dict[str, Any]]) -> Table:
    titles = (("登记的模型", "registered"), ("用户", "user"), ("名字", "name"), ("用途", "kind"), ("模型", "model"))
    table = new_table(*titles, ("地址", "where"), ("密钥", "key"), ("状态", "state"), overflow="fold")
    for row in rows:
        state = tr("启用", "on") if row["status"] else tr("停用", "off")
        if row["is_default"]:
            state += " " + tr("默认", "default")
        columns = ("ref", "user_id", "config_name", "model_type", "model_name", "base_url")
        table.add_row(*(escape(row[column]) for column in columns), row["api_key"], state)
    return table


def _as_json(model: UserModel) -> dict[str, Any]:
    fields = asdict(model)
    masked = fields.pop("masked_key")
    return {"ref": model.ref, **fields, "api_key": masked}


def _number_in(ref: str) -> int:
    digits = ref.removeprefix("user-model:")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise NotFound(
            tr(f"没有名为“{ref}”的登记模型", f"There is no registered model “{ref}”"),
            hint=tr("写作 user-model:编号，见 models list", "They are written user-model:ID; see models list"),
        )
    return int(digits)


def _with_registry(
    session: Session, tenant: str, work: Callable[[Any], Awaitable[T]], *, may_create: bool = False
) -> T:
    """Does the work with the registry of the service of ``--url``, or with that of the data folder."""
    if session.url:
        if tenant != "local":
            raise BadInput(
                tr("--tenant 与 --url 不能同时给出", "--tenant does not go with --url"),
                hint=tr("租户由密钥决定", "The key decides the tenant"),
            )
        return with_client(session, lambda client: work(client.registry))
    settings = session.settings()
    if not may_create:
        expect_data(settings)
    from qianxun.engine.admin.models import open_registered

    with open_registered(settings, tenant) as registry:
        return run_offline(work(registry))


def _read_key(key_file: str | None, no_key: bool) -> str:
    """Never from an argument: the list of the machine's processes would show it."""
    if no_key:
        if key_file is not None:
            raise BadInput(
                tr("--no-key 与 --key-file 只能给一个", "Give either --no-key or --key-file"),
                hint=tr("去掉其中一个", "Leave one of them out"),
            )
        return ""
    if key_file == "-":
        return sys.stdin.readline(KEY_FILE_LIMIT).strip()
    if key_file is not None:
        return _key_in(Path(key_file))
    if not sys.stdin.isatty():
        raise BadInput(
            tr("没有终端可以询问密钥", "There is no terminal to ask for the key"),
            hint=tr(
                "用 --key-file FILE、--key-file -（标准输入）或 --no-key", "Use --key-file FILE, or -, or --no-key"
            ),
        )
    prompt = tr("api_key（不显示；没有就直接回车）", "api_key (not shown; just Enter for none)")
    return str(typer.prompt(prompt, default="", hide_input=True, show_default=False, err=True)).strip()


def _key_in(file: Path) -> str:
    try:
        with file.open(encoding="utf-8") as opened:
            return opened.read(KEY_FILE_LIMIT).strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "UTF-8"
        raise BadInput(
            tr(f"读不了密钥文件 {file}：{reason}", f"Cannot read {file}: {reason}"),
            hint=tr("检查路径与权限", "Check the path and its permissions"),
        ) from error
