"""Objects as the API server has them, read with the token of who looks at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from queue_insight.page.visitor_client import in_words
from shared_api.client.errors import ApiFailure, MalformedAnswer
from shared_api.debug_api.views import View
from shared_api.text_decoding import TextError, check_depth


class ManifestView(View):
    """An object without its managed fields; null: `problem` says why there is none."""

    manifest: dict[str, Any] | None
    problem: str = ""


_parts: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
"""Takes apart one level of an object: all else is passed on as it came."""


def read_manifest(read: Callable[[], bytes]) -> bytes:
    """Return an object as `ManifestView`, as JSON.

    Args:
        read: Returns it as the API server has it; an `ApiFailure` becomes `problem`.
    """
    try:
        shown, problem = _without_managed_fields(read()), ""
    except ApiFailure as failure:
        shown, problem = None, in_words(failure)
    return msgspec.json.encode({"manifest": shown, "problem": problem})


def _without_managed_fields(body: bytes) -> dict[str, msgspec.Raw]:
    """Return an object, whose parts are not decoded: it may have megabytes."""
    try:
        check_depth(body.decode())
        found = _parts.decode(body)
        metadata = _parts.decode(found["metadata"])
    except (msgspec.DecodeError, TextError, KeyError, ValueError, RecursionError) as error:
        raise MalformedAnswer(f"an object cannot be read: {error}") from error
    metadata.pop("managedFields", None)
    found["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return found
