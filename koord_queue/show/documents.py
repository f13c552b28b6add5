"""Objects as documents: JSON, YAML, or names, in the form of kubectl."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from koord_queue.show.printer import Printer, printable


def show_documents(out: Printer, documents: Sequence[bytes], form: str, resource: str) -> None:
    """Write objects as a List, or their names.

    Args:
        out: Where to.
        documents: Each as JSON.
        form: `json`, `yaml` or `name`.
        resource: Singular name and group, before each name.
    """
    objects = [msgspec.json.decode(each) for each in documents]
    if form == "name":
        for each in objects:
            out.line(printable(f"{resource}/{each['metadata']['name']}"))
        return
    show_document(out, {"apiVersion": "v1", "kind": "List", "items": objects}, form)


def show_document(out: Printer, document: object, form: str) -> None:
    """Write one value as JSON or YAML; strings in it are escaped by the form."""
    if form == "json":
        text = msgspec.json.format(msgspec.json.encode(document), indent=4).decode()
        out.line(text)
        return
    import yaml  # noqa: PLC0415 - one form in five needs it

    out.line(yaml.safe_dump(document, sort_keys=False, allow_unicode=False).rstrip())
