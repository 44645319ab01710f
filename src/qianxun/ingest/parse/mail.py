"""Mail (.eml) and pages in one file (.mht): the head decoded, the text with tables and headings, names of what is
attached."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes, policy
from email.errors import HeaderParseError, MessageError
from email.header import decode_header
from email.message import EmailMessage, MIMEPart
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Final

from qianxun.core.documents import Block, Heading, Paragraph, ParsedFile
from qianxun.core.errors import Unreadable
from qianxun.ingest.headings import numbered_headings
from qianxun.ingest.parse.encoding import decode
from qianxun.ingest.parse.html import read_fragment
from qianxun.ingest.sandbox.limits import ParseLimits

_PEOPLE: Final = (("From", "发件人"), ("To", "收件人"), ("Cc", "抄送"))
_DEPTH: Final = 3  # of mails in a mail
_MOST_PARTS: Final = 1_000


def parse(path: Path, limits: ParseLimits) -> ParsedFile:
    message = message_from_bytes(path.read_bytes(), policy=policy.default)
    attached: list[str] = []
    blocks = list(_blocks(message, limits, attached, level=1))
    metadata = {"sender": _header(message, "From"), "date": _date(message)}
    warnings = (f"附件没有收录，请另存后单独添加：{'、'.join(attached[:20])}",) if attached else ()
    title = _header(message, "Subject") or path.stem
    filled = {name: value for name, value in metadata.items() if value}
    return ParsedFile(tuple(numbered_headings(blocks)), "mail", title, filled, (), warnings)


def _blocks(message: EmailMessage, limits: ParseLimits, attached: list[str], level: int) -> Iterator[Block]:
    """The head as lines, then the body; a mail inside it below a heading of its own."""
    subject = _header(message, "Subject")
    people = [f"{label}：{value}" for name, label in _PEOPLE if (value := _header(message, name))]
    if subject or people:  # a saved page may have neither
        yield Heading(subject or "（无主题）", level)
    lines = [*people, *([f"发送日期：{date}"] if (date := _date(message)) else [])]
    if lines:
        yield Paragraph("\n".join(lines))
    body = message.get_body(("html", "plain"))
    if body is not None:
        yield from _body(body, limits)
    names: list[str] = []
    for count, part in enumerate(message.iter_attachments()):
        if count >= _MOST_PARTS:
            raise Unreadable(f"邮件的附件超过 {_MOST_PARTS} 个", hint="请拆分邮件")
        inner = _inner(part)
        if inner is not None and level < _DEPTH:
            yield from _blocks(inner, limits, attached, level + 1)
        elif name := part.get_filename():
            names.append(_decoded(name))
    if names:
        attached += names
        yield Paragraph(f"附件：{'、'.join(names)}")


def _inner(part: EmailMessage) -> EmailMessage | None:
    if part.get_content_type() != "message/rfc822":
        return None
    payload = part.get_payload()
    first = payload[0] if isinstance(payload, list) and payload else None
    return first if isinstance(first, EmailMessage) else None


def _body(body: MIMEPart, limits: ParseLimits) -> Iterator[Block]:
    content = _text(body)
    if body.get_content_subtype() == "html":
        yield from read_fragment(content, limits)
        return
    for paragraph in content.replace("\r\n", "\n").split("\n\n"):
        if paragraph.strip():
            yield Paragraph(paragraph.strip("\n"))


def _text(body: MIMEPart) -> str:
    payload = body.get_payload(decode=True)
    return _read(payload, body.get_content_charset()) if isinstance(payload, bytes) else ""


def _read(data: bytes, charset: str | None) -> str:
    """In the declared charset, where that is true: gb2312 is written for all of GB18030, and some declare none."""
    decoded = decode(data, charset or "")
    return decoded.text if decoded is not None else data.decode("utf-8", "replace")


def _header(message: EmailMessage, name: str) -> str:
    try:
        value = str(message.get(name) or "")
    except (HeaderParseError, MessageError, ValueError, IndexError):
        return ""
    return _decoded(" ".join(value.split()))


def _decoded(value: str) -> str:
    """Encoded words that the parser left as they are, because a mail program folded or quoted them wrongly."""
    if "=?" not in value:
        return value
    try:
        parts = decode_header(value)
    except (HeaderParseError, ValueError):
        return value
    return "".join(part if isinstance(part, str) else _read(part, charset) for part, charset in parts)


def _date(message: EmailMessage) -> str:
    """As it was written, in the sender's time: 2024-03-01 09:30."""
    try:
        return parsedate_to_datetime(_header(message, "Date")).strftime("%Y-%m-%d %H:%M")
    except (TypeError, ValueError, IndexError):
        return ""
