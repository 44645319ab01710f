"""Mail as it comes: encoded heads, several forms of one text, charsets that are only half declared."""

from __future__ import annotations

from email.message import EmailMessage
from pathlib import Path

from qianxun.core.types import Heading, Paragraph, ParsedFile, TableBlock
from qianxun.ingest.assemble import assemble
from qianxun.ingest.parse import parse
from qianxun.ingest.sandbox.limits import ParseLimits

SUBJECT = "关于2024年度医保报销比例调整的通知（请各科室于本周五之前反馈意见）"
TABLE = "<table><tr><th>项目</th><th>比例</th></tr><tr><td>住院</td><td>85%</td></tr></table>"


def mail(subject: str = SUBJECT) -> EmailMessage:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = (
        subject,
        "张伟 <zhang@example.com>",
        "全体职工 <all@example.com>",
    )
    message["Date"] = "Fri, 01 Mar 2024 09:30:00 +0800"
    return message


def read(path: Path, content: bytes) -> ParsedFile:
    path.write_bytes(content)
    return parse(path, ParseLimits())


def test_the_head_is_decoded_and_the_richer_form_of_the_text_is_read(tmp_path: Path) -> None:
    message = mail()
    message.set_content("各位：住院85%。")
    message.add_alternative(f"<p>各位：</p>{TABLE}", subtype="html")
    message.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename="报销细则.pdf")
    raw = message.as_bytes()
    assert b"=?utf-8?" in raw
    file = read(tmp_path / "通知.eml", raw)
    assert file.title == SUBJECT
    assert file.metadata == {"sender": "张伟 <zhang@example.com>", "date": "2024-03-01 09:30"}
    head, people, greeting, table, attached = file.blocks
    assert head == Heading(SUBJECT, 1)
    assert isinstance(people, Paragraph)
    assert people.text.endswith("发送日期：2024-03-01 09:30")
    assert greeting == Paragraph("各位：")
    assert isinstance(table, TableBlock)
    assert table.table.rows == (("住院", 0.85),)
    assert attached == Paragraph("附件：报销细则.pdf")
    assert "报销细则.pdf" in file.warnings[0]


def test_half_declared_charsets_and_wrongly_folded_words_are_read(tmp_path: Path) -> None:
    subject = b"=?GB2312?B?uPe/xsrSzajWqg==?= =?gb2312?q?=A3=BA=C9=EA=B1=A8?="
    body = "朱镕基、申㬎等人的住院费用".encode("gb18030")
    kind = b"Content-Type: text/plain; charset=gb2312\r\nContent-Transfer-Encoding: 8bit"
    raw = b"Subject: " + subject + b"\r\n" + kind + b"\r\n\r\n" + body
    file = read(tmp_path / "a.eml", raw)
    assert file.title == "各科室通知：申报"
    assert "=?" not in assemble(file).content
    assert assemble(file).content.endswith("朱镕基、申㬎等人的住院费用")


def test_a_mail_in_a_mail_is_read_below_its_own_subject(tmp_path: Path) -> None:
    inner, outer = mail("原邮件：住院标准"), mail("转发：请查收")
    inner.set_content("住院每日补助100元。")
    outer.set_content("见下。")
    outer.add_attachment(inner)
    content = assemble(read(tmp_path / "转发.eml", outer.as_bytes())).content
    assert content.index("见下。") < content.index("原邮件：住院标准") < content.index("住院每日补助100元。")


def test_a_broken_mail_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    raw = (
        b"Subject: =?utf-8?B?broken\r\nDate: not a date\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n"
        b"--x\r\nContent-Type: text/plain; charset=unknown-9\r\n\r\n" + "住院85%".encode()
    )
    assert assemble(read(tmp_path / "b.eml", raw)).content.endswith("住院85%")
