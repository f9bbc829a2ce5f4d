"""How etcd and kube-apiserver are called."""

from pathlib import Path

from scripts.cluster.binaries import Binaries

ISSUER = "https://kubernetes.default.svc"

AUDIT_POLICY, AUDIT_LOG = "audit-policy.json", "audit.log"
POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # What webhooks annotate is only found here. Pods are few; other writes come by the ten thousand.
        {"level": "Metadata", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods"]}]},
        # What our programs call with accounts of their own is compared with the roles in manifests/.
        {"level": "Metadata", "userGroups": ["system:serviceaccounts"]},
        {"level": "None"},
    ],
}


def etcd_command(binaries: Binaries, folder: Path, *, port: int, peer_port: int) -> list[str]:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
    return [
        str(binaries.etcd),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",  # the data is temporary
        "--log-level=warn",
    ]


def api_server_command(binaries: Binaries, folder: Path, *, port: int, etcd_port: int) -> list[str]:
    """The admission plugins are the default ones, ServiceAccount among them."""
    return [
        str(binaries.api_server),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={folder / 'server.crt'}",
        f"--tls-private-key-file={folder / 'server.key'}",
        f"--client-ca-file={folder / 'ca.crt'}",
        f"--service-account-key-file={folder / 'accounts.key'}",
        f"--service-account-signing-key-file={folder / 'accounts.key'}",
        f"--service-account-issuer={ISSUER}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--authorization-mode=RBAC",
        f"--audit-policy-file={folder / AUDIT_POLICY}",
        f"--audit-log-path={folder / AUDIT_LOG}",
        "--allow-privileged=true",
        "--endpoint-reconciler-type=none",  # nobody looks for this API server through a Service
    ]
