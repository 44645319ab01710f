"""Right sentences that write a source's figures otherwise: how many does the check of answers drop, and how many does
it still catch once one digit is another?

    python -m benchmarks.right_sentences [SET ...] [--count 60] [--show 3]

Each is a sentence of a passage with one figure rewritten as people and models do: in Chinese numerals, in another unit,
rounded (约, 近, 超过), as a fraction, a date in another writing, a time of day, a sum, a difference, a multiple. They
are right by construction; the rewritings know nothing of how the check reads figures. A set is a folder of passages in
the layout of BEIR, or a folder of files of ours.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path

from qianxun.answer.verify.citations import Sentence
from qianxun.answer.verify.sentence_check import Checked, check
from qianxun.core.answer_types import Passage

DATA = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "beir"
OWN = Path(__file__).with_name("answer_library")
SETS = ("rageval_zh_fin", "cmrc2018", "own_open", "own_second")
SENTENCE = re.compile(r"[^。！？!?\n|]{10,90}[。！？!?]")
PASSAGE = 1_200  # characters around a sentence: what a search returns of a long document
DIGITS = "零一二三四五六七八九"

Change = Callable[[str, random.Random], str | None]


@dataclass(frozen=True)
class Case:
    kind: str
    sentence: str
    source: str
    rewritten: str  # the part that is new: its digits are those that a mutation changes


# ── how figures are written otherwise ────────────────────────────────────────────────────────────


def han(value: int) -> str:
    """25 is 二十五, 300 三百, 1,080 一千零八十; up to 99,999,999."""
    if value >= 10_000:
        high, low = divmod(value, 10_000)
        return han(high) + "万" + (("零" if low < 1_000 else "") + han(low) if low else "")
    found, zero = "", False
    for size, name in ((1_000, "千"), (100, "百"), (10, "十"), (1, "")):
        digit, value = divmod(value, size)
        if digit:
            found += ("零" if zero and found else "") + DIGITS[digit] + name
            zero = False
        else:
            zero = True
    return found.removeprefix("一") if found.startswith("一十") else found or "零"


NUMBER = re.compile(
    r"(?<![\d.,:：A-Za-z\-/第])(\d{1,3}(?:,\d{3})+|\d{2,8})(?![\d.,%％\-/:：A-Za-z年月日号时点]|\s*[十百千万亿])"
)
MEASURED = re.compile(
    r"(?<![\d.,A-Za-z\-/第])(\d{1,6})(年|个月|天|周|小时|分钟|公里|千米|米|厘米|公斤|千克|克|毫克|万元|元|吨|毫升|升)(?![\d度级以年间底初末尾代])"
)
IN_OTHER_UNITS: Mapping[str, tuple[tuple[str, int, int], ...]] = {  # (unit, times, divided by)
    "年": (("个月", 12, 1),),
    "个月": (("年", 1, 12),),
    "周": (("天", 7, 1),),
    "天": (("小时", 24, 1), ("周", 1, 7)),
    "小时": (("分钟", 60, 1), ("天", 1, 24)),
    "分钟": (("小时", 1, 60), ("秒", 60, 1)),
    "公里": (("米", 1_000, 1), ("千米", 1, 1)),
    "千米": (("公里", 1, 1),),
    "米": (("厘米", 100, 1),),
    "厘米": (("米", 1, 100), ("毫米", 10, 1)),
    "公斤": (("千克", 1, 1), ("斤", 2, 1)),
    "千克": (("公斤", 1, 1),),
    "克": (("毫克", 1_000, 1),),
    "毫克": (("克", 1, 1_000),),
    "万元": (("元", 10_000, 1),),
    "元": (("万元", 1, 10_000),),
    "吨": (("公斤", 1_000, 1),),
    "升": (("毫升", 1_000, 1),),
    "毫升": (("升", 1, 1_000),),
}
PERCENT = re.compile(r"(?<![\d.\-~～])(\d{1,2}(?:\.\d)?)[%％]")
FRACTIONS = {"50": "一半", "25": "四分之一", "20": "五分之一", "75": "四分之三", "40": "五分之二", "60": "五分之三"}
DAY = re.compile(r"(?<!\d)([12]\d{3})年(\d{1,2})月(\d{1,2})日")
CLOCK = re.compile(r"(?<![\d:])([01]?\d|2[0-3]):([0-5]\d)(?![\d:])")
LARGE = re.compile(
    r"(?<![\d.,A-Za-z\-/第])(\d{3,4}(?:\.\d+)?|\d{1,3}\.\d{1,3})(万|亿)?(元|人|吨|户|家|平方米|公里)(?!以)"
)


def once(pattern: re.Pattern[str], write: Callable[[re.Match[str], random.Random], str | None]) -> Change:
    """One match of a sentence written otherwise; the new part is put in marks, so that it can be found again."""

    def change(sentence: str, chance: random.Random) -> str | None:
        found = list(pattern.finditer(sentence))
        chance.shuffle(found)
        for match in found:
            if written := write(match, chance):
                return f"{sentence[: match.start()]}⟦{written}⟧{sentence[match.end() :]}"
        return None

    return change


def _numeral(match: re.Match[str], _: random.Random) -> str | None:
    value = int(match[1].replace(",", ""))
    return han(value) if (value >= 10 and value % 10 == 0) or value < 100 else None


def _grouped(match: re.Match[str], _: random.Random) -> str | None:
    bare = match[1].replace(",", "")
    return (bare if "," in match[1] else f"{int(bare):,}") if len(bare) > 3 else None


def _unit(match: re.Match[str], chance: random.Random) -> str | None:
    options = []
    if match[2] == "年" and len(match[1]) > 2:
        return None  # a year, not a time
    for unit, times, divisor in IN_OTHER_UNITS[match[2]]:
        value = int(match[1]) * times / divisor
        if round(value, 2) == value and value >= 0.1:
            options.append(f"{value:g}{unit}" if value < 1e6 else "")
    options = [one for one in options if one]
    return chance.choice(options) if options else None


def _han_unit(match: re.Match[str], _: random.Random) -> str | None:
    value = int(match[1])
    return f"{'两' if value == 2 else han(value)}{match[2]}" if 1 < value < 100 else None


def _percent(match: re.Match[str], _: random.Random) -> str | None:
    whole, point, part = match[1].partition(".")
    return f"百分之{han(int(whole))}{'点' + DIGITS[int(part)] if point else ''}"


def _fraction(match: re.Match[str], _: random.Random) -> str | None:
    if match[1] in FRACTIONS:
        return FRACTIONS[match[1]]
    is_tenths = match[1].isdigit() and match[1].endswith("0") and len(match[1]) == 2
    return f"{DIGITS[int(match[1]) // 10]}成" if is_tenths else None


def _iso(match: re.Match[str], chance: random.Random) -> str | None:
    year, month, day = (int(part) for part in match.groups())
    han_year = "".join("〇一二三四五六七八九"[int(digit)] for digit in match[1])
    return chance.choice(
        (f"{year}-{month:02}-{day:02}", f"{year}.{month}.{day}", f"{month}月{day}日", f"{year}年{month}月",
         f"{han_year}年{han(month)}月{han(day)}日")
    )  # fmt: skip


def _clock(match: re.Match[str], chance: random.Random) -> str | None:
    hour, minute = int(match[1]), int(match[2])
    part = "凌晨" if hour < 5 else "上午" if hour < 12 else "中午" if hour == 12 else "下午" if hour < 18 else "晚上"
    twelve = hour if hour <= 12 else hour - 12
    before = match.string[max(0, match.start() - 2) : match.start()]
    part = "" if before in ("上午", "下午", "晚上", "中午", "凌晨", "早上") else part
    if minute == 0:
        return f"{part}{chance.choice((str(twelve), '两' if twelve == 2 else han(twelve)))}点"
    return f"{part}{twelve}点{'半' if minute == 30 else f'{minute:02}分'}"


def _rounded(match: re.Match[str], chance: random.Random) -> str | None:
    """1,361万 is 约1,400万, 近1,400万, 超过1,300万, 1,300多万."""
    value, scale, unit = float(match[1]), match[2] or "", match[3]
    size = 10.0 ** (len(str(int(value))) - 2)  # two figures stay
    low = round(value // size * size, 6)
    high = round(low + size, 6)
    if abs(low - value) < 1e-9:
        return None
    near = low if value - low < high - value else high
    forms = [f"约{near:g}{scale}{unit}", f"{near:g}{scale}{unit}左右", f"超过{low:g}{scale}{unit}"]
    forms += [f"近{high:g}{scale}{unit}"] if high - value < value - low else []
    forms += [f"{low:g}多{scale}{unit}" if scale else f"{low:g}余{unit}"] if low >= 10 and low % 10 == 0 else []
    return chance.choice(forms)


AMOUNTS = re.compile(
    r"(?<![\d.,A-Za-z\-/第])(\d{1,7}(?:\.\d{1,2})?)(万元|亿元|元|人|天|个月|年|小时|分钟|吨|公里|米|%)(?![\d度级以])"
)


def _worked_out(write: Callable[[float, float, str], str | None]) -> Change:
    """A clause after the sentence, with what follows from two of its figures of one unit."""

    def change(sentence: str, chance: random.Random) -> str | None:
        by_unit: dict[str, list[float]] = defaultdict(list)
        for value, unit in AMOUNTS.findall(sentence):
            if unit != "年":  # most are years, of whatever era
                by_unit[unit].append(float(value))
        pairs = [
            (values[0], values[1], unit) for unit, values in by_unit.items() if len(set(values)) == len(values) == 2
        ]
        for first, second, unit in pairs:
            if clause := write(first, second, unit):
                return f"{sentence.rstrip('。！？!?')}，⟦{clause}⟧。"
        return None

    return change


def _sum(first: float, second: float, unit: str) -> str | None:
    return f"两者合计{first + second:.10g}{unit}" if unit != "%" else None


def _difference(first: float, second: float, unit: str) -> str | None:
    return f"相差{abs(first - second):.10g}{'个百分点' if unit == '%' else unit}"


def _multiple(first: float, second: float, unit: str) -> str | None:
    high, low = max(first, second), min(first, second)
    return f"前后相比约为{high / low:.1f}倍" if low and 1.2 < high / low < 50 and unit != "%" else None


def _later(sentence: str, chance: random.Random) -> str | None:
    """30天 after a date of the sentence: the day itself."""
    day = DAY.search(sentence)
    lapse = re.search(r"(?<![\d.第月])(\d{1,3})(?:天|个?工?作?日)(?:内|之内|以内)", sentence)
    if not day or not lapse:
        return None
    try:
        until = date(*(int(part) for part in day.groups())) + timedelta(days=int(lapse[1]))
    except ValueError:
        return None
    return f"{sentence.rstrip('。！？!?')}，⟦即到{until.year}年{until.month}月{until.day}日⟧。"


def _lapse(sentence: str, chance: random.Random) -> str | None:
    """How many years lie between two years of the sentence."""
    years = [int(one) for one in dict.fromkeys(re.findall(r"(?<!\d)([12]\d{3})年(?!代)", sentence))]
    if len(years) != 2 or not 1 < abs(years[0] - years[1]) < 60:
        return None
    return f"{sentence.rstrip('。！？!?')}，⟦前后相隔{abs(years[0] - years[1])}年⟧。"


CHANGES: Mapping[str, Change] = {
    "as it is": lambda sentence, _: sentence,
    "introduced": lambda sentence, _: f"根据资料，{sentence}" if not sentence[0].isdigit() else None,
    "numeral": once(NUMBER, _numeral),
    "grouped digits": once(NUMBER, _grouped),
    "other unit": once(MEASURED, _unit),
    "numeral and unit": once(MEASURED, _han_unit),
    "百分之": once(PERCENT, _percent),
    "fraction": once(PERCENT, _fraction),
    "date": once(DAY, _iso),
    "time of day": once(CLOCK, _clock),
    "rounded": once(LARGE, _rounded),
    "sum": _worked_out(_sum),
    "difference": _worked_out(_difference),
    "multiple": _worked_out(_multiple),
    "day after": _later,
    "years between": _lapse,
    "last clause": lambda sentence, _: rest if len(rest := sentence.rpartition("，")[2]) >= 10 else None,
    "first clause": lambda sentence, _: f"{head}。" if len(head := sentence.partition("，")[0]) >= 10 else None,
}
# A rounded figure, a multiple and a date without its year say less than the source: another digit is caught where it
# is far from the truth alone.
NOT_MUTATED = frozenset(["as it is", "introduced", "last clause", "first clause", "rounded", "multiple"])


# ── making and checking ──────────────────────────────────────────────────────────────────────────


def texts(name: str) -> Iterator[str]:
    if name.startswith("own_"):
        for path in sorted((OWN / name.removeprefix("own_")).iterdir()):
            if path.suffix in (".md", ".txt"):
                yield path.read_text(encoding="utf-8")
        return
    path = DATA / name if (DATA / name).is_dir() else Path(name)
    if (path / "corpus.jsonl").exists():
        with (path / "corpus.jsonl").open(encoding="utf-8") as file:
            yield from (json.loads(line)["text"] for line in file)
        return
    yield from (one.read_text(encoding="utf-8") for one in sorted(path.rglob("*")) if one.suffix in (".md", ".txt"))


def cases(name: str, count: int) -> Iterator[Case]:
    """At most ``count`` of each kind, at most two of a kind from a text."""
    chance = random.Random(name)
    documents = list(texts(name))
    chance.shuffle(documents)
    made: Counter[str] = Counter()
    for text in documents:
        sentences = [
            match
            for match in SENTENCE.finditer(text)
            if re.search(r"\d", match.group()) and text[match.start() - 1 : match.start()] in ("", *"。！？!?\n")
        ]
        chance.shuffle(sentences)
        of_text: Counter[str] = Counter()
        for match in sentences[:30]:
            start = max(0, match.start() - PASSAGE // 2)
            source = text[start : match.end() + PASSAGE // 2]
            for kind, change in CHANGES.items():
                if made[kind] >= count or of_text[kind] >= 2:
                    continue
                written = change(match.group().strip(), chance)
                if written:
                    made[kind] += 1
                    of_text[kind] += 1
                    new = re.search("⟦(.*)⟧", written)
                    yield Case(kind, re.sub("[⟦⟧]", "", written), source, new[1] if new else "")


def checked_against(sentence: str, source: str) -> Checked:
    return check(Sentence(sentence, (1,)), (Passage(1, "d", "", "c", source),))


def is_caught(sentence: str, source: str) -> bool:
    """Dropped, or kept with a flag."""
    return bool(checked_against(sentence, source).flags)


def why_dropped(sentence: str, source: str) -> str:
    checked = checked_against(sentence, source)
    return "" if checked.accepted else "；".join(flag.reason for flag in checked.flags) or "dropped"


def mutated(case: Case, chance: random.Random) -> str | None:
    """Another first digit, Arabic or Chinese, of the part that was rewritten."""
    found = re.search("[1-9]|[一二三四五六七八九](?![分成半])", case.rewritten)
    if not found or case.kind in NOT_MUTATED:
        return None
    old = found.group()
    row = "123456789" if old.isdigit() else "一二三四五六七八九"
    new = row[(row.index(old) + chance.choice((1, 2, 4, 5))) % 9]
    part = case.rewritten[: found.start()] + new + case.rewritten[found.end() :]
    return case.sentence.replace(case.rewritten, part, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=SETS)
    parser.add_argument("--count", type=int, default=60, help="sentences of each kind and set")
    parser.add_argument("--show", type=int, default=0, help="failures of each kind to print")
    chosen = parser.parse_args()
    for name in chosen.sets:
        chance = random.Random(5)
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        shown: dict[str, list[str]] = defaultdict(list)
        for case in cases(name, chosen.count):
            counts[case.kind]["right"] += 1
            counts[case.kind]["flagged"] += is_caught(case.sentence, case.source)
            if why := why_dropped(case.sentence, case.source):
                counts[case.kind]["dropped"] += 1
                shown[case.kind].append(f"DROPPED {case.sentence}  ({why})")
            elif wrong := mutated(case, chance):
                counts[case.kind]["wrong"] += 1
                counts[case.kind]["caught"] += (caught := is_caught(wrong, case.source))
                if not caught:
                    shown[case.kind].append(f"MISSED  {wrong}  ←  {case.sentence}")
        _report(name, counts, shown, chosen.show)


def _report(name: str, counts: Mapping[str, Counter[str]], shown: Mapping[str, Sequence[str]], most: int) -> None:
    total: Counter[str] = sum(counts.values(), Counter())
    print(
        f"{name}: dropped {_share(total['dropped'], total['right'])}, "
        f"or flagged {_share(total['flagged'], total['right'])}, caught {_share(total['caught'], total['wrong'])}"
    )
    for kind, own in counts.items():
        print(
            f"  {kind:18} dropped {own['dropped']:3} / {own['right']:3}   caught {own['caught']:3} / {own['wrong']:3}"
        )
        for line in shown[kind][:most]:
            print("      ", line)


def _share(part: int, whole: int) -> str:
    return f"{part / max(whole, 1):.3f} ({part} of {whole})"


if __name__ == "__main__":
    main()
