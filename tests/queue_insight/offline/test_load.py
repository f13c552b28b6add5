"""What a dump needs that is not here is said; what contradicts itself is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_insight.dump.codec import DumpError, decode_dump
from queue_insight.offline.load import load_engine
from tests.queue_insight.offline.dump_files import dump_bytes, edited
from tests.queue_scheduler.shell_kit import ShellKit


def settings_of(data: bytes, **changed: Any) -> dict[str, Any]:
    settings = msgspec.json.decode(data)["settings"]
    return {**settings, **changed}


def test_a_plugin_that_is_not_installed_is_left_out_and_named(kit: ShellKit) -> None:
    data = dump_bytes(kit)
    configuration = settings_of(data)["configuration"]
    configuration["plugins"].append({"name": "SpotNodes"})
    configuration["pluginConfigs"]["SpotNodes"] = {"a": 1}
    data = edited(data, settings=settings_of(data, configuration=configuration))
    loaded = load_engine(decode_dump(data, "0"))
    assert loaded.notes == ("plugin SpotNodes is not installed here",)
    assert [plugin.name for plugin in loaded.engine.plugins] == [
        "Priority",
        "ElasticQuotaV2",
    ]


def test_a_policy_that_is_not_installed_and_what_was_left_out_are_named(kit: ShellKit) -> None:
    data = dump_bytes(kit)
    (queue,) = msgspec.json.decode(data)["queues"]
    queue["status"]["policyInForce"] = "Deadline"
    data = edited(data, queues=[queue], leftOut=["plugin SpotNodes"])
    assert load_engine(decode_dump(data, "0")).notes == (
        "the dump has no plugin SpotNodes",
        "queue policy Deadline is not installed here",
    )


@pytest.mark.parametrize(
    ("changed", "want"),
    [
        pytest.param({"oversellRate": "1/0"}, "contradicts itself: ZeroDivisionError", id="a rate"),
        pytest.param(
            {"configuration": {"pluginConfigs": {"ElasticQuotaV2": {"mode": "some"}}}},
            "cannot be used here: pluginConfigs.ElasticQuotaV2",
            id="arguments of a plugin",
        ),
    ],
)
def test_settings_that_cannot_be_used(kit: ShellKit, changed: dict[str, Any], want: str) -> None:
    data = dump_bytes(kit)
    dump = decode_dump(edited(data, settings=settings_of(data, **changed)), "0")
    with pytest.raises(DumpError, match=want):
        load_engine(dump)


@pytest.mark.parametrize("proved", [False, True])
def test_names_are_trusted_as_in_the_cluster(kit: ShellKit, proved: bool) -> None:
    data = dump_bytes(kit)
    data = edited(data, settings=settings_of(data, namesAreProved=proved))
    assert load_engine(decode_dump(data, "0")).engine.usage.are_names_proved is proved
