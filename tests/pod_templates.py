"""Pod templates that the API server accepts or refuses, each with a part of what is said of it.

The unit tests judge them, and the tests on a control plane ask a real API server.
"""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

LONG_PREFIX: Final = ".".join(["a" * 49] * 5)
"""249 characters."""


def template(
    labels: Json | None = None, annotations: Json | None = None, name: str = "main", **spec: Any
) -> Json:
    """Return a template of one container that nothing is wrong with, but for what is given."""
    container = {"name": name, "image": "none", **spec.pop("container", {})}
    meta = {"labels": labels or {}, "annotations": annotations or {}}
    return {"metadata": meta, "spec": {"containers": [container], **spec}}


def amounts(requests: Json, limits: Json) -> Json:
    """Return a container's field with requests and limits."""
    return {"resources": {"requests": requests, "limits": limits}}


ACCEPTED: Final[dict[str, Json]] = {
    "nothing": template(),
    "a label": template({"app": "x"}),
    "a label without a value": template({"app": ""}),
    "a label with a prefix": template({"example.com/Some_app.x": "A-b_c.1"}),
    "the longest name and value": template({"a" * 63: "1" * 63}),
    "the longest prefix": template({f"{LONG_PREFIX}.aaa/{'b' * 63}": "x"}),
    "a long part in a prefix": template({f"{'a' * 100}/b": "x"}),
    "an annotation in upper case": template(annotations={"Example.COM/Some": " any text\n"}),
    "annotations of the most bytes": template(annotations={"a": "b" * (256 * 1024 - 1)}),
    "an annotation of many bytes": template(annotations={"a": "ä" * 1000}),
    "a node selector": template(nodeSelector={"example.com/zone": "a"}),
    "a container's name": template(name="a-1"),
    "the longest name of a container": template(name="1" * 63),
    "a request at its limit": template(container=amounts({"cpu": "1"}, {"cpu": "1000m"})),
    "a request without a limit": template(container=amounts({"cpu": "1"}, {"memory": "1"})),
}
REFUSED: Final[dict[str, tuple[Json, str]]] = {
    "a space in a label": (template({"a b": "x"}), "label 'a b'"),
    "an empty label": (template({"": "x"}), "label ''"),
    "a label that ends in a dot": (template({"app.": "x"}), "label 'app.'"),
    "a label with an empty name": (template({"example.com/": "x"}), "label 'example.com/'"),
    "a label with an empty prefix": (template({"/app": "x"}), "label '/app'"),
    "two slashes": (template({"a/b/c": "x"}), "label 'a/b/c'"),
    "a prefix in upper case": (template({"Example.com/a": "x"}), "before the slash a DNS name"),
    "a prefix that ends in a dot": (template({"example.com./a": "x"}), "before the slash"),
    "a prefix that is too long": (template({f"{LONG_PREFIX}.aaaa/b": "x"}), "before the slash"),
    "a name that is too long": (template({"a" * 64: "x"}), "at most 63"),
    "a name with another letter": (template({"größe": "x"}), "label 'größe'"),
    "a line break behind a name": (template({"app\n": "x"}), "label 'app\\n'"),
    "a space in a value": (template({"app": "my app"}), "has the value 'my app'"),
    "a slash in a value": (template({"image": "a/b"}), "has the value 'a/b'"),
    "a line break behind a value": (template({"app": "x\n"}), "has the value 'x\\n'"),
    "a value that is too long": (template({"app": "1" * 64}), "has the value"),
    "a space in an annotation": (template(annotations={"a b": "x"}), "annotation 'a b'"),
    "an annotation with two slashes": (template(annotations={"a/b/c": ""}), "annotation 'a/b/c'"),
    "annotations of too many bytes": (
        template(annotations={"a": "b" * (256 * 1024)}),
        "the annotations of the job's template have 262145 bytes",
    ),
    "annotations of too many bytes together": (
        template(annotations={"a": "ä" * (64 * 1024), "b": "ä" * (64 * 1024)}),
        "have 262146 bytes",
    ),
    "a value in a node selector": (template(nodeSelector={"zone": "a b"}), "node selector 'zone'"),
    "a key in a node selector": (template(nodeSelector={"a b": ""}), "node selector 'a b'"),
    "a container in upper case": (template(name="Main"), "container 'Main'"),
    "a container with an underscore": (template(name="my_app"), "container 'my_app'"),
    "a container with a dot": (template(name="a.b"), "container 'a.b'"),
    "a container with a long name": (template(name="1" * 64), "at most 63 lower-case"),
    "a request above its limit": (
        template(container=amounts({"cpu": "2"}, {"cpu": "1500m"})),
        "requests cpu 2, and its own limit is 1500m",
    ),
    "an extended resource above its limit": (
        template(container=amounts({"example.com/gpu": "2"}, {"example.com/gpu": "1"})),
        "requests example.com/gpu 2, and its own limit is 1",
    ),
}
