"""The kinds that both programs use, compared with the names in the API."""

from __future__ import annotations

import pytest

from shared_api.client import resource_types
from shared_api.client.resource_client import ResourceType


@pytest.mark.parametrize(
    ("name", "want_path", "want_api_version", "want_kind"),
    [
        ("PODS", "/api/v1/namespaces/n/pods/x", "v1", "Pod"),
        ("NODES", "/api/v1/nodes/x", "v1", "Node"),
        ("POD_TEMPLATES", "/api/v1/namespaces/n/podtemplates/x", "v1", "PodTemplate"),
        ("NAMESPACES", "/api/v1/namespaces/x", "v1", "Namespace"),
        ("JOBS", "/apis/batch/v1/namespaces/n/jobs/x", "batch/v1", "Job"),
        (
            "QUEUES",
            "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/n/queues/x",
            "scheduling.x-k8s.io/v1alpha1",
            "Queue",
        ),
        (
            "ELASTIC_QUOTAS",
            "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/n/elasticquotas/x",
            "scheduling.sigs.k8s.io/v1alpha1",
            "ElasticQuota",
        ),
        (
            "PRIORITY_CLASSES",
            "/apis/scheduling.k8s.io/v1/priorityclasses/x",
            "scheduling.k8s.io/v1",
            "PriorityClass",
        ),
        ("LIMIT_RANGES", "/api/v1/namespaces/n/limitranges/x", "v1", "LimitRange"),
        (
            "RUNTIME_CLASSES",
            "/apis/node.k8s.io/v1/runtimeclasses/x",
            "node.k8s.io/v1",
            "RuntimeClass",
        ),
        ("SERVICE_ACCOUNTS", "/api/v1/namespaces/n/serviceaccounts/x", "v1", "ServiceAccount"),
        (
            "LEASES",
            "/apis/coordination.k8s.io/v1/namespaces/n/leases/x",
            "coordination.k8s.io/v1",
            "Lease",
        ),
        ("EVENTS", "/apis/events.k8s.io/v1/namespaces/n/events/x", "events.k8s.io/v1", "Event"),
        (
            "CUSTOM_RESOURCE_DEFINITIONS",
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x",
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
        ),
    ],
)
def test_a_kind_has_the_path_of_the_api(
    name: str, want_path: str, want_api_version: str, want_kind: str
) -> None:
    got = getattr(resource_types, name)
    assert isinstance(got, ResourceType)
    assert got.path("n", "x") == want_path
    assert (got.api_version, got.kind) == (want_api_version, want_kind)


@pytest.mark.parametrize(
    ("name", "want_paths", "want_kind"),
    [
        (
            "ADMISSION_CHECK_VERSIONS",
            [f"/apis/kueue.x-k8s.io/{v}/admissionchecks/x" for v in ("v1beta2", "v1beta1")],
            "AdmissionCheck",
        ),
        (
            "PROVISIONING_REQUEST_CONFIG_VERSIONS",
            [
                f"/apis/kueue.x-k8s.io/{v}/provisioningrequestconfigs/x"
                for v in ("v1beta2", "v1beta1")
            ],
            "ProvisioningRequestConfig",
        ),
        (
            "PROVISIONING_REQUEST_VERSIONS",
            [
                f"/apis/autoscaling.x-k8s.io/{v}/namespaces/n/provisioningrequests/x"
                for v in ("v1", "v1beta1")
            ],
            "ProvisioningRequest",
        ),
    ],
)
def test_the_versions_of_a_kind_are_newest_first(
    name: str, want_paths: list[str], want_kind: str
) -> None:
    got = getattr(resource_types, name)
    assert [each.path("n", "x") for each in got] == want_paths
    assert {each.kind for each in got} == {want_kind}
