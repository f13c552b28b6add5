"""What a check and its config ask for, or why they are invalid."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from queue_admission_checks.check_settings import (
    CheckSettings,
    InvalidCheck,
    RetryRule,
    config_name,
    is_known_class,
    read_settings,
)
from shared_api.objects.admission_check import AdmissionCheck
from shared_api.objects.provisioning_request_config import ProvisioningRequestConfig


def settings_of(**spec: Any) -> CheckSettings | InvalidCheck:
    body = {"metadata": {"name": "c"}, "spec": {"provisioningClassName": "x.y", **spec}}
    return read_settings(msgspec.convert(body, ProvisioningRequestConfig))


def test_all_settings_are_read() -> None:
    label = {"key": "pool", "valueFromProvisioningClassDetail": "NodePool"}
    got = settings_of(
        parameters={"a": "b"},
        managedResources=["cpu"],
        retryStrategy={"backoffLimitCount": 1, "backoffBaseSeconds": 2, "backoffMaxSeconds": 3},
        podSetUpdates={"nodeSelector": [label]},
    )
    assert isinstance(got, CheckSettings)
    assert (got.class_name, got.parameters) == ("x.y", {"a": "b"})
    assert got.managed_resources == frozenset({"cpu"})
    assert got.retry == RetryRule(limit=1, base_seconds=2, max_seconds=3)
    assert [each.key for each in got.node_selector] == ["pool"]


def test_an_older_crd_has_no_retry_strategy() -> None:
    got = settings_of()
    assert isinstance(got, CheckSettings)
    assert got.retry == RetryRule(limit=3, base_seconds=60, max_seconds=1800)


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"provisioningClassName": ""}, "provisioningClassName"),
        ({"provisioningClassName": "x" * 254}, "provisioningClassName"),
        ({"parameters": {"long": "x" * 256}}, "the parameter long has more than 255 characters"),
        ({"parameters": {str(n): "" for n in range(101)}}, "more than 100 parameters"),
    ],
)
def test_what_the_autoscaler_api_would_refuse_is_reported_first(
    spec: dict[str, Any], want: str
) -> None:
    got = settings_of(**spec)
    assert isinstance(got, InvalidCheck)
    assert got.reason == "InvalidConfig"
    assert want in got.message
    assert "ProvisioningRequestConfig c" in got.message


@pytest.mark.parametrize(
    ("retries", "want"), [(0, 60), (1, 120), (4, 960), (5, 1800), (10**9, 1800)]
)
def test_pauses_double_up_to_the_cap(retries: int, want: int) -> None:
    assert RetryRule().seconds(retries) == want


@pytest.mark.parametrize("base", [0, -5])
def test_there_is_always_a_pause(base: int) -> None:
    got = settings_of(retryStrategy={"backoffBaseSeconds": base, "backoffLimitCount": -1})
    assert isinstance(got, CheckSettings)
    assert (got.retry.seconds(3), got.retry.limit) == (1, 0)


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("check-capacity.autoscaling.x-k8s.io", True),
        ("best-effort-atomic-scale-up.autoscaling.x-k8s.io", True),
        ("queued-provisioning.gke.io", True),
        ("private.example.com", False),
    ],
)
def test_classes_that_are_known(name: str, want: bool) -> None:
    got = settings_of(provisioningClassName=name)
    assert isinstance(got, CheckSettings)
    assert is_known_class(got) is want


@pytest.mark.parametrize(
    ("parameters", "want"),
    [
        (None, "ParametersMissing"),
        (("kueue.x-k8s.io", "ConfigMap", "c"), "BadParametersRef"),
        (("", "ProvisioningRequestConfig", "c"), "BadParametersRef"),
        (("kueue.x-k8s.io", "ProvisioningRequestConfig", "c"), "c"),
    ],
)
def test_a_check_names_its_config(parameters: tuple[str, str, str] | None, want: str) -> None:
    spec: dict[str, Any] = {"controllerName": "a.b/c"}
    if parameters is not None:
        keys = ("apiGroup", "kind", "name")
        spec["parameters"] = dict(zip(keys, parameters, strict=True))
    got = config_name(msgspec.convert({"spec": spec}, AdmissionCheck))
    assert (got.reason if isinstance(got, InvalidCheck) else got) == want
