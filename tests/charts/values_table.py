"""Values of complete installations; properties of all installations are tested with each."""

from __future__ import annotations

from typing import Any, Final

# The values of an installation of upstream's chart: all of its keys, some changed.
UPSTREAM: Final[dict[str, Any]] = {
    "global": {"imagePrefix": "registry.test/mirror"},
    "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    "isNeedNotebookExtension": False,
    "oversellrate": 1,
    "qps": 50,
    "burst": 60,
    "jobRunningTimeout": "0",
    "jobBackoffTime": "0",
    "installation": {"namespace": "koord-queue", "roleListGroups": ["*"]},
    "admissionCheckController": {
        "enabled": True,
        "image": {"repository": "a/prevreq-controller", "tag": "v1"},
    },
    "controller": {
        "image": {"repository": "a/koord-queue", "tag": "latest"},
        "queueGroupPlugin": "elasticquotav2",
        "enableBlockingMode": False,
        "enableStrictPriority": False,
        "enableVisibilityServer": False,
        "enableResourceCheckWithScheduler": False,
        "defaultPreemptible": True,
        "resources": {"requests": {"cpu": "300m"}, "limits": {"cpu": "2", "memory": "512Mi"}},
    },
    "extension": {
        "koord-queue-controllers": {
            "repository": "a/koord-queue-controllers",
            "tag": "latest",
            "resources": {"limits": {"memory": "2Gi"}},
        },
        "jobextensions": {"tag": "v1", "resources": {"limits": {"memory": "3Gi"}}},
        "batchjob": {"enable": True},
        **{name: {"enable": False} for name in ("ray", "tf", "pytorch", "argo", "spark", "mpi")},
    },
    "pluginConfigs": {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "KoordQueueConfiguration",
        "plugins": [{"name": "Priority"}, {"name": "ElasticQuotaV2"}],
        "pluginConfigs": {},
    },
}

SPREAD: Final = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "koord-queue"}},
}
NODE_AFFINITY: Final = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
            ]
        }
    }
}
ALL_KNOBS: Final[dict[str, Any]] = {
    "replicas": 2,
    "resources": {"limits": {"memory": "2Gi"}},
    "affinity": NODE_AFFINITY,
    "topologySpreadConstraints": [SPREAD],
    "podAnnotations": {"example.com/a": "b"},
    "podLabels": {"example.com/team": "c"},
    "extraArgs": ["--writers=4"],
    "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
    "serviceAccount": {"annotations": {"example.com/role": "d"}},
    "podDisruptionBudget": {"enabled": True, "maxUnavailable": "50%"},
}

TREES: Final = {
    "plugins": [{"name": name} for name in ("Priority", "ElasticQuota", "defaultgroup")],
    "pluginConfigs": {"ElasticQuota": {"checkQuotaOversold": True}, "defaultgroup": {}},
}

SWITCHES: Final = {
    **{name: (f"{name}job",) for name in ("tf", "pytorch", "xgboost", "paddle", "jax")},
    **{name: (name,) for name in ("jobset", "trainjob", "rayservice", "appwrapper")},
    "batchjob": ("job",),
    "mpi": ("mpijob", "mpijobv1"),
    "ray": ("rayjob", "raycluster"),
    "spark": ("sparkapp",),
    "argo": ("workflow",),
}
"""The extensions of each `extension.NAME.enable`, for kinds with a field to suspend."""

GATED: Final = ("pod", "podgroup", "statefulset", "leaderworkerset")
"""The same for kinds that are held by scheduling gates of their pods."""


def values_with(*switches: str, **more: Any) -> dict[str, Any]:
    """Return values that enable these and disable all others."""
    names = (*SWITCHES, *GATED)
    return {"extension": {name: {"enable": name in switches} for name in names}, **more}


WIDGET: Final[dict[str, Any]] = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "plural": "widgets",
    "suspend": ".spec.policy.suspend",
    "podSets": [
        {"name": "leader", "template": ".spec.leader"},
        {"name": "worker", "count": ".spec.workers.count", "template": ".spec.workers.pod"},
    ],
    "succeeded": {"path": ".status.phase", "values": ["Done"]},
    "failed": {"path": ".status.phase", "values": ["Failed"]},
}
"""A declared kind that can be held at its creation."""

NAMED: Final = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ops"}}}
ADDRESS: Final = {"ipBlock": {"cidr": "192.0.2.1/32"}}
MARKED: Final = {
    "commonLabels": {"team": "batch", "example.com/team": "batch"},
    "commonAnnotations": {"example.com/a": "all", "example.com/owner": "batch"},
}
"""Some of these keys are also set where only one object or pod has them."""

VALUES: Final[dict[str, dict[str, Any]]] = {
    "the defaults": {},
    "upstream's values": UPSTREAM,
    "upstream's trees": {"pluginConfigs": TREES, "oversellrate": 1.5},
    "all settings of the pods": {
        "imagePullSecrets": [{"name": "registry"}],
        "image": {"digest": "sha256:" + "0" * 64, "pullPolicy": "Always"},
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "priorityClassName": "system-cluster-critical",
        "tolerations": [{"operator": "Exists"}],
        "log": {"format": "console", "level": "debug"},
        "scheduler": ALL_KNOBS,
        "controllers": {**ALL_KNOBS, "qps": 0, "burst": 1},
    },
    "all endpoints exposed": {
        "debugApi": {"expose": True, "tls": {"secretName": "debug-tls"}},
        "controllers": {"debugApi": {"expose": True, "tls": {"secretName": "jobs-tls"}}},
        "networkPolicy": {"enabled": True},
        "monitoring": {
            "dashboards": {"enabled": True, "namespace": "monitoring"},
            "rules": {
                "enabled": True,
                "namespace": "monitoring",
                "labels": {"release": "prometheus"},
            },
        },
        "metrics": {
            "queueLabels": ["team"],
            "serviceMonitor": {
                "enabled": True,
                "namespace": "monitoring",
                "labels": {"release": "prometheus"},
                "scrapeTimeout": "10s",
                "tlsConfig": {"insecureSkipVerify": True},
                "relabelings": [{"action": "labeldrop", "regex": "pod"}],
                "metricRelabelings": [{"action": "labeldrop", "regex": "x"}],
            },
        },
    },
    "nodes are requested": {
        "admissionCheckController": {
            "enabled": True,
            "controllerName": "example.com/nodes",
            "qps": 5,
            "burst": 6,
            "resources": {"limits": {"memory": "1Gi"}},
            "extraArgs": ["--workers=2"],
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
        },
        "metrics": {"tls": {"secretName": "metrics-tls"}},
    },
    "insight, on a volume that exists": {
        "insight": {
            "enabled": True,
            "record": {"existingClaim": "record"},
            "resources": {"limits": {"memory": "2Gi"}},
            "extraArgs": ["--log-level=debug"],
            "extraEnv": [{"name": "TZ", "value": "UTC"}],
        },
        "metrics": {"tls": {"secretName": "metrics-tls"}},
    },
    "the page, exposed": {
        "insight": {
            "enabled": True,
            "page": {
                "enabled": True,
                "expose": True,
                "hosts": ["queue.example"],
                "trustedProxies": ["10.0.0.0/8", "fd00::7"],
                "dashboards": "https://grafana.example.com/d/koord-queue?var-cluster=a",
                "tls": {"secretName": "page-tls"},
            },
        },
        "networkPolicy": {
            "enabled": True,
            "metricsFrom": [NAMED],
            "pageFrom": [NAMED],
            "apiServer": {"ports": [7443], "to": [ADDRESS], "from": [ADDRESS]},
            "dnsTo": [NAMED],
            "extraEgress": [{"ports": [{"port": 3128}], "to": [ADDRESS]}],
        },
        "metrics": {"secure": False},
    },
    "labels and annotations of a company": {
        **MARKED,
        "insight": {"enabled": True, "visibility": {"enabled": True}},
        "admissionCheckController": {"enabled": True},
        "metrics": {
            "serviceMonitor": {
                "enabled": True,
                "namespace": "monitoring",
                "labels": {"team": "ops"},
            }
        },
        "monitoring": {
            "dashboards": {
                "enabled": True,
                "namespace": "monitoring",
                "annotations": {"example.com/owner": "grafana"},
            },
            "rules": {"enabled": True, "namespace": "monitoring", "labels": {"team": "ops"}},
        },
        "networkPolicy": {"enabled": True, "limitEgress": False},
        "scheduler": ALL_KNOBS,
        "controllers": {
            "config": {
                "admissionPreview": True,
                "deleteLostPods": True,
                "reservations": {"nodeBlacklist": "ops/bad"},
            }
        },
        "quotaNamespaces": "listed",
        "admissionPolicy": {"quotasFrom": ["quotas"], "growth": True, "users": True},
        "strictDequeue": {"enabled": True},
    },
    "all containers of the scheduler": {
        "insight": {
            "enabled": True,
            "record": {"sizeLimit": "5Gi"},
            "visibility": {"enabled": True},
        },
        "admissionCheckController": {"enabled": True},
    },
    "turns by use": {"fairTurns": {"enabled": True, "halfLife": "24h"}},
    "accounts": {"accounts": {"enabled": True, "period": "Week", "timeZone": "Europe/Berlin"}},
    "metrics over TLS": {"metrics": {"tls": {"secretName": "metrics-tls"}}},
    "without election, open metrics": {
        "leaderElection": {"enabled": False},
        "metrics": {"secure": False},
        "crds": {"keep": False},
        "rbac": {"aggregate": False},
    },
    "only the scheduler": {
        "extension": {"batchjob": {"enable": False}},
        "crds": {"enabled": False},
    },
    "custom accounts and roles": {
        "rbac": {"create": False},
        "scheduler": {"serviceAccount": {"create": False, "name": "mine"}},
        "controllers": {"serviceAccount": {"create": False, "name": "mine-too"}},
    },
    "quotas up to their max, oversold": {
        "oversellrate": 1.5,
        "pluginConfigs": {
            "plugins": [{"name": "Priority"}, {"name": "ElasticQuotaV2"}, {"name": "Others"}],
            "pluginConfigs": {"ElasticQuotaV2": {"mode": "max"}, "Others": {"any": ["thing"]}},
        },
    },
    "numbers and durations as texts, as --set gives them": {
        "oversellrate": "0.5",
        "qps": "0.5",
        "controllers": {
            "qps": "12.5",
            "config": {
                "job": {
                    "runningTimeout": "1h30m",
                    "backoffTimeout": "90",
                    "partialRunningTimeout": "5m",
                    "podCreationTimeout": "0",
                    "backoffLimit": 6,
                }
            },
        },
        "pluginConfigs": {
            "pluginConfigs": {
                "ElasticQuotaV2": {
                    "mode": "max",
                    "koordinatorVersion": "v1.9.0-rc1",
                    "expectedCapacity": {"cpu": "1.5k", "memory": 1024},
                    "requiredRequests": ["cpu", "memory"],
                }
            },
            "defaultReclaimProtectTime": "5m",
            "evictionsPerHour": 30,
            "boostPerEviction": 5,
        },
    },
    "the shortest lease": {
        "leaderElection": {
            "leaseDurationSeconds": 5,
            "renewDeadlineSeconds": 2,
            "retryPeriodSeconds": 1,
        }
    },
    "a user chosen by OpenShift": {
        "podSecurityContext": {"runAsUser": None, "runAsGroup": None},
        "admissionPolicy": {"enabled": False},
    },
    "strict queues": {
        "strictDequeue": {
            "enabled": True,
            "queues": ["a", "!b"],
            "smallUnits": {"cpu": 128, "nvidia.com/gpu": "8"},
            "verdictTimeout": "1h",
        },
        "controllers": {"config": {"reservations": {"nodeBlacklist": "ops/bad", "ttl": "1h"}}},
    },
    "every kind of job": values_with(*SWITCHES, *GATED),
    "pods under Alibaba's scheduler": values_with(
        *GATED, controllers={"config": {"scheduleAdmissionLabel": True}}
    ),
    "only a declared kind": values_with(controllers={"config": {"kinds": [WIDGET]}}),
    "a shadow": {
        "shadow": {
            "enabled": True,
            "kinds": ["job", "mpijobv1", "trainjob"],
            "objects": "kind: ShadowPlaces\nnamespaces: {a: b}\n",
        },
        "extension": {"ray": {"enable": True}, "pod": {"enable": True}},
        "admissionPolicy": {"enabled": True},
    },
    "other names": {"fullnameOverride": "batch-queue", "nameOverride": "batch"},
}
