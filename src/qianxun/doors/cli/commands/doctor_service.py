"""`qianxun --url URL doctor`: whether a running service takes requests, and what is in it."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from qianxun.core.errors import QianxunError
from qianxun.doors.cli.i18n import out, print_json, tr
from qianxun.doors.cli.session import Session, quoted

if TYPE_CHECKING:
    from qianxun.doors.client import Client


@dataclass(frozen=True, slots=True)
class ServiceHealth:
    url: str
    ready: bool = False
    queue_depth: int = 0
    unusable: int = 0  # bases whose index could not be opened
    trouble: str = ""
    bases: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        return self.ready and not self.trouble and not self.unusable and not any(one["trouble"] for one in self.bases)


def doctor_of_service(session: Session, as_json: bool) -> int:
    health = asyncio.run(_examined(session))
    if as_json:
        told = asdict(health)
        print_json({**told, "sound": health.is_sound})
    else:
        _show(out(), health)
    return 0 if health.is_sound else 1


async def _examined(session: Session) -> ServiceHealth:
    from qianxun.doors.client import Client

    async with Client(session.url, key=session.key) as client:
        try:
            found = await client.readiness()
        except QianxunError as error:
            return ServiceHealth(session.url, trouble=str(error))
        try:
            bases = await _bases(client, session.start)
        except QianxunError as error:
            return ServiceHealth(session.url, True, found.queue_depth, found.unusable, str(error))
        return ServiceHealth(session.url, True, found.queue_depth, found.unusable, "", bases)


async def _bases(client: Client, start: str) -> list[dict[str, Any]]:
    found = []
    for base in await client.knowledge_bases():
        counts = await client.statistics(base.id)
        quarantined = counts.get("quarantined", 0)
        documents = sum(counts.get(state, 0) for state in ("indexed", "pending", "retrying", "quarantined"))
        about = {"name": base.name, "embedding_model": base.embedding_model, "chunks": counts["chunks"]}
        trouble = _quarantined(quarantined, f"{start} kb show {quoted(base.name)}") if quarantined else ""
        found.append({**about, "documents": documents, "quarantined": quarantined, "trouble": trouble})
    return found


def _quarantined(count: int, show_it: str) -> str:
    return tr(
        f"{count} 个文档被隔离，原因见 {show_it}", f"{count} documents are quarantined; for the reasons: {show_it}"
    )


def _show(console: Console, health: ServiceHealth) -> None:
    console.print(f"[bold]{tr('服务', 'service')}[/]  {escape(health.url)}", soft_wrap=True)
    if health.ready:
        waiting = tr(f"{health.queue_depth} 项待索引", f"{health.queue_depth} waiting for the index")
        console.print(f"  [green]✓[/] {tr('可以接受请求', 'takes requests')}  [dim]{waiting}[/]")
    if health.unusable:
        told = tr(f"{health.unusable} 个知识库打不开，原因见服务的日志", f"{health.unusable} bases cannot be opened")
        console.print(f"  [red]✗[/] {told}", soft_wrap=True)
    if health.trouble:
        console.print(f"  [red]✗[/] {escape(health.trouble)}", soft_wrap=True)
        return
    console.print(f"[bold]{tr('知识库', 'knowledge bases')}[/]")
    if not health.bases:
        console.print(tr("  还没有", "  none yet"))
    for base in health.bases:
        console.print(f"  {_base(base)}", soft_wrap=True)


def _base(base: dict[str, Any]) -> str:
    sign = "[red]✗[/]" if base["trouble"] else "[green]✓[/]"
    model = base["embedding_model"] or tr("只按词语", "words only")
    counts = (
        f"{base['documents']} 个文档  {base['chunks']} 块",
        f"{base['documents']} documents  {base['chunks']} chunks",
    )
    troubled = f"  [red]{escape(base['trouble'])}[/]" if base["trouble"] else ""
    return f"{sign} {escape(base['name'])}  {tr(*counts)}  [dim]{escape(model)}[/]{troubled}"
