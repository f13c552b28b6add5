"""The controllers over the fake API server."""

from __future__ import annotations

import pytest

from tests.queue_controllers.controllers_world import World


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def world_without_quotas() -> World:
    return World(quotas=False)
