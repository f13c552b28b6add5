"""What of the objects is in a dump, and what never is."""

from __future__ import annotations

from msgspec.structs import replace

from queue_insight.dump.codec import encode_dump
from queue_insight.dump.take import take_dump
from queue_scheduler.engine.settings import EngineSettings
from queue_scheduler.quota.quota_settings import QuotaMode, QuotaSettings
from shared_api.objects.pod import PodTemplate, TemplateMeta
from shared_api.objects.queue_unit import AdmissionCheckState, PodSet, PodSetUpdate, QueueUnit
from shared_api.well_known_labels import QUEUE_NAME, TEMPLATE_DIFFERENCES
from tests.properties.engine_kit import build_queue, build_quota, build_unit
from tests.properties.real_quotas import new_engine
from tests.properties.test_dumps import AT

SECRET = "hunter2"


def with_secrets() -> QueueUnit:
    """Return a unit with a secret wherever users and webhooks may put one."""
    notes = {"example.com/password": SECRET, TEMPLATE_DIFFERENCES: SECRET, QUEUE_NAME: "a"}
    unit = build_unit("u", "a", annotations=notes)
    template = PodTemplate(metadata=TemplateMeta(annotations={"vault": SECRET}))
    update = PodSetUpdate(name="main", annotations={"token": SECRET})
    check = AdmissionCheckState(name="check", pod_set_updates=(update,))
    return replace(
        unit,
        spec=replace(unit.spec, pod_set=(PodSet(template=template),)),
        status=replace(unit.status, admission_checks=(check,)),
    )


def test_what_users_put_into_annotations_is_not_in_a_dump() -> None:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    quota, queue = build_quota("a", cpu=1), build_queue("a", annotations={"owner": SECRET})
    noted = replace(quota.metadata, annotations={"owner": SECRET})
    engine.on_quota(replace(quota, metadata=noted))
    engine.on_queue(queue)
    engine.on_queue_unit(with_secrets())
    dump = take_dump(engine, AT, EngineSettings(), "1", leader=True)
    assert SECRET not in encode_dump(dump).decode()
    assert dump.units[0].metadata.annotations == {QUEUE_NAME: "a"}


def test_a_queue_says_what_is_in_force() -> None:
    engine = new_engine(QuotaSettings(mode=QuotaMode.MAX))
    engine.on_queue(build_queue("a", "Block"))
    engine.on_queue(build_queue("a", "Blok"))
    (queue,) = take_dump(engine, AT, EngineSettings(), "1", leader=True).queues
    assert (queue.spec.queue_policy, queue.status.policy_in_force) == ("Blok", "Block")
