"""Everything Qianxun raises on purpose.

QianxunError
├── BadInput                  the caller can mend it: the message says how
│   ├── BadSettings           a settings file, variable or argument
│   │   └── PluginError       a part of another package that cannot be imported or does not fit
│   ├── BadFilter             an unknown field or an impossible value
│   └── BadQuery              empty, too long, top_k out of bounds
├── NotFound                  no such knowledge base, document, chunk, model
├── AlreadyThere              the name or id is taken
├── Unauthorized              no key, or one that is unknown or revoked
├── Forbidden                 a key that may not do this
├── Overloaded                too much at once: the same again in a moment may work
├── QuotaExceeded             more than the tenant may have, or search in a minute
├── Refused                   a file that was not taken in
│   ├── UnsupportedFile       no parser for it
│   ├── TooLarge              over the size, page, cell or memory limit
│   ├── TooSlow               over the time limit
│   └── Unreadable            damaged, encrypted, or not what its name says
├── FolderInUse               another process owns the data folder, or the database
├── LeaseLost                 another process has taken over what this one was doing: it goes on there
├── RecordsUnavailable        the database server cannot be reached, or refuses us; trying again may help
├── MissingExtra              an optional dependency is not installed
├── ModelError
│   ├── ModelUnavailable      cannot be reached or loaded now; trying again may help
│   ├── BadModelReply         wrong count, wrong dimension, not a number
│   └── HashMismatch          weights that are not the pinned ones
├── IndexUnusable             missing, corrupt or foreign: rebuild it from the records
├── RetrieverUnavailable      one arm of a recall cannot answer
├── RecallFailed              every arm failed
└── ServiceUnavailable        a running service cannot be reached, answers too late, or is no such service
"""

from __future__ import annotations


class QianxunError(Exception):
    """The root. ``word`` is a stable machine word; ``hint`` says what to do next."""

    word = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = _tellable(message)
        self.hint = _tellable(hint)

    def __str__(self) -> str:
        return f"{self.message}　{self.hint}" if self.hint else self.message


class BadInput(QianxunError):
    word = "bad_input"


class BadSettings(BadInput):
    word = "bad_settings"


class PluginError(BadSettings):
    word = "bad_plugin"


class BadFilter(BadInput):
    word = "bad_filter"


class BadQuery(BadInput):
    word = "bad_query"


class NotFound(QianxunError):
    word = "not_found"


class AlreadyThere(QianxunError):
    word = "already_there"


class Unauthorized(QianxunError):
    word = "unauthorized"


class Forbidden(QianxunError):
    word = "forbidden"


class Overloaded(QianxunError):
    word = "overloaded"


class QuotaExceeded(QianxunError):
    """``retry_seconds``: when the same may work; 0 where waiting does not help."""

    word = "quota_exceeded"
    retry_seconds = 0

    def __init__(self, message: str, *, hint: str = "", retry_seconds: int = 0) -> None:
        super().__init__(message, hint=hint)
        self.retry_seconds = retry_seconds


class Refused(QianxunError):
    word = "refused"


class UnsupportedFile(Refused):
    word = "unsupported_file"


class TooLarge(Refused):
    word = "too_large"


class TooSlow(Refused):
    word = "too_slow"


class Unreadable(Refused):
    word = "unreadable"


class FolderInUse(QianxunError):
    word = "folder_in_use"


class LeaseLost(QianxunError):
    word = "lease_lost"


class RecordsUnavailable(QianxunError):
    word = "records_unavailable"


class MissingExtra(QianxunError):
    """Raised where an extra's driver would be imported; names the extra to install."""

    word = "missing_extra"
    package = extra = ""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"缺少依赖 {package}", hint=f"请安装：pip install 'qianxun[{extra}]'")
        self.package = package
        self.extra = extra


class ModelError(QianxunError):
    word = "model_error"


class ModelUnavailable(ModelError):
    word = "model_unavailable"


class BadModelReply(ModelError):
    word = "bad_model_reply"


class HashMismatch(ModelError):
    word = "hash_mismatch"


class IndexUnusable(QianxunError):
    word = "index_unusable"


class RetrieverUnavailable(QianxunError):
    word = "retriever_unavailable"


class RecallFailed(QianxunError):
    word = "recall_failed"


class ServiceUnavailable(QianxunError):
    word = "service_unavailable"


def _tellable(text: str) -> str:
    """A message may quote what was said, and that may hold half of a surrogate pair, which nobody can be sent."""
    return text.encode("utf-8", "replace").decode("utf-8")


def error_named(word: str, message: str, *, hint: str = "") -> QianxunError:
    """The error that somebody else raised and told by its ``word``; of no particular kind where that is unknown."""
    kind = _by_word(QianxunError).get(word, QianxunError)
    error = kind.__new__(kind)  # not by its own constructor: what that would say has been said
    QianxunError.__init__(error, message, hint=hint)
    error.word = word or kind.word
    return error


def _by_word(kind: type[QianxunError]) -> dict[str, type[QianxunError]]:
    found: dict[str, type[QianxunError]] = {}
    for below in kind.__subclasses__():
        found |= _by_word(below)
    return found | {kind.word: kind}  # one that has no word of its own goes by its parent's
