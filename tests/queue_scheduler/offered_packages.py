"""Entry points of packages that are not installed."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from queue_scheduler.framework import installed_packages


def offer(monkeypatch: pytest.MonkeyPatch, *points: tuple[str, str, str]) -> None:
    """Offer these entry points, and no others: (group, name, value)."""

    def offered(*, group: str) -> list[EntryPoint]:
        return [EntryPoint(name, value, of) for of, name, value in points if of == group]

    monkeypatch.setattr(installed_packages, "entry_points", offered)
