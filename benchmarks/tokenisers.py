"""Which jieba: speed, agreement and user dictionaries of the peers that are installed, in search mode, side by side.

pip install jieba jieba_fast jieba_fast_dat
python -W ignore -m benchmarks.tokenisers --passages 5000
"""

from __future__ import annotations

import argparse
import importlib
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

from benchmarks.passages import passages
from qianxun import chinese

Cut: TypeAlias = Callable[[str], list[str]]
ROUNDS = 3


def peers(own: Sequence[str] = ()) -> Iterator[tuple[str, Cut]]:
    """Every peer that can be imported, each knowing the words in ``own``; jieba, the reference, first."""
    for name in ("jieba", "jieba_fast", "jieba_fast_dat"):
        try:
            module: Any = importlib.import_module(name)
        except ImportError:
            print(f"{name}: not installed, left out")
            continue
        module.setLogLevel(logging.ERROR)
        for word in own:
            module.add_word(word)
        yield name, module.lcut_for_search
    rjieba: Any = importlib.import_module("rjieba").Jieba()
    for word in own:
        rjieba.add_word(word, None, None)
    yield "rjieba", rjieba.cut_for_search


def best_seconds(work: Callable[[str], object], texts: Sequence[str]) -> float:
    """CPU seconds of the quickest round: other work on the machine only ever adds."""

    def once() -> float:
        start = time.process_time()
        for text in texts:
            work(text)
        return time.process_time() - start

    work(texts[0])  # dictionaries load on first use
    return min(once() for _ in range(ROUNDS))


def agreement(ours: Cut, theirs: Cut, texts: Sequence[str]) -> float:
    """F1 of the tokens, as bags, passage by passage."""
    shared = total = 0
    for text in texts:
        left, right = Counter(ours(text)), Counter(theirs(text))
        shared += 2 * (left & right).total()
        total += left.total() + right.total()
    return shared / total


def frequent_strings(texts: Sequence[str], count: int, length: int = 5) -> list[str]:
    """The commonest Han strings of a length, most of them no words: a hard user dictionary."""
    strings: Counter[str] = Counter()
    for text in texts:
        strings.update(text[at : at + length] for at in range(len(text) - length + 1))
    han = (string for string, _ in strings.most_common() if all("\u4e00" <= c <= "\u9fff" for c in string))
    return [string for _, string in zip(range(count), han, strict=False)]


def found_whole(cut: Cut, own: Sequence[str], texts: Sequence[str]) -> float:
    """Of the passages that contain a word of the dictionary, the share in which it comes out whole."""
    asked = found = 0
    for text in texts:
        tokens = set(cut(text))
        present = [word for word in own if word in text]
        asked += len(present)
        found += sum(word in tokens for word in present)
    return found / asked


def threads_gain(cut: Cut, texts: Sequence[str], threads: int = 2) -> float:
    """Wall time of one thread over that of several."""

    def wall(workers: int) -> float:
        parts = [texts[at :: 4 * workers] for at in range(4 * workers)]
        with ThreadPoolExecutor(workers) as pool:
            start = time.perf_counter()
            list(pool.map(lambda part: [cut(text) for text in part], parts))
            return time.perf_counter() - start

    return min(wall(1) for _ in range(ROUNDS)) / min(wall(threads) for _ in range(ROUNDS))


def report(texts: Sequence[str]) -> None:
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    sample = texts[: len(texts) // 4]
    plain = dict(peers())
    reference = plain.get("jieba", plain["rjieba"])
    rows = [
        (name, megabytes / best_seconds(cut, texts), agreement(cut, reference, sample), threads_gain(cut, sample))
        for name, cut in plain.items()
    ]
    own = frequent_strings(sample, 200)
    whole = {name: found_whole(cut, own, sample) for name, cut in peers(own)}
    print("| tokeniser, search mode | MB/s | agreement with jieba | own words found whole | 2 threads over 1 |")
    print("| --- | --- | --- | --- | --- |")
    for name, speed, same, gain in rows:
        print(f"| {name} | {speed:.2f} | {same:.4f} | {whole[name]:.3f} | {gain:.2f} |")
    print("\n| step | MB/s | time over bare rjieba |\n| --- | --- | --- |")
    bare = best_seconds(plain["rjieba"], texts)
    for step in (chinese.fold, chinese.index_words, chinese.index_grams):
        seconds = best_seconds(step, texts)
        print(f"| {step.__name__} | {megabytes / seconds:.1f} | {seconds / bare:.2f} |")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--passages", type=int, default=5000)
    report([text for _, text in passages(arguments.parse_args().passages)])
