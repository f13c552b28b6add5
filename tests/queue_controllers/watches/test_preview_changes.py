"""Which changes repeat the previews."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, Final, cast

import msgspec
import pytest

from queue_controllers.watches.informers import InformerFactory
from queue_controllers.watches.preview_changes import FOLLOWED, PreviewChanges, slim_news
from shared_api.client.resource_client import ResourceType
from shared_api.client.resource_types import OnlyMetadata
from shared_api.objects.meta import ObjectMeta, Uid
from shared_api.program import Host
from shared_api.testing.virtual_clock import VirtualClock

POLICIES: Final = ["mutatingadmissionpolicies", "mutatingadmissionpolicybindings"]


class Watch:
    """A watch of a kind, stepped by the test."""

    def __init__(self, rest: float) -> None:
        self.rest = rest

    def step(self) -> float:
        return self.rest


class Maker:
    """A factory of watches that keeps their callbacks."""

    def __init__(self) -> None:
        self.on_gone: list[Any] = []

    def follow(self, resource_type: Any, store: Any, *, on_gone: Any, **_more: Any) -> Watch:
        assert not resource_type.namespaced
        self.on_gone.append(on_gone)
        return Watch(float(len(self.on_gone)))


def news() -> tuple[PreviewChanges, Maker, list[str]]:
    got: list[str] = []
    maker = Maker()
    return PreviewChanges(cast("InformerFactory", maker), on_news=got.append), maker, got


def found(**changes: Any) -> OnlyMetadata:
    meta = ObjectMeta(name="w", uid=Uid("1"), generation=1, resource_version="5")
    return OnlyMetadata(metadata=msgspec.structs.replace(meta, **changes))


@pytest.mark.parametrize(
    ("old", "new", "is_news"),
    [
        pytest.param(None, found(), True, id="it comes"),
        pytest.param(found(), None, True, id="it goes"),
        pytest.param(found(), found(generation=2, resource_version="6"), True, id="its spec"),
        pytest.param(found(), found(resource_version="6"), False, id="its annotations"),
        pytest.param(found(), found(uid=Uid("2")), True, id="another of its name"),
        pytest.param(
            found(generation=0),
            found(generation=0, resource_version="6"),
            True,
            id="a kind that counts no generations",
        ),
    ],
)
def test_what_is_news(old: OnlyMetadata | None, new: OnlyMetadata | None, is_news: bool) -> None:
    preview_news, _, got = news()
    preview_news.on_change(old, new)
    assert got == ([""] if is_news else [])


def test_what_is_in_a_namespace_is_news_there() -> None:
    preview_news, _, got = news()
    preview_news.on_change(None, found(namespace="team", generation=0))
    assert got == ["team"]


def test_a_kind_that_is_no_longer_served_is_news() -> None:
    preview_news, maker, got = news()
    assert len(maker.on_gone) == len(FOLLOWED)
    maker.on_gone[-1]()
    assert got == [""]
    assert preview_news.step() == 1.0


class Discovery:
    """A server that has kinds of admissionregistration.k8s.io in some versions."""

    def __init__(self, served: dict[str, list[str]]) -> None:
        self._served = served

    def get_raw(self, path: str) -> bytes:
        resources = [
            {"name": each, "kind": each, "namespaced": False, "verbs": ["list"]}
            for each in self._served.get(path.rpartition("/")[2], [])
        ]
        return json.dumps({"kind": "APIResourceList", "resources": resources}).encode()


class Factory(InformerFactory):
    """Notes the versions in which informers are made."""

    def __init__(self, served: dict[str, list[str]]) -> None:
        host = SimpleNamespace(client=Discovery(served), clock=VirtualClock())
        super().__init__(cast("Host", host), wait_seconds=0.0)
        self.made: list[str] = []

    def make(self, resource_type: ResourceType[Any], *_: Any, **_more: Any) -> Any:
        self.made.append(f"{resource_type.version}/{resource_type.plural}")
        return SimpleNamespace(add_handler=lambda _handler: None)


@pytest.mark.parametrize(
    ("served", "want"),
    [
        pytest.param({"v1": POLICIES}, [f"v1/{each}" for each in POLICIES], id="1.36"),
        pytest.param({"v1beta1": POLICIES}, [f"v1beta1/{each}" for each in POLICIES], id="1.35"),
        pytest.param(
            {"v1": POLICIES, "v1beta1": POLICIES}, [f"v1/{each}" for each in POLICIES], id="both"
        ),
        pytest.param({"v1beta1": ["validatingadmissionpolicies"]}, [], id="only those it knows"),
    ],
)
def test_policies_are_watched_in_the_version_that_is_served(
    served: dict[str, list[str]], want: list[str]
) -> None:
    factory = Factory(served)
    PreviewChanges(factory, on_news=lambda _namespace: None).step()
    assert factory.made == want


def test_of_an_object_little_is_kept() -> None:
    whole = found(annotations={"a": "b" * 1000}, labels={"c": "d"})
    assert slim_news(whole) == found()
