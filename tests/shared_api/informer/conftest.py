"""The fixture of all tests of informers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shared_api.informer.informer_scene import Scene


@pytest.fixture
def scene() -> Iterator[Scene]:
    scene = Scene()
    yield scene
    assert {item.metadata.key: item for item in scene.informer.store.list()} == scene.listener.state
