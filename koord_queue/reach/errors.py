"""Why a server has not answered, as far as commands act on it."""

from __future__ import annotations

from koord_queue.errors import CommandError


class NotServed(CommandError):
    """Nothing that is installed answers this question; others may be asked."""


class Refused(CommandError):
    """The server does not know the caller, or the caller lacks a right (401, 403)."""


class Missing(CommandError):
    """There is no such object (404)."""


class Conflicting(CommandError):
    """The object has changed meanwhile, or is there already (409)."""
