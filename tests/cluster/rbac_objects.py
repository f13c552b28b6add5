"""Roles and their bindings, as administrators write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Json = dict[str, Any]

RBAC: Final = "rbac.authorization.k8s.io"


def role(name: str, rule: Mapping[str, list[str]], namespace: str = "") -> Json:
    """Return a role with one rule: a Role of a namespace, or a ClusterRole where that is empty."""
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "Role" if namespace else "ClusterRole",
        "metadata": {"name": name, **where},
        "rules": [dict(rule)],
    }


def binding(role: str, user: str, namespace: str = "", *, kind: str = "ClusterRole") -> Json:
    """Return the binding of a role to a user, in a namespace or everywhere."""
    where = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding" if namespace else "ClusterRoleBinding",
        "metadata": {"name": f"{role}-{user}".replace(":", "-"), **where},
        "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
