"""How the command line speaks: Chinese first, English on request; results on stdout, everything else on stderr."""

from __future__ import annotations

import json
import sys
from contextvars import ContextVar
from enum import StrEnum
from typing import Any

from rich.console import Console


class Language(StrEnum):
    zh = "zh"
    en = "en"


_language: ContextVar[Language] = ContextVar("language", default=Language.zh)

# What kind of error it is, for readers of English; the details are those of the engine, in Chinese.
KINDS = {
    "bad_input": "Bad input",
    "bad_settings": "Bad settings",
    "bad_filter": "Bad filter",
    "bad_query": "Bad query",
    "not_found": "Not found",
    "already_there": "Already there",
    "refused": "File refused",
    "folder_in_use": "The data folder is in use by another process",
    "missing_extra": "An optional dependency is not installed",
    "model_error": "Model error",
    "model_unavailable": "The model is not available",
    "bad_model_reply": "The model gave a bad reply",
    "hash_mismatch": "The weights are not the pinned ones",
    "index_unusable": "The index is unusable; rebuild it",
    "recall_failed": "Every arm of the search failed",
}


def speak(language: Language) -> None:
    _language.set(language)


def say(zh: str, en: str) -> str:
    return en if _language.get() == Language.en else zh


def kind_of_error(word: str) -> str:
    """What precedes an error's own message: nothing in Chinese, its kind in English."""
    return say("", f"{KINDS[word]}: " if word in KINDS else "")


def out() -> Console:
    return Console(file=sys.stdout, highlight=False, soft_wrap=False)


def err() -> Console:
    return Console(file=sys.stderr, highlight=False)


def print_json(document: Any) -> None:
    """The one document that a command with `--json` prints."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")
    sys.stdout.flush()


def note(text: str, style: str = "dim") -> None:
    """A line for people on stderr."""
    err().print(text, style=style, markup=False, soft_wrap=True)
