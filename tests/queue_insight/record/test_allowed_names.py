"""What engines and plugins keep is allowed; of an engine's methods, those that it keeps."""

from __future__ import annotations

import pickletools
from collections import Counter, defaultdict, deque
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, NamedTuple, Self

import msgspec
import pytest

from queue_insight.record.allowed_names import METHODS, AllowedNames
from queue_insight.record.checkpoint import freeze
from queue_insight.record.checkpoint_error import CheckpointError
from queue_insight.record.unpickler import Budget, unpickle
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from tests.properties.engine_kit import build_queue, build_quota
from tests.properties.real_quotas import new_engine
from tests.queue_insight.record.test_unpickler import pickled


class Color(Enum):
    RED = "red"


class Pair(NamedTuple):
    first: int
    second: str


class Slotted:
    __slots__ = ("_hidden", "seen")

    def __init__(self) -> None:
        self._hidden, self.seen = 1, {2}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Slotted) and (self._hidden, self.seen) == (1, other.seen)

    __hash__ = object.__hash__


class Names(dict[str, int]):
    """A dict with a field of its own."""

    def __init__(self) -> None:
        super().__init__(a=1)
        self.more = [1]

    def twice(self) -> int:
        return 2 * self["a"]

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and isinstance(other, Names) and self.more == other.more

    __hash__ = None


class OwnState:
    def __init__(self) -> None:
        self.number = 1

    def __getnewargs_ex__(self) -> tuple[tuple[()], dict[str, int]]:
        return (), {"number": 5}

    def __new__(cls, number: int = 0) -> Self:
        found = super().__new__(cls)
        found.number = number
        return found

    def __getstate__(self) -> int:
        return self.number

    def __setstate__(self, state: int) -> None:
        self.number += state

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnState) and self.number == other.number + 5

    __hash__ = object.__hash__


class Rebuilt:
    """Pickled as a call of its class, and a state."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> Any:
        return Rebuilt, (1,), {"number": self.number}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rebuilt) and self.number == other.number

    __hash__ = object.__hash__


class Plain(msgspec.Struct):
    number: int


class Named(msgspec.Struct, kw_only=True, frozen=True):
    number: int


def again(value: object, *also: str) -> object:
    return unpickle(pickled(value), AllowedNames(also), Budget())


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([Counter(a=2), Counter()], id="counters"),
        pytest.param([defaultdict(int, {"a": 1}), defaultdict(list)], id="dicts with a default"),
        pytest.param([deque([1, 2], maxlen=3), deque()], id="deques"),
        pytest.param([Decimal("1.5"), Fraction(-1, 3)], id="exact numbers"),
        pytest.param([datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2)], id="times"),
        pytest.param([timedelta(days=1, microseconds=3)], id="durations"),
        pytest.param([int, Color, Plain], id="classes as values"),
        pytest.param([Color.RED, Pair(1, "x"), Plain(1), Named(number=2)], id="values of a plugin"),
        pytest.param([Slotted(), Names(), OwnState(), Rebuilt(7)], id="objects of a plugin"),
    ],
)
def test_what_plugins_keep_is_read(value: object) -> None:
    assert again(value, "tests") == value


def test_a_method_of_a_plugins_object_is_of_the_same_object() -> None:
    names = Names()
    found = again([names, names.twice], "tests")
    assert isinstance(found, list)
    assert found[1]() == 2
    assert found[1].__self__ is found[0]


@pytest.mark.parametrize(
    "value", [Color.RED, Color, Pair(1, "x"), Plain(1), Named(number=1), Slotted(), Rebuilt(1)]
)
def test_classes_of_other_packages_are_refused(value: object) -> None:
    with pytest.raises(CheckpointError, match="not allowed"):
        again(value)


def test_the_methods_that_engines_keep_are_listed() -> None:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    engine.queue_state.take_turns_by_use(3600)
    engine.on_quota(build_quota("a", cpu=1))
    engine.on_queue(build_queue("a"))
    (top,), _, _ = msgspec.msgpack.decode(freeze(engine.fork()))
    texts = [arg for _, arg, _ in pickletools.genops(top) if isinstance(arg, str)]
    assert {name for _, name in METHODS} <= set(texts), "one that none keeps need not be allowed"
