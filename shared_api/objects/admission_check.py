"""AdmissionCheck (`kueue.x-k8s.io`, v1beta1 and v1beta2): a check that a queue may ask for.

This is Kueue's object; the controller that `controllerName` names performs the check. The two
versions do not differ in the fields that are read here.
"""

from __future__ import annotations

from typing import Final

from shared_api.objects.meta import Condition, ObjectMeta, WireStruct

ACTIVE: Final = "Active"
"""Condition: whether its controller can perform the check."""


class CheckParameters(WireStruct, frozen=True):
    """The object with the check's settings; cluster-scoped."""

    api_group: str = ""
    kind: str = ""
    name: str = ""


class AdmissionCheckSpec(WireStruct, frozen=True):
    """`spec`."""

    controller_name: str = ""
    parameters: CheckParameters | None = None


class AdmissionCheckStatus(WireStruct, frozen=True):
    """`status`; written by the check's controller."""

    conditions: tuple[Condition, ...] = ()


class AdmissionCheck(WireStruct, frozen=True):
    """An admission check; cluster-scoped."""

    metadata: ObjectMeta = ObjectMeta()
    spec: AdmissionCheckSpec = AdmissionCheckSpec()
    status: AdmissionCheckStatus = AdmissionCheckStatus()
