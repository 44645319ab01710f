"""Names in Chinese text: people, places, organisations, works, and terms that may be names.

By part of speech, by marks (《》, quotes, 史蒂夫·乔布斯) and by how a name ends (公司, 大学, 省). One pass over the
tagged words of a text; whether a term is worth a place in the graph shows only when many texts are looked at together.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

PERSON, PLACE, ORGANIZATION, WORK, TERM = "PERSON", "PLACE", "ORGANIZATION", "WORK", "TERM"

_SURNAMES: Final = frozenset(
    "赵钱孙李周吴郑王冯陈褚卫蒋沈韩杨朱秦尤许何吕施张孔曹严华金魏陶姜戚谢邹喻柏窦章云苏潘葛范彭郎鲁韦马苗凤方俞任袁柳"
    "鲍史唐费廉岑薛雷贺倪汤滕殷罗毕郝邬安常乐于傅皮卞齐康伍余顾孟黄穆萧尹姚邵汪祁毛狄米贝臧计成戴宋庞熊纪舒屈项祝董梁"
    "杜阮蓝闵席季贾路江童颜郭梅盛林刁钟徐邱骆高夏蔡田樊胡凌霍虞万柯卢莫房解应宗丁邓郁单洪包左石崔吉龚程邢裴陆荣翁荀"
    "甄曲封储段富巫焦牧山谷车侯班秋仲伊宫宁仇栾甘厉戎武符刘景詹束龙叶司黎溥印宿白蒲邰鄂索赖卓蔺蒙池乔翟谭劳姬申冉桑"
    "桂牛寿边燕冀尚温庄晏柴瞿阎慕连习艾容向古易廖耿满匡文寇广东欧殳沃蔚越隆师巩聂晁敖冷辛那简饶曾沙养鞠丰关相查红游竺权"
    "肖闫涂覃丘佘麦代仝楼迟逄"
)
_DOUBLE_SURNAMES: Final = (
    "欧阳",
    "司马",
    "上官",
    "诸葛",
    "东方",
    "皇甫",
    "尉迟",
    "公孙",
    "慕容",
    "令狐",
    "长孙",
    "司徒",
    "夏侯",
    "端木",
)
_SOUNDS: Final = frozenset(
    "阿埃艾爱安奥巴拜班保鲍贝本比彼宾波伯勃博布曹查达戴丹道德登邓迪蒂丁杜多厄恩尔法凡菲费芬夫弗福富盖甘冈高戈哥格葛根古瓜圭"
    "哈海罕汉豪赫亨洪胡华怀惠霍基吉季加佳贾简杰金卡凯坎康考柯科克肯孔库奎拉莱赖兰朗劳勒雷黎李里理利莉连列林琳留柳龙隆娄卢"
    "鲁路伦罗洛吕马玛迈麦曼芒毛茅梅门蒙孟米密缅敏明缪摩莫默姆穆拿纳娜乃奈南瑙内嫩尼妮涅宁纽农努诺欧帕派潘庞培佩彭蓬皮平珀普"
    "齐奇契恰钱乔切钦琴青琼丘曲屈让热仁日荣茹儒瑞若撒萨塞赛桑瑟森沙莎山珊尚绍舍申什生圣施石史舒朔思斯丝司松苏素索所塔泰坦汤唐"
    "陶特腾藤提田铁廷汀通图吐托脱瓦万旺威韦为维魏温文翁沃乌武西希锡席夏香肖谢辛欣兴修雪逊雅亚延扬耶叶伊易意因茵英永尤于约云赞泽"
    "曾扎詹张章珍哲芝治朱卓兹宗祖佐杨坚滕埔"
)
_ORGANISATION_TAIL: Final = re.compile(
    "(?:有限责任公司|股份有限公司|有限公司|公司|集团|银行|大学|学院|学校|中学|小学|医院|研究院|研究所|委员会|协会|学会|联合会|基金会|联盟|"
    "俱乐部|出版社|电视台|电台|通讯社|报社|杂志社|图书馆|博物馆|乐团|剧团|乐队|球队|法院|检察院|政府|部门|总局|管理局|办公室|事务所|"
    "党|军|队|局|社|厂|院|部|署|司|处|馆|台|会)$"
)
_STRONG_TAIL: Final = re.compile(
    "(?:公司|集团|银行|大学|学院|学校|中学|小学|医院|研究院|研究所|委员会|协会|学会|联合会|基金会|联盟|俱乐部|出版社|电视台|电台|通讯社|"
    "报社|杂志社|图书馆|博物馆|乐团|剧团|乐队|球队|法院|检察院|总局|管理局|事务所|工作室|实验室|中心)$"
)
_PLACE_TAIL: Final = re.compile(
    "(?:省|市|县|区|镇|乡|村|州|岛|山|河|江|湖|海|湾|港|路|街|桥|寺|庙|宫|站|机场|公园|半岛|盆地|高原|平原|山脉|群岛)$"
)
_NOUNS: Final = frozenset(("n", "nr", "ns", "nt", "nz", "nrt", "nrfg", "vn", "j", "eng", "ng", "b", "an"))
_PEOPLE: Final = frozenset(("nr", "nrt", "nrfg"))
_WORK: Final = re.compile(r"[《〈]([^《》〈〉\n]{1,60})[》〉]")
_QUOTED: Final = re.compile(r"[“「『\"]([^“”「」『』\"，。！？；：、,\n]{2,16})[”」』\"]")
_DOTTED: Final = re.compile(r"[\u4e00-\u9fff]{1,8}(?:[·•‧・．][\u4e00-\u9fffA-Za-z]{1,10}){1,4}")
_HAN: Final = re.compile(r"[\u3400-\u9fff]+")
_LONGEST_TERM: Final = 12


class Name(NamedTuple):
    """A name and where it stands."""

    start: int
    end: int
    type: str


def marked_names(text: str) -> list[Name]:
    """Names that marks set off: works in 《》, short quotations, foreign names with their dots."""
    found: list[Name] = []
    if "《" in text or "〈" in text:
        found += [Name(each.start(1), each.end(1), WORK) for each in _WORK.finditer(text)]
    found += [Name(each.start(1), each.end(1), TERM) for each in _QUOTED.finditer(text)]
    found += [Name(each.start(), each.end(), PERSON) for each in _DOTTED.finditer(text)]
    return found


def spoken_names(folded: str, tagged: Sequence[tuple[str, str]], own: frozenset[str] = frozenset()) -> list[Name]:
    """Names by part of speech: each run of nouns is cut into the names that it is made of."""
    found: list[Name] = []
    run: list[tuple[str, str, int]] = []
    at = 0
    for word, tag in tagged:
        if tag in _NOUNS and (tag != "eng" or run):
            run.append((word, tag, at))
        elif run:
            _cut(run, found)
            run = []
        at += len(word)
    if run:
        _cut(run, found)
    return found


def _cut(run: list[tuple[str, str, int]], found: list[Name]) -> None:
    """The names of one run of nouns."""
    start = 0
    for at, (word, tag, place) in enumerate(run):
        end = place + len(word)
        if tag in _PEOPLE and is_person(word):
            _close(run[start:at], found)
            found.append(Name(place, end, PERSON))
            start = at + 1
        elif at > start and _STRONG_TAIL.search(word):
            found.append(Name(run[start][2], end, ORGANIZATION))
            start = at + 1
    _close(run[start:], found)


def _close(part: list[tuple[str, str, int]], found: list[Name]) -> None:
    while part and part[0][1] in ("b", "an", "vn") and len(part) > 1:
        part = part[1:]
    if not part:
        return
    word, tag, place = part[0]
    if len(part) == 1:
        kind = _kind(word, tag)
        if kind:
            found.append(Name(place, place + len(word), kind))
        return
    end = part[-1][2] + len(part[-1][0])
    if tag == "ns":
        if _PLACE_TAIL.search(part[-1][0]):
            found.append(Name(place, end, PLACE))
            return
        found.append(Name(place, place + len(word), PLACE))
        _close(part[1:], found)
    elif 4 <= end - place <= _LONGEST_TERM:
        found.append(Name(place, end, TERM))


def _kind(word: str, tag: str) -> str:
    if len(word) < 2:
        return ""
    if tag == "ns":
        return PLACE
    if tag == "nt":
        return ORGANIZATION
    if tag == "nz" or (tag in ("n", "j") and len(word) >= 3):
        return ORGANIZATION if _STRONG_TAIL.search(word) and len(word) > 2 else TERM
    return ""


def is_person(word: str) -> bool:
    """Whether a word that is tagged as a person's name can be one: the dictionary tags 慈善 so, too."""
    if len(word) >= 3 and all(character in _SOUNDS for character in word):
        return True
    if word[:2] in _DOUBLE_SURNAMES:
        return 3 <= len(word) <= 4
    return 2 <= len(word) <= 3 and word[0] in _SURNAMES
