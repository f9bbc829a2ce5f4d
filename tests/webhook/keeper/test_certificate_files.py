"""`--certificates files`: what somebody else renews is served when it is good, and named when it is not."""

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.authority import Authority, LeafSubject
from certs.folder import BUNDLE, CERTIFICATE, KEY, publish
from certs.key_pair import KeyPair
from scripts.cluster.controlplane import Cluster
from tests.webhook.guarded_cluster import until
from tests.webhook.registration.test_register_and_unregister import BAD, GOOD
from tests.webhook.webhook_process import Guard

SUBJECT = LeafSubject("localhost", dns_names=["localhost"])

pytestmark = pytest.mark.timeout(180)


@dataclass
class Files:
    """A folder as a Secret is mounted at, and the webhook that serves it."""

    guard: Guard
    folder: Path
    authority: Authority

    def leaf(
        self, *, authority: Authority | None = None, begins: timedelta = timedelta(), days: float = 1
    ) -> KeyPair:
        now = datetime.now(UTC) + begins
        return (authority or self.authority).issue(SUBJECT, now=now, lifetime=timedelta(days=days))

    def write(self, pair: KeyPair, *, key: bytes = b"", bundle: bytes = b"") -> None:
        publish(
            self.folder,
            {
                CERTIFICATE: pair.certificate,
                KEY: key or pair.key,
                BUNDLE: bundle or self.authority.pair.certificate,
            },
        )

    def served(self) -> str:
        return ssl.get_server_certificate(("localhost", self.guard.port)).strip()


@pytest.fixture(scope="module")
def files(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    folder = tmp_path_factory.mktemp("mounted")
    home, argocd = cluster.create_namespace(), cluster.create_namespace()
    guard = Guard(
        cluster=cluster,
        folder=tmp_path_factory.mktemp("guard"),
        home=home,
        argocd=argocd,
        arguments=("--certificates", "files", "--certificate-folder", str(folder)),
    )
    files = Files(guard, folder, Authority.create("somebody else", now=datetime.now(UTC)))
    files.write(files.leaf())
    guard.start()
    yield files
    guard.unregister()
    guard.stop()
    for namespace in (home, argocd):
        cluster.drop_namespace(namespace)


def test_no_secrets_are_made(files: Files) -> None:
    assert files.guard.cluster.kubectl("get", "secrets", "-n", files.guard.home, "-o", "name").stdout == ""


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("mismatched", "the certificate does not belong to the key: replace both together"),
        ("expired", "the certificate expired at "),
        ("not yet valid", "the certificate is not valid before "),
        ("of a stranger", "ca.crt does not verify tls.crt"),
        ("half-written", "the key is not an unencrypted PEM key: write a whole tls.key"),
    ],
)
def test_a_bad_pair_is_one_line_that_names_it_and_the_last_good_one_stays(
    files: Files, case: str, said: str
) -> None:
    good = files.leaf()
    files.write(good)
    until(lambda: files.served() == good.certificate.decode().strip(), what="the good pair is served")
    bad = files.leaf()
    match case:
        case "mismatched":
            files.write(bad, key=files.leaf().key)
        case "expired":
            files.write(files.leaf(begins=-timedelta(days=3)))
        case "not yet valid":
            files.write(files.leaf(begins=timedelta(hours=2)))
        case "of a stranger":
            stranger = Authority.create("stranger", now=datetime.now(UTC))
            files.write(files.leaf(authority=stranger))
        case "half-written":
            files.write(bad, key=bad.key[:40])
    until(lambda: said in files.guard.troubles.get("certificate", ""), what="the trouble is told")
    told = files.guard.troubles["certificate"]
    assert told.startswith(f"{files.folder}: ")
    assert told.endswith("; the last good one stays")
    assert "\n" not in told
    assert "PRIVATE" not in files.guard.log
    assert "Traceback" not in files.guard.log
    assert files.served() == good.certificate.decode().strip()
    # Its probe may have met the change to the good pair, and looks again soon.
    until(lambda: files.guard.page("/readyz")[0] == 200, what="it is ready")
    better = files.leaf()
    files.write(better)
    until(lambda: files.served() == better.certificate.decode().strip(), what="the next good pair is served")
    assert files.guard.troubles == {}


def test_a_certificate_that_expires_while_it_is_served_takes_the_replica_out_of_the_service(
    files: Files,
) -> None:
    files.write(files.leaf(days=5 / 86400))
    until(
        lambda: "the certificate expired at" in files.guard.page("/readyz")[1],
        what="the replica is not ready",
    )
    assert files.guard.page("/readyz")[0] == 503
    files.write(files.leaf())
    until(lambda: files.guard.page("/readyz")[0] == 200, what="it is ready with the next one")


def test_register_needs_the_authority_named_and_the_leader_follows_a_new_one(
    files: Files, tmp_path: Path
) -> None:
    guard = files.guard
    unnamed = guard.tiphys("webhook", "register", "--url", guard.url, check=False)
    assert unnamed.returncode == 2
    assert "name --ca-file" in unnamed.stderr
    stranger = Authority.create("stranger", now=datetime.now(UTC))
    (tmp_path / "ca.crt").write_bytes(stranger.pair.certificate)
    register = ("webhook", "register", "--url", guard.url, "--ca-file", str(tmp_path / "ca.crt"))
    untrusted = guard.tiphys(*register, check=False)
    assert untrusted.returncode == 2
    assert f"{guard.url}: no answer that the bundle verifies" in untrusted.stderr
    (tmp_path / "ca.crt").write_bytes(files.authority.pair.certificate)
    guard.tiphys(*register)
    apply = ("apply", "--dry-run=server", "-n", guard.argocd, "-f", "-")
    files.authority = Authority.create("its successor", now=datetime.now(UTC))
    files.write(files.leaf())
    until(
        lambda: guard.cluster.kubectl(*apply, stdin=GOOD, check=False).returncode == 0,
        what="the API server trusts the new authority",
    )
    assert "Tiphys refuses" in guard.cluster.kubectl(*apply, stdin=BAD, check=False).stderr
    assert guard.status()["problems"] == []


def test_a_folder_that_is_not_there_ends_the_webhook_with_one_line(cluster: Cluster, tmp_path: Path) -> None:
    guard = Guard(
        cluster=cluster,
        folder=tmp_path,
        home="nowhere",
        argocd="argocd",
        arguments=("--certificates", "files", "--certificate-folder", str(tmp_path / "missing")),
    )
    guard.launch()
    assert guard.process is not None
    assert guard.process.wait(timeout=60) == 2
    assert f"{tmp_path / 'missing'}: cannot be watched: No such file or directory" in guard.log
    assert "Traceback" not in guard.log
