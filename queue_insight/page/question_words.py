"""What is wrong with a question of the page, in sentences instead of paths of fields."""

from __future__ import annotations

import re
from typing import Any, Final

from queue_insight.debug_api.what_if_routes import WhatIfQuestion
from queue_insight.what_if.edit import EditError
from shared_api.debug_api.json_body import MAX_ERRORS, Mistakes

_WORDS: Final = {
    "": "question",
    "at": "time (at)",
    "copies": "number of nodes",
    "edits": "list of edits",
    "filter": "filter",
    "horizonSeconds": "time to look ahead",
    "kind": "kind",
    "limit": "number of rows (limit)",
    "name": "name",
    "namespace": "namespace",
    "offset": "number of rows to leave out (offset)",
    "sort": "order (sort)",
}
"""What the form and the views call a field; "" is the whole question."""

_AMOUNT: Final = re.compile(r"patch\.spec\.(min|max)\.(.+)")
_PREDICATE: Final = re.compile(r"(is|must|cannot|should|has) ")
_SUBJECT_OF_PYDANTIC: Final = re.compile(r"(Input|String|List|Value) (?=should )")
_PLACES: Final = frozenset({"query", "path", "header", "body"})
_OTHER_MESSAGES: Final = {
    "Field required": "is required",
    "Extra inputs are not permitted": "is not known",
}


def describe_edit(error: EditError, question: WhatIfQuestion) -> str:
    """Return what is wrong with an edit of a question as a sentence."""
    edit = question.edits[error.number]
    whole = f"Edit {error.number + 1} ({f'{edit.kind} {edit.name}'.strip()})"
    if _PREDICATE.match(error.text):
        return f"{whole}: the {_words_of(error.field)} {error.text}."
    if error.field.startswith("patch"):
        return f"{whole}: the {_words_of(error.field)}: {error.text}."
    return f"{whole}: {error.text}."


def describe_mistakes(found: Mistakes) -> str:
    """Return mistakes that pydantic has found in a question as sentences."""
    said = [_describe(each["loc"], str(each["msg"])) for each in found[:MAX_ERRORS]]
    if len(found) > MAX_ERRORS:
        said.append(f"More mistakes: {len(found) - MAX_ERRORS}.")
    return " ".join(said)


def _describe(place: tuple[Any, ...], message: str) -> str:
    names = [each for each in place if each not in _PLACES]
    match names:
        case ["edits", int(number), *names]:
            begin = f"Edit {number + 1}: the"
        case _:
            begin = "The"
    subject = f"{begin} {_words_of('.'.join(map(str, names)))}"
    told = _OTHER_MESSAGES.get(message) or _SUBJECT_OF_PYDANTIC.sub("", message)
    return f"{subject} {told}." if _PREDICATE.match(told) else f"{subject}: {told}."


def _words_of(field: str) -> str:
    amount = _AMOUNT.fullmatch(field)
    if amount:
        return f"{amount[1]} of {amount[2]}"
    return _WORDS.get(field, f"field {field.removeprefix('patch.')}")
