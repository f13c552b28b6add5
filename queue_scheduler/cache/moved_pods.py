"""Pods of units that are elsewhere: their labels name another quota than the unit's. Pure.

They are groups of their own, which `pod_accounting` fills, and are charged by their labels. Here is
which unit has which of these groups, and of which units that has changed, to be told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from shared_api.objects.meta import Uid
from shared_api.well_known_labels import read_quota_name, read_tree_quota_name

ELSEWHERE: Final = "elsewhere:"
"""Prefix of such groups. The unit's uid follows, and the quota and node that the pods name."""

Group: TypeAlias = str
"""A group of pods: the uid of a unit, `STRAY` (`pod_accounting`) or `ELSEWHERE` with what follows
them, or "" for foreign."""


class MovedPods:
    """The groups of pods that are elsewhere, by the units that they are of."""

    def __init__(self) -> None:
        self._groups: dict[Group, tuple[Group, ...]] = {}
        # Keys of units; a fork tells nothing.
        self._news: dict[str, None] = {}

    def groups_of(self, uid: Group) -> tuple[Group, ...]:
        """Return the groups of a unit's living pods that are charged to other quotas, sorted."""
        return self._groups.get(uid, ())

    def join(self, group: Group, unit_key: str) -> None:
        """Take that a group has one more pod; `unit_key` is "" if the unit is gone."""
        uid = unit_of_group(group)
        self._groups[uid] = tuple(sorted({*self.groups_of(uid), group}))
        self._note(unit_key)

    def leave(self, group: Group, unit_key: str) -> None:
        """Take that a group has no pods any more."""
        uid = unit_of_group(group)
        others = tuple([each for each in self._groups.pop(uid) if each != group])
        if others:
            self._groups[uid] = others
        self._note(unit_key)

    def note_admitted(self, uid: Uid, unit_key: str) -> None:
        """Take that a unit occupies quota: if it has pods elsewhere, that is to be told now."""
        if uid in self._groups:
            self._note(unit_key)

    def forget_unit(self, unit_key: str) -> None:
        """Tell nothing of a unit that is gone."""
        self._news.pop(unit_key, None)

    def take_units(self) -> list[str]:
        """Return, once, the keys of the units of whose pods some are elsewhere, or were."""
        keys = list(self._news)
        self._news.clear()
        return keys

    def fork(self) -> MovedPods:
        """Return an independent copy, with nothing to tell."""
        twin = MovedPods()
        twin._groups = dict(self._groups)
        return twin

    def validate(self, groups: Iterable[Group]) -> None:
        """Raise AssertionError unless these are the groups that have pods, whatever they are."""
        want: dict[Group, tuple[Group, ...]] = {}
        for group in sorted(filter(is_elsewhere, groups)):
            uid = unit_of_group(group)
            want[uid] = (*want.get(uid, ()), group)
        assert self._groups == want, f"pods elsewhere differ: {self._groups}, should be {want}"

    def _note(self, unit_key: str) -> None:
        if unit_key:
            self._news[unit_key] = None


def is_elsewhere(group: Group) -> bool:
    """Return whether a group is of pods of a unit that name another quota."""
    return group.startswith(ELSEWHERE)


def unit_of_group(group: Group) -> Uid:
    """Return the uid of the unit that a group is of; not of strays."""
    return Uid(group.removeprefix(ELSEWHERE).partition(" ")[0])


def group_elsewhere(uid: Uid, labels: Mapping[str, str]) -> Group:
    """Return the group of pods of a unit that are charged by their own labels."""
    return f"{ELSEWHERE}{uid}{words_of(labels)}"


def words_of(labels: Mapping[str, str]) -> str:
    """Return what plugins read off the labels of a pod that is charged by itself."""
    quota, node = quotas_named_by(labels)
    in_quota, at_node = f" in quota {quota}" if quota else "", f" at node {node}" if node else ""
    return f"{in_quota}{at_node}"


def quotas_named_by(labels: Mapping[str, str]) -> tuple[str, str]:
    """Return the quota, and the node of a tree, that labels name; "": none."""
    return read_quota_name(labels), read_tree_quota_name(labels)
