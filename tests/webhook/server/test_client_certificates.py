"""`--client-ca`: the review port answers whoever shows the right certificate, and nobody else."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from certs.authority import Authority, LeafSubject
from certs.folder import CERTIFICATE, KEY, publish
from certs.key_pair import CertificateError
from certs.tls import server_context
from scripts.cluster.controlplane import Cluster
from tests.webhook.conftest import ROOT, Server, post, publish_leaf, read_response, review
from tests.webhook.guarded_cluster import until
from tests.webhook.webhook_process import Guard

StartServer = Callable[..., Server]


def shown_by(authority: Authority, folder: Path) -> Path:
    leaf = authority.issue(LeafSubject("kube-apiserver"), client=True, now=datetime.now(UTC))
    publish(folder, {CERTIFICATE: leaf.certificate, KEY: leaf.key})
    return folder


def authorities(folder: Path) -> tuple[Authority, Path]:
    authority = Authority.create("API servers", now=datetime.now(UTC))
    file = folder / "client-ca.crt"
    file.write_bytes(authority.pair.certificate)
    return authority, file


def test_the_api_servers_certificate_is_let_in_and_others_are_not(
    start_server: StartServer, tmp_path: Path
) -> None:
    authority, file = authorities(tmp_path)
    server = start_server(client_ca=file)
    assert is_answered(server, shown_by(authority, tmp_path / "right"))
    stranger = Authority.create("API servers", now=datetime.now(UTC))
    assert not is_answered(server, shown_by(stranger, tmp_path / "wrong"))
    assert not is_answered(server, None)


def test_a_new_file_counts_at_once_and_the_authority_that_has_gone_does_not(
    start_server: StartServer, tmp_path: Path
) -> None:
    first, file = authorities(tmp_path)
    server = start_server(client_ca=file)
    old = shown_by(first, tmp_path / "old")
    with server.connect(shown=old) as kept:
        file.write_bytes(b"no certificate")  # what cannot be read changes nothing
        second, _ = authorities(tmp_path)
        new = shown_by(second, tmp_path / "new")
        until(lambda: is_answered(server, new), what="the new authority counts")
        assert not is_answered(server, old)
        kept.sendall(post("/validate", review()))
        assert read_response(kept)[0] == 200


def is_answered(server: Server, shown: Path | None) -> bool:
    """In TLS 1.3 the client hears of its refusal with the first answer."""
    try:
        with server.connect(shown=shown) as connection:
            connection.sendall(post("/validate", review()))
            return read_response(connection)[0] == 200
    except (OSError, EOFError):
        return False


def test_a_file_without_authorities_is_told_in_one_line(tmp_path: Path) -> None:
    publish_leaf(tmp_path / "leaf")
    with pytest.raises(CertificateError, match="the clients' authorities cannot be loaded"):
        server_context(tmp_path / "leaf", client_ca=tmp_path / "none")


def admission_files(cluster: Cluster, *, host: str, shown: Path) -> Path:
    """The two files of docs/client-certificate.md, for this cluster."""
    page = (ROOT / "docs/client-certificate.md").read_text()
    configuration, kubeconfig = (block.partition("```")[0] for block in page.split("```yaml\n")[1:3])
    kubeconfig_file, configuration_file = cluster.folder / "webhooks.yaml", cluster.folder / "admission.yaml"
    users = yaml.safe_load(kubeconfig)
    (user,) = users["users"]
    user["name"] = host
    user["user"] = {"client-certificate": str(shown / CERTIFICATE), "client-key": str(shown / KEY)}
    kubeconfig_file.write_text(yaml.safe_dump(users))
    assert configuration.count("/etc/kubernetes/tiphys/kubeconfig") == 2
    configuration_file.write_text(
        configuration.replace("/etc/kubernetes/tiphys/kubeconfig", str(kubeconfig_file))
    )
    return configuration_file


PROJECT = """
apiVersion: argoproj.io/v1alpha1
kind: AppProject
metadata: {name: web}
spec: {sourceRepos: ["%s"]}
"""


def test_a_real_api_server_shows_its_certificate_and_without_one_is_refused(
    private_cluster: Cluster, tmp_path: Path
) -> None:
    cluster = private_cluster
    authority, file = authorities(tmp_path)
    home, argocd = cluster.create_namespace(), cluster.create_namespace()
    guard = Guard(
        cluster=cluster, folder=tmp_path, home=home, argocd=argocd, arguments=("--client-ca", str(file))
    )
    try:
        guard.start().register()

        def told(repository: str) -> str:
            apply = ("apply", "-n", argocd, "--dry-run=server", "-f", "-")
            return cluster.kubectl(*apply, stdin=PROJECT % repository, check=False).stderr

        until(lambda: "failed calling webhook" in told("https://example.test"), what="nobody is let in")
        cluster.end_api_server()
        shown = shown_by(authority, tmp_path / "shown")
        files = admission_files(cluster, host=f"localhost:{guard.port}", shown=shown)
        cluster.api_server_flags = (f"--admission-control-config-file={files}",)
        cluster.start_api_server()
        until(lambda: not told("https://example.test"), what="the API server is let in")
        assert "Tiphys refuses this AppProject web" in told("!*")
        assert guard.page("/readyz")[0] == 200
    finally:
        guard.stop()
