"""What no API server accepts of a pod, whatever objects there are, by its template alone. Pure.

Kinds of the built-in groups are validated when they are created, and so is their template. Many
CRDs do not look into it, and the first to refuse is the API server as the operator creates a pod.
Only what certainly ends so is looked for here: what stands in the template as it will stand in the
pod, and what neither an operator nor a webhook completes. So requests without the limit that an
extended resource needs, and containers without a name or an image, are not judged.

Source: kubernetes v1.36.3, pkg/apis/core/validation/validation.go (`ValidateAnnotations`,
`validateNodeSelector`, `validateContainerCommon`, `ValidateResourceRequirements`);
staging/src/k8s.io/apimachinery: pkg/apis/meta/v1/validation (`ValidateLabels`),
pkg/util/validation (`IsQualifiedName`, `IsValidLabelValue`, `IsDNS1123Label`), pkg/api/validation
(`TotalAnnotationSizeLimitB`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from queue_controllers.jobframework.pod_template import ScheduledContainer, ScheduledPodTemplate
from shared_api.objects.field_schema import LABEL_LENGTH, SUBDOMAIN_LENGTH
from shared_api.quantity import QuantityError, canonical, parse_quantity

MAX_ANNOTATION_BYTES: Final = 256 * 1024
"""All keys and values of the annotations of one object."""

MAX_SHOWN_CHARS: Final = 80
"""How much of a wrong key or value is shown: what is wrong with it may be its length."""

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

_OF_NAME: Final = (
    f"at most {LABEL_LENGTH} letters, digits, '-', '_' and '.', of which the first and the last are"
    " letters or digits"
)
_OF_PREFIX: Final = "before the slash a DNS name in lower case"
_OF_CONTAINER: Final = (
    f"at most {LABEL_LENGTH} lower-case letters, digits and '-', of which the first and the last"
    " are no '-'"
)


def why_invalid(template: ScheduledPodTemplate, *, has_limits: bool = True) -> str:
    """Return why no pod of a template can be created, "" if nothing is found.

    Args:
        template: As it is written in the job.
        has_limits: The template states the limits of its containers; else the job's operator sets
            them, and they are not compared with the requests.
    """
    return next(_problems(template, has_limits=has_limits), "")


def _problems(template: ScheduledPodTemplate, *, has_limits: bool) -> Iterator[str]:
    meta, spec = template.metadata, template.spec
    yield from _of_labels("label", meta.labels)
    yield from _of_annotations(meta.annotations)
    yield from _of_labels("node selector", spec.node_selector)
    for each in (*spec.containers, *spec.init_containers):
        yield from _of_name(each)
        if has_limits:
            yield from _requests_over_limits(each)


# --- labels and annotations ---------------------------------------------------------------------


def _of_labels(what: str, labels: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(labels):
        if rule := _rule_of_key(key):
            yield f"{what} {_shown(key)} of the job's template is not valid: a key has {rule}"
        value = labels[key]
        if value and not _is_name(value):
            yield (
                f"{what} {_shown(key)} of the job's template has the value {_shown(value)}, which"
                f" is not valid: a value has {_OF_NAME}"
            )


def _of_annotations(annotations: Mapping[str, str]) -> Iterator[str]:
    for key in sorted(annotations):
        # As the API server has it: in keys of annotations case does not matter.
        if rule := _rule_of_key(key.lower()):
            yield f"annotation {_shown(key)} of the job's template is not valid: a key has {rule}"
    size = sum(len(text.encode()) for pair in annotations.items() for text in pair)
    if size > MAX_ANNOTATION_BYTES:
        yield (
            f"the annotations of the job's template have {size} bytes, and those of a pod may have"
            f" at most {MAX_ANNOTATION_BYTES}"
        )


def _rule_of_key(key: str) -> str:
    """Return the rule that a qualified name breaks, "" if it is one."""
    prefix, slash, name = key.rpartition("/")
    if slash and not (len(prefix) <= SUBDOMAIN_LENGTH and _SUBDOMAIN.fullmatch(prefix)):
        return _OF_PREFIX
    return "" if _is_name(name) else _OF_NAME


def _is_name(text: str) -> bool:
    return len(text) <= LABEL_LENGTH and _NAME.fullmatch(text) is not None


# --- containers ---------------------------------------------------------------------------------


def _of_name(container: ScheduledContainer) -> Iterator[str]:
    name = container.name
    if name and not (len(name) <= LABEL_LENGTH and _LABEL.fullmatch(name)):
        yield (
            f"container {_shown(name)} of the job's template is not valid: a name has"
            f" {_OF_CONTAINER}"
        )


def _requests_over_limits(container: ScheduledContainer) -> Iterator[str]:
    resources = container.resources
    for resource in sorted(resources.requests.keys() & resources.limits.keys()):
        request, limit = resources.requests[resource], resources.limits[resource]
        if request == limit:  # mostly: to read both takes longer than all else here
            continue
        try:
            exceeds = parse_quantity(request).nanos > parse_quantity(limit).nanos
        except QuantityError:
            continue  # an error in the demand is reported on the unit
        if exceeds:
            yield (
                f"container {container.name} of the job's template requests {resource}"
                f" {canonical(request)}, and its own limit is {canonical(limit)}"
            )


def _shown(text: str) -> str:
    cut = text if len(text) <= MAX_SHOWN_CHARS else text[: MAX_SHOWN_CHARS - 3] + "..."
    return repr(cut)
