"""An object of each kind that Argo CD's own settings do not leave out."""

from typing import Any

from argocd import names
from tests.cluster.argocd.steered import Object, Scene

PRINTED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("v1", "ConfigMap", {}),
    ("v1", "Secret", {}),
    ("v1", "Service", {"spec": {"ports": [{"port": 80}]}}),
    ("v1", "ServiceAccount", {}),
    ("v1", "LimitRange", {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}}),
    ("v1", "ResourceQuota", {"spec": {"hard": {"count/pods": "9"}}}),
    (
        "v1",
        "PersistentVolumeClaim",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    (
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {
            "spec": {
                "maxReplicas": 2,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "it"},
            }
        },
    ),
    ("policy/v1", "PodDisruptionBudget", {"spec": {"minAvailable": 1}}),
    ("networking.k8s.io/v1", "NetworkPolicy", {"spec": {"podSelector": {}}}),
    (
        "networking.k8s.io/v1",
        "Ingress",
        {"spec": {"defaultBackend": {"service": {"name": "it", "port": {"number": 80}}}}},
    ),
    ("v1", "Pod", {"spec": {"containers": [{"name": "it", "image": "example.test/it"}]}}),
    ("v1", "Namespace", {}),
    (
        "v1",
        "PersistentVolume",
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": "/nowhere"},
            }
        },
    ),
    ("networking.k8s.io/v1", "IngressClass", {"spec": {"controller": "example.test/none"}}),
    ("node.k8s.io/v1", "RuntimeClass", {"handler": "none"}),
    (
        "flowcontrol.apiserver.k8s.io/v1",
        "FlowSchema",
        {"spec": {"priorityLevelConfiguration": {"name": "catch-all"}}},
    ),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", {}),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", {}),
    (
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        {
            "spec": {
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "matchConstraints": {
                    "resourceRules": [
                        {
                            "apiGroups": ["nobody.test"],
                            "apiVersions": ["v1"],
                            "resources": ["nothings"],
                            "operations": ["CREATE"],
                        }
                    ]
                },
                "validations": [{"expression": "true"}],
            }
        },
    ),
    ("scheduling.k8s.io/v1", "PriorityClass", {"value": 1}),
    ("storage.k8s.io/v1", "StorageClass", {"provisioner": "example.test/none"}),
    (
        "rbac.authorization.k8s.io/v1",
        "Role",
        {"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]},
    ),
    (
        "rbac.authorization.k8s.io/v1",
        "ClusterRole",
        {"rules": [{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}]},
    ),
)
"""One of each sort that Argo CD's own settings do not leave out."""
CLUSTER_WIDE = {
    "Namespace": "{scene}-made",
    "PriorityClass": "{scene}",
    "StorageClass": "{scene}",
    "ClusterRole": "{scene}",
    "PersistentVolume": "{scene}",
    "IngressClass": "{scene}",
    "RuntimeClass": "{scene}",
    "FlowSchema": "{scene}",
    "ValidatingWebhookConfiguration": "{scene}",
    "MutatingWebhookConfiguration": "{scene}",
    "ValidatingAdmissionPolicy": "{scene}",
    "APIService": "v1.{scene}-served.test",
}
"""Kinds without a namespace, and names that no other test takes."""

WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")


def definition(group: str) -> Object:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Before the rest: Argo CD applies one of its kind as soon as the API server may know that.
        "metadata": {"name": f"widgets.{group}", "annotations": {names.SYNC_WAVE: "-1"}},
        "spec": {
            "group": group,
            "names": {"kind": "Widget", "plural": "widgets"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


def every_kind(scene: Scene) -> list[Object]:
    pod = {"containers": [{"name": "it", "image": "example.test/it"}]}
    labels = {"app": "it"}
    template = {"metadata": {"labels": labels}, "spec": pod}
    once = {"template": {"spec": {**pod, "restartPolicy": "Never"}}}
    things: list[Object] = [
        {
            "apiVersion": version,
            "kind": kind,
            "metadata": {"name": CLUSTER_WIDE.get(kind, "it").format(scene=scene.name)},
            **body,
        }
        for version, kind, body in (
            *PRINTED,
            *(
                ("apps/v1", kind, {"spec": {"selector": {"matchLabels": labels}, "template": template}})
                for kind in WORKLOADS
            ),
            ("batch/v1", "Job", {"spec": once}),
            (
                "apiregistration.k8s.io/v1",
                "APIService",  # served by the API server itself: nothing depends on who answers
                {
                    "spec": {
                        "group": f"{scene.name}-served.test",
                        "version": "v1",
                        "groupPriorityMinimum": 100,
                        "versionPriority": 100,
                    }
                },
            ),
            ("batch/v1", "CronJob", {"spec": {"schedule": "0 0 * * *", "jobTemplate": {"spec": once}}}),
        )
    ]
    for thing in things:
        if thing["kind"] == "StatefulSet":
            thing["spec"]["serviceName"] = "it"
    account = {"kind": "ServiceAccount", "name": "it", "namespace": scene.name}
    bound = {"subjects": [account], "apiVersion": "rbac.authorization.k8s.io/v1"}
    group = "rbac.authorization.k8s.io"
    return [
        *things,
        definition(f"{scene.name}.test"),
        {"apiVersion": f"{scene.name}.test/v1", "kind": "Widget", "metadata": {"name": "it"}},
        *(
            {
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": {"name": f"{scene.name}-{called}"},
                "spec": {
                    "policyName": scene.name,
                    "validationActions": ["Audit"],
                    "paramRef": {**reference, "namespace": scene.name, "parameterNotFoundAction": "Allow"},
                },
            }
            for called, reference in (("named", {"name": "it"}), ("selected", {"selector": {}}))
        ),
        {
            **bound,
            "kind": "RoleBinding",
            "metadata": {"name": "it"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "it"},
        },
        {
            **bound,
            "kind": "RoleBinding",
            "metadata": {"name": "viewing"},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        },
        {
            **bound,
            "kind": "ClusterRoleBinding",
            "metadata": {"name": scene.name},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": scene.name},
        },
        {
            "apiVersion": "argoproj.io/v1alpha1",
            "kind": "Application",
            "metadata": {"name": f"{scene.name}-child", "namespace": "argocd"},
            "spec": scene.specification(path="nothing"),
        },
    ]
