"""Which jieba: speed, agreement and user dictionaries of the peers that are installed, in search mode, side by side.

pip install jieba jieba_fast jieba_fast_dat
python -W ignore -m benchmarks.tokenisers --passages 5000
"""

from __future__ import annotations

import argparse
import importlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from benchmarks.passages import passages
from qianxun.text import chinese

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
        module.initialize()  # jieba_fast_dat cuts without its dictionary, silently, until it is told to load it
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


def held(cut: Cut, text: str) -> float:
    """The share of one long call of compiled code during which no other thread could run: it held the GIL."""
    call = threading.Thread(target=cut, args=(text,))
    begun = last = time.perf_counter()
    stalled = 0.0
    call.start()
    while call.is_alive():
        time.sleep(0.001)
        now = time.perf_counter()
        stalled = max(stalled, now - last)
        last = now
    return stalled / (last - begun)


def report(texts: Sequence[str]) -> None:
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    sample = texts[: len(texts) // 4]
    plain = dict(peers())
    reference = plain.get("jieba", plain["rjieba"])
    rows = [
        (name, megabytes / best_seconds(cut, texts), agreement(cut, reference, sample)) for name, cut in plain.items()
    ]
    own = frequent_strings(sample, 200)
    whole = {name: found_whole(cut, own, sample) for name, cut in peers(own)}
    print("| tokeniser, search mode | MB/s | agreement with jieba | own words found whole |")
    print("| --- | --- | --- | --- |")
    for name, speed, same in rows:
        print(f"| {name} | {speed:.2f} | {same:.4f} | {whole[name]:.3f} |")
    print(f"\nrjieba holds the GIL for {held(plain['rjieba'], chr(10).join([*texts] * 4)):.2f} of a long call")
    print("\n| step | MB/s | time over bare rjieba |\n| --- | --- | --- |")
    bare = best_seconds(plain["rjieba"], texts)
    for step in (chinese.fold, chinese.index_words, chinese.index_grams):
        seconds = best_seconds(step, texts)
        print(f"| {step.__name__} | {megabytes / seconds:.1f} | {seconds / bare:.2f} |")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--passages", type=int, default=5000)
    report([text for _, text in passages(arguments.parse_args().passages)])
