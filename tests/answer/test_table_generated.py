"""Generated tables with known answers: every count, sum and lookup exact, every cell cited right."""

from __future__ import annotations

import random
from dataclasses import dataclass
from decimal import Decimal

import pytest

from qianxun.answer.tables.answer import answer_from_tables
from qianxun.core.layered_types import CitedCell, TableAnswer, TableInput
from qianxun.core.types import Table
from qianxun.ingest.tables.grid import Cell, flow
from qianxun.ingest.tables.read_table import read_table

CITIES = ("北京", "上海", "广州", "深圳", "杭州", "成都")
GRADES = ("一级", "二级", "三级")
LABELS = ("门店", "学校", "客户", "仓库")


@dataclass(frozen=True)
class Made:
    """A table and the rows it was made of: label, city, grade, units sold (万元), share in hundredths of a percent."""

    table: Table
    label: str
    rows: tuple[tuple[str, str, str, Decimal, int], ...]

    def ask(self, question: str) -> TableAnswer:
        answer = answer_from_tables(question, [TableInput("made", self.table)])
        assert answer.sure, (question, answer)
        return answer


def make(seed: int, count: int) -> Made:
    """Two lines of headers, units in them, blank lines between the rows and a total below them."""
    chance = random.Random(seed)
    label = chance.choice(LABELS)
    rows = tuple(
        (
            f"{label}{chance.choice('甲乙丙丁')}{number:05d}号",
            chance.choice(CITIES),
            chance.choice(GRADES),
            Decimal(chance.randrange(1, 10_000_000)) / 100,
            chance.randrange(1, 10_000),
        )
        for number in range(count)
    )
    header = [
        [
            Cell(f"{label}名称", row_span=2),
            Cell("城市", row_span=2),
            Cell("等级", row_span=2),
            Cell("2023年", col_span=2),
        ],
        [Cell("销售额（万元）"), Cell("退货率")],
    ]
    lines: list[list[Cell]] = []
    for row in rows:
        if chance.random() < 0.05:
            lines.append([Cell("")] * 5)  # falls out when it is read
        lines.append([Cell(row[0]), Cell(row[1]), Cell(row[2]), Cell(f"{row[3]:,}"), Cell(f"{row[4] / 100:.2f}%")])
    total = sum((row[3] for row in rows), Decimal(0))
    lines.append([Cell("合计"), Cell(""), Cell(""), Cell(f"{total:,}"), Cell("")])
    table = read_table(flow([*header, *lines], 2_000_000), title=f"{label}经营情况表")
    assert table is not None
    return Made(table, label, rows)


MADE = [make(seed, 6 + 7 * seed) for seed in range(12)]


def cell(row: int, column: int) -> CitedCell:
    return CitedCell("made", row, column)


@pytest.mark.parametrize("made", MADE)
def test_lookups(made: Made) -> None:
    for row in range(0, len(made.rows), 5):
        answer = made.ask(f"{made.rows[row][0]}2023年的销售额是多少？")
        assert answer.text == f"{made.rows[row][3]:,}万元"
        assert answer.cells == (cell(row, 3),)
        assert made.ask(f"{made.rows[row][0]}在哪个城市").text == made.rows[row][1]


@pytest.mark.parametrize("made", MADE)
def test_counts(made: Made) -> None:
    for city in sorted({row[1] for row in made.rows}):
        held = [at for at, row in enumerate(made.rows) if row[1] == city]
        answer = made.ask(f"{city}有几家{made.label}？")
        assert answer.values == (len(held),)
        assert answer.cells == tuple(cell(at, 0) for at in held)
    outside = [row for row in made.rows if row[1] != made.rows[0][1]]
    assert made.ask(f"不在{made.rows[0][1]}的{made.label}有多少家").values == (len(outside),)
    assert made.ask(f"一共有多少家{made.label}").values == (len(made.rows),)


@pytest.mark.parametrize("made", MADE)
def test_sums_and_averages(made: Made) -> None:
    city, grade = made.rows[0][1], made.rows[0][2]
    held = [at for at, row in enumerate(made.rows) if row[1] == city and row[2] == grade]
    total = sum((made.rows[at][3] for at in held), Decimal(0))
    answer = made.ask(f"{city}{grade}{made.label}2023年销售额的总和是多少")
    assert Decimal(str(answer.values[0])) == total
    assert answer.cells == tuple(cell(at, 3) for at in held)
    average = made.ask(f"{city}{grade}{made.label}2023年的平均销售额是多少")
    assert average.values == pytest.approx((float(total / len(held)),))
    whole = made.ask("2023年销售额总共是多少")
    assert Decimal(str(whole.values[0])) == sum((row[3] for row in made.rows), Decimal(0))


@pytest.mark.parametrize("made", MADE)
def test_comparisons_in_any_unit(made: Made) -> None:
    bound = sorted(row[3] for row in made.rows)[len(made.rows) // 2]
    over = [at for at, row in enumerate(made.rows) if row[3] > bound]
    for said in (f"{bound}万元", f"{bound * 10_000:.0f}元", f"{bound:,}万"):
        answer = made.ask(f"2023年销售额超过{said}的{made.label}有几家")
        assert answer.values == (len(over),), said
    some = made.ask(f"2023年销售额超过{bound}万元的{made.label}有哪些")
    assert some.cells == tuple(cell(at, 0) for at in over)
    low = [row for row in made.rows if row[4] <= 5000]
    if low:
        assert made.ask(f"2023年退货率不超过百分之五十的{made.label}有几家").values == (len(low),)
    between = [row for row in made.rows if 1000 <= row[4] <= 6000]
    assert made.ask(f"2023年退货率在10%到60%之间的{made.label}有多少家").values == (len(between),)


@pytest.mark.parametrize("made", MADE)
def test_extremes(made: Made) -> None:
    order = sorted(range(len(made.rows)), key=lambda at: -made.rows[at][3])
    best = made.ask(f"2023年销售额最高的{made.label}是哪家")
    assert best.text == made.rows[order[0]][0]
    assert best.cells == (cell(order[0], 0), cell(order[0], 3))
    assert made.ask(f"2023年销售额最低的{made.label}").text == made.rows[order[-1]][0]
    top = made.ask(f"2023年销售额最高的前三名{made.label}")
    assert top.text == "、".join(made.rows[at][0] for at in order[:3])
    assert made.ask("2023年最高的销售额是多少").text == f"{made.rows[order[0]][3]:,}万元"


def test_ten_thousand_rows() -> None:
    made = make(99, 10_000)
    city = [at for at, row in enumerate(made.rows) if row[1] == "上海"]
    answer = made.ask(f"上海有多少家{made.label}")
    assert answer.values == (len(city),)
    assert answer.cells[-1] == cell(city[-1], 0)
    total = made.ask(f"上海的{made.label}2023年销售额总和")
    assert Decimal(str(total.values[0])) == sum((made.rows[at][3] for at in city), Decimal(0))
    assert made.ask(f"{made.rows[9_999][0]}的等级").text == made.rows[9_999][2]


@pytest.mark.parametrize("made", MADE[:4])
def test_what_the_table_does_not_hold_is_declined(made: Made) -> None:
    label = made.label
    for question in (
        f"2022年销售额最高的{label}",  # another year
        f"武汉有几家{label}",  # a city that is not there
        f"{label}丁99999号2023年的销售额",
        f"2023年利润最高的{label}",
        f"{made.rows[0][0]}2023年的销售额同比增长多少",
        "每个城市2023年的平均销售额",
        f"没有退货的{label}有几家",
    ):
        answer = answer_from_tables(question, [TableInput("made", made.table)])
        assert not answer.sure, (question, answer)
