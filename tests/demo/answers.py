"""The questions that the demo puts to the debug API once, and their answers as lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

Json = dict[str, Any]
Ask = Callable[[str], object]
"""Returns the JSON of a path of the scheduler's debug API; anything else if there is no answer."""

MOST_CHANGES: Final = 4


def ask_why(ask: Ask) -> Iterator[str]:
    """Yield why a unit waits, and what would start it; nothing while none waits."""
    page = ask("/debug/queues?limit=100")
    heads = [queue["head"] for queue in page["items"]] if isinstance(page, dict) else []
    head = next((head for head in heads if head is not None and head["refusal"]), None)
    if head is None:
        return
    told = ask(f"/debug/queueunits/{head['namespace']}/{head['name']}/explain?changes=true")
    if not isinstance(told, dict) or told["verdict"] != "waiting":
        return
    yield f"asked why {head['namespace']}/{head['name']} waits:"
    yield f"  {told['summary']}"
    starts = [each["description"] for each in told["changes"] if each["sufficient"]]
    if starts:
        yield "  Any one of these would start it now:"
        yield from (f"  - {text}" for text in starts[:MOST_CHANGES])
