"""One edit of a question, as data, and the error that names its field."""

from __future__ import annotations

from typing import Any, Final

import msgspec

PATCH: Final = "patch"


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """An edit of one object.

    Attributes:
        kind: Kind of the object, or `SchedulerSettings`.
        api_version: Its group and version; "": those that the scheduler reads.
        namespace: Its namespace; "" if it has none, or its name is unique.
        name: Its name; an unknown one creates it.
        patch: A JSON merge patch; None deletes the object. Unset with `copies` and `end`.
        operations: A JSON patch in place of `patch`, for a part of a list; for QuotaPolicies alone.
        copies: How many nodes like it are added; for nodes alone.
        end: Whether its job ends, with all pods; for units alone.
        requeue: Whether it is evicted, and waits again; for units alone.
    """

    kind: str
    api_version: str = ""
    namespace: str = ""
    name: str = ""
    patch: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    operations: tuple[dict[str, Any], ...] = ()
    copies: int = 0
    end: bool = False
    requeue: bool = False


class FieldError(ValueError):
    """A field of an edit is wrong.

    Attributes:
        field: Its path in the edit, such as `patch.spec.priority`.
        text: What is wrong with it.
    """

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {text}")
        self.field, self.text = field, text


class EditError(ValueError):
    """A field of one edit of a question is wrong.

    Attributes:
        number: The place of the edit in the question, from 0.
        field: The path of the field in the edit.
        text: What is wrong with it.
    """

    def __init__(self, number: int, error: FieldError) -> None:
        super().__init__(f"edits[{number}].{error.field}: {error.text}")
        self.number, self.field, self.text = number, error.field, error.text


class AppliedEdit(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an edit that was applied to an engine.

    Attributes:
        unread: Paths in the patch that the scheduler does not read: they change nothing.
        stranded: Units that lose pods by it, and leave their place.
        requeued: Units that leave their place because that was asked for.
    """

    unread: tuple[str, ...] = ()
    stranded: tuple[str, ...] = ()
    requeued: tuple[str, ...] = ()
