"""Principal and agents as processes of their own, as they are in a cluster."""

import gc
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import serialization

from argocd import names
from argocd.agents.vocabulary import Mode
from certs.authority import Authority, LeafSubject
from certs.key_pair import KeyPair, Material
from certs.sources import Files
from kube.store import Object, Store
from sidecars.principal import process as principal_running
from sidecars.principal.proxies.resource_port import ResourcePortOptions
from sidecars.principal.settings import PrincipalSettings
from sidecars.replication.control.settings import HaSettings
from sidecars.wire.auth.methods import NamePattern, SubjectMethod
from sidecars.wire.auth.tokens import Tokens, generate_key, load_key
from sidecars.wire.client.dialer import DialOptions
from tiphys import logs

NAMESPACE = "argocd"
SPAWN = multiprocessing.get_context("spawn")
START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Papers:
    """Certificates in a folder, and a key for tokens that outlives a restart."""

    folder: Path

    @classmethod
    def write(cls, folder: Path) -> "Papers":
        now = datetime.now(UTC)
        authority = Authority.create("bench", now=now, lifetime=timedelta(days=1))
        dialled = LeafSubject("principal", dns_names=["localhost"], addresses=["127.0.0.1"])
        papers = cls(folder)
        papers._keep("principal", authority.issue(dialled, now=now))
        (folder / "ca.crt").write_bytes(authority.pair.certificate)
        (folder / "ca.key").write_bytes(authority.pair.key)
        key = generate_key().private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (folder / "jwt.key").write_bytes(key)
        return papers

    def agent(self, name: str) -> KeyPair:
        return self._authority().issue(LeafSubject(name), now=datetime.now(UTC), server=False, client=True)

    def _authority(self) -> Authority:
        pair = KeyPair((self.folder / "ca.crt").read_bytes(), (self.folder / "ca.key").read_bytes())
        return Authority.from_pair(pair, origin="the benchmark")

    def keep_principal(self, name: str) -> None:
        """One of a pair, which its peer knows by this name."""
        subject = LeafSubject(name, dns_names=["localhost"], addresses=["127.0.0.1"])
        self._keep(name, self._authority().issue(subject, now=datetime.now(UTC), server=True, client=True))

    def keep_agent(self, name: str) -> None:
        self._keep(name, self.agent(name))

    def files(self, name: str) -> Files:
        return Files(
            certificate=self.folder / f"{name}.crt",
            key=self.folder / f"{name}.key",
            authorities=self.folder / "ca.crt",
        )

    @property
    def roots(self) -> bytes:
        return (self.folder / "ca.crt").read_bytes()

    def tokens(self) -> Tokens:
        return Tokens(load_key((self.folder / "jwt.key").read_bytes(), origin="the benchmark"), now=time.time)

    def _keep(self, name: str, pair: KeyPair) -> None:
        (self.folder / f"{name}.crt").write_bytes(pair.certificate)
        (self.folder / f"{name}.key").write_bytes(pair.key)


def cluster_secret(agent: str) -> Object:
    """By which a principal knows the agent."""
    return {
        "metadata": {
            "name": f"cluster-{agent}",
            "labels": {names.SECRET_TYPE: "cluster", names.AGENT_NAME: agent},
        },
        "stringData": {"name": agent, "server": f"https://proxy?agentName={agent}", "config": "{}"},
    }


def principal_of(
    store: Store,
    papers: Papers,
    *,
    port: int,
    resource_port: int = 0,
    identity: str = "principal",
    health_port: int = 0,
    ha: HaSettings | None = None,
) -> principal_running.PrincipalProcess:
    serving = principal_running.PrincipalOptions(
        settings=PrincipalSettings(namespace=NAMESPACE, allowed_namespaces=("agent-*",)),
        method=SubjectMethod(NamePattern("CN=([^,]+)")),
        tokens=papers.tokens(),
        source=papers.files(identity),
        host="127.0.0.1",
        port=port,
        health_host="127.0.0.1",
        health_port=health_port,
        metrics_port=0,
        pages_port=0,
        resources=ResourcePortOptions(source=papers.files("principal"), host="127.0.0.1", port=resource_port)
        if resource_port
        else None,
        ha=ha,
    )
    return principal_running.PrincipalProcess(store, serving)


def dialing(papers: Papers, *, port: int, pair: KeyPair | None, mode: Mode = Mode.MANAGED) -> DialOptions:
    return DialOptions(
        host="127.0.0.1",
        port=port,
        material=Material(pair, papers.roots),
        mode=mode,
        namespace=NAMESPACE,
        version=principal_running.VERSION,
    )


def quiet() -> None:
    logs.configure(level="error")
    # As the command leaves it: what was loaded is no business of the collector's.
    gc.freeze()
    gc.collect()


@contextmanager
def child(work: Callable[..., None], *arguments: Any) -> Iterator[Any]:
    """Until the end of the block; killed, for a benchmark waits for nobody."""
    process = SPAWN.Process(target=work, args=arguments, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join(timeout=10)


def cpu_seconds(*pids: int) -> float:
    """Of all threads of these processes, since they began."""
    return sum(_stat(pid)[1] for pid in pids)


def cpu_seconds_of_all() -> float:
    """Of this process and all that came from it: API servers, sidecars, the benchmark itself."""
    known = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # some end while others are looked at
                known[int(entry.name)] = _stat(int(entry.name))
    ours, fresh = set(), {os.getpid()}
    while fresh:
        ours |= fresh
        fresh = {pid for pid, (parent, _) in known.items() if parent in fresh}
    return sum(known[pid][1] for pid in ours)


def _stat(pid: int) -> tuple[int, float]:
    """Whose child it is, and its CPU seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[1]), (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
