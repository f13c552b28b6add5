"""Faults that raise once, as a plugin may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


class PluginError(Exception):
    """Raised by the fault; no code catches it by name."""


def raise_once(
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    when: Callable[..., bool] = lambda *_, **__: True,
) -> None:
    """Let a method raise at its next call for which `when` is true, and work from then on."""
    real = getattr(owner, name)
    is_over = False

    def method(*args: Any, **kwargs: Any) -> Any:
        nonlocal is_over
        if not is_over and when(*args, **kwargs):
            is_over = True
            raise PluginError(name)
        return real(*args, **kwargs)

    monkeypatch.setattr(owner, name, method)
