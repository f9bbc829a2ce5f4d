"""One local control plane: etcd and kube-apiserver with RBAC, Argo CD's kinds and as many users as asked for."""

import contextlib
import http.client
import itertools
import json
import re
import shutil
import ssl
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, Self

from scripts.cluster import emptying, granting
from scripts.cluster.api import APPLY, Api, RefusedError, discovered
from scripts.cluster.binaries import Binaries, find_binaries
from scripts.cluster.commands import (
    AUDIT_LOG,
    AUDIT_POLICY,
    ISSUER,
    POLICY,
    api_server_command,
    etcd_command,
)
from scripts.cluster.credentials import Authority, TokenSigner, write_private
from scripts.cluster.definitions import KINDS, Definitions, find_definitions
from scripts.cluster.kubeconfigs import write_kubeconfig
from scripts.cluster.processes import Processes
from scripts.cluster.seeding import seed_folder, sow
from scripts.ports import free_port
from tiphys.errors import SurroundingsError

API_SERVER = "kube-apiserver"
ETCD = "etcd"
START_SECONDS = 60.0  # 3 to 4 s on an idle machine; others may be compiling on this one
START_ATTEMPTS = 3  # a port that was free a moment ago may be taken
PROBE_SECONDS = 2.0
LOOK_SECONDS = 0.05  # how often a starting server is asked whether it is ready
KUBECTL_SECONDS = 60.0
TOKEN_SECONDS = 3600  # what `kubectl create token` asks for
FIRST_NAMESPACES = ("default", "kube-system")


class ClusterError(SurroundingsError):
    """The local cluster did not start or broke."""


class Cluster:
    """Start it with `with` or `start()`; everything ends with this process, also when that is killed."""

    def __init__(self, *, name: str = "local", binaries: Binaries | None = None, seeded: bool = True) -> None:
        self.name = name
        self._seeded = seeded
        self.binaries = binaries or find_binaries()
        self.definitions_from = ""
        self.api_server_flags: tuple[str, ...] = ()
        """More of them, for the next start."""
        self.pids: dict[str, int] = {}
        self._authority = Authority()
        self._signer = TokenSigner()
        self._numbers = itertools.count(1)

    def start(self) -> Self:
        for attempt in range(1, START_ATTEMPTS + 1):
            try:
                self._start_once()
            except ClusterError:
                self.stop()
                if attempt == START_ATTEMPTS or not self._port_was_taken:
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return self
        raise AssertionError

    def _start_once(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tiphys-cluster-"))
        self._port_was_taken = False
        self._users: dict[tuple[str, tuple[str, ...]], Path] = {}
        self.processes = Processes(self.folder)
        """Whatever is started by it, these servers and others, ends with the cluster."""
        self._write_keys()
        self.port, self.etcd_port, peer_port = free_port(), free_port(), free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.kubeconfig = self.kubeconfig_of("admin", groups=("system:masters",))
        """The administrator's."""
        self._tls = self._tls_of_admin()
        self._api = Api(port=self.port, tls=self._tls)
        definitions = find_definitions()
        there = self._seeded and sow(seed_folder(self.binaries, definitions), self.folder / "etcd")
        self.pids[ETCD] = self.processes.start(
            ETCD, etcd_command(self.binaries, self.folder, port=self.etcd_port, peer_port=peer_port)
        )
        self.start_api_server()
        for namespace in FIRST_NAMESPACES:
            self._create_default_account(namespace)
        if not there:
            self._install(definitions)
        self._wait_for_kinds()
        self.definitions_from = definitions.origin

    def stop(self) -> None:
        if hasattr(self, "_api"):
            self._api.close()
        if hasattr(self, "processes"):
            self.processes.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exception: object) -> None:
        self.stop()

    # The API server's life: tests that kill it use a private cluster.

    def start_api_server(self) -> None:
        """Returns when it is ready to serve; ports and data are those of before."""
        command = api_server_command(self.binaries, self.folder, port=self.port, etcd_port=self.etcd_port)
        self.pids[API_SERVER] = self.processes.start(API_SERVER, [*command, *self.api_server_flags])
        self._wait_until_ready()
        if self.definitions_from:
            self._wait_for_kinds()

    def kill_api_server(self) -> None:
        """As a crash: connections break in the middle."""
        self.processes.end(API_SERVER, kill=True)

    def end_api_server(self) -> None:
        """As a rollout: what runs is finished, watches are closed."""
        self.processes.end(API_SERVER)

    def end_etcd(self) -> Path:
        """Its data folder, complete on disk."""
        self.processes.end(ETCD)
        return self.folder / "etcd"

    def compact(self) -> None:
        """Forgets etcd's history; watch caches of a running API server still know theirs, so restart it too."""
        etcd = Api(port=self.etcd_port)
        try:
            revision = etcd.request("POST", "/v3/kv/range", {"key": "AA=="})["header"]["revision"]
            etcd.request("POST", "/v3/kv/compaction", {"revision": revision, "physical": True})
        finally:
            etcd.close()

    @property
    def keeper_pid(self) -> int:
        return self.processes.keeper_pid

    def log(self, name: str = API_SERVER) -> str:
        return self.processes.log(name).read_text(errors="replace")

    def audited(self, *, since: int = 0) -> list[dict[str, Any]]:
        """What the policy writes down, oldest first, without so many; an event stands there a moment after its answer."""
        whole, _, _ = (self.folder / AUDIT_LOG).read_bytes().rpartition(b"\n")  # the last may be half written
        return [json.loads(line) for line in whole.splitlines()[since:]]

    def audit_count(self) -> int:
        """Of the events that stand there now."""
        return (self.folder / AUDIT_LOG).read_bytes().count(b"\n")

    # Who calls.

    def kubeconfig_of(self, user: str, *, groups: tuple[str, ...] = (), expired: bool = False) -> Path:
        """A user of any name, by client certificate; without a role binding it may do nothing."""
        key = (f"{user} expired" if expired else user, groups)
        if key not in self._users:
            pair = self._authority.client(user, groups=groups, expired=expired)
            path = self.folder / f"{self._file_name(user)}.kubeconfig"
            self._users[key] = write_kubeconfig(
                path, server=self.url, authority=self._authority.certificate, pair=pair
            )
        return self._users[key]

    def kubeconfig_with_token(self, token: str, *, in_file: bool = False, namespace: str = "default") -> Path:
        path = self.folder / f"{self._file_name('token')}.kubeconfig"
        token_file = write_private(path.with_suffix(".token"), token.encode()) if in_file else None
        return write_kubeconfig(
            path,
            server=self.url,
            authority=self._authority.certificate,
            token="" if in_file else token,
            token_file=token_file,
            namespace=namespace,
        )

    def kubeconfig_of_account(self, account: str, *, namespace: str, seconds: int = TOKEN_SECONDS) -> Path:
        token = self.account_token(account, namespace=namespace, seconds=seconds)
        return self.kubeconfig_with_token(token, namespace=namespace)

    def account_token(
        self,
        account: str,
        *,
        namespace: str,
        audiences: tuple[str, ...] = (),
        seconds: int = TOKEN_SECONDS,
    ) -> str:
        """A bound token as a pod gets it."""
        answer = self.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"audiences": audiences, "expirationSeconds": seconds},
            },
        )
        token: str = answer["status"]["token"]
        return token

    def expired_token(self, account: str = "default", *, namespace: str = "default") -> str:
        """Signed by the right key, an hour too old."""
        uid = self.request("GET", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}")["metadata"][
            "uid"
        ]
        now = int(time.time())
        return self._signer.sign(
            {
                "iss": ISSUER,
                "aud": [ISSUER],
                "sub": f"system:serviceaccount:{namespace}:{account}",
                "iat": now - 7200,
                "nbf": now - 7200,
                "exp": now - 3600,
                "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": account, "uid": uid}},
            }
        )

    @property
    def authority(self) -> bytes:
        """The certificate that signs the server's and the users' (PEM)."""
        return self._authority.certificate

    # What is in it.

    def request(
        self, method: str, path: str, body: object = None, *, content_type: str = "application/json"
    ) -> Any:
        """A blocking call as the administrator; `RefusedError` for an error of the API server."""
        return self._api.request(method, path, body, content_type=content_type)

    @property
    def warnings(self) -> list[str]:
        """Of the last answer to `request`."""
        return self._api.warnings

    def create_namespace(
        self, name: str = "", *, prefix: str = "test", labels: dict[str, str] | None = None
    ) -> str:
        """A namespace with its `default` account, which a controller would create elsewhere."""
        name = name or f"{prefix}-{uuid.uuid4().hex[:8]}"
        self.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels or {}}})
        self._create_default_account(name)
        return name

    def drop_namespace(self, name: str) -> None:
        """Empties and removes it: no controller does that here."""
        emptying.drop_namespace(self._api, name)

    def empty(self, path: str) -> None:
        """Deletes all objects of a kind in a namespace, whoever's finalizers they have."""
        emptying.empty(self._api, path)

    def grant(
        self,
        *,
        rules: list[dict[str, Any]],
        user: str = "",
        group: str = "",
        account: str = "",
        namespace: str = "",
    ) -> None:
        """A role and its binding, in `namespace` or everywhere; returns when the API server knows them.

        `account` is written `namespace/name`, rules as in a Role.
        """
        granting.grant(self._api, rules=rules, user=user, group=group, account=account, namespace=namespace)

    def kubectl(
        self,
        *arguments: str,
        stdin: str | None = None,
        kubeconfig: Path | None = None,
        check: bool = True,
        timeout: float = KUBECTL_SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        """Blocks: where a webhook of this very process must answer, use the fixture's `awaited`."""
        done = subprocess.run(
            self.kubectl_command(*arguments, kubeconfig=kubeconfig),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if check and done.returncode:
            raise ClusterError(f"kubectl {' '.join(arguments)} ended with {done.returncode}: {done.stderr}")
        return done

    def kubectl_command(self, *arguments: str, kubeconfig: Path | None = None) -> list[str]:
        return [
            str(self.binaries.kubectl),
            f"--kubeconfig={kubeconfig or self.kubeconfig}",
            f"--cache-dir={self.folder / 'discovery'}",
            *arguments,
        ]

    # Starting.

    def _write_keys(self) -> None:
        server = self._authority.server()
        write_private(self.folder / "ca.crt", self._authority.certificate)
        write_private(self.folder / "server.crt", server.certificate)
        write_private(self.folder / "server.key", server.key)
        write_private(self.folder / "accounts.key", self._signer.key)
        (self.folder / AUDIT_POLICY).write_text(json.dumps(POLICY))

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        # Somebody else may listen on the port and say nothing.
        probe = Api(port=self.port, tls=self._tls, seconds=PROBE_SECONDS)
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, http.client.HTTPException, RefusedError):
                probe.request("GET", "/readyz")
                probe.close()
                return
            probe.close()
            for name in (ETCD, API_SERVER):
                code = self.processes.exit_code(name)
                if code is not None:
                    raise ClusterError(f"{name} ended with {code} while starting: {self._last_words(name)}")
            time.sleep(LOOK_SECONDS)
        raise ClusterError(
            f"{API_SERVER} was not ready within {START_SECONDS:.0f} s: {self._last_words(API_SERVER)}"
        )

    def _last_words(self, name: str) -> str:
        words = self.log(name)
        self._port_was_taken = "address already in use" in words
        return "\n".join(words.splitlines()[-5:])

    def _create_default_account(self, namespace: str) -> None:
        # Not a create: kube-system's may be there already after a restart.
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default?fieldManager=tiphys-cluster"
        self.request("PATCH", path, account, content_type=APPLY)

    def _install(self, definitions: Definitions) -> None:
        for definition in definitions.objects:
            name = definition["metadata"]["name"]
            path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"
            # Server-side: the ApplicationSet's is too long for kubectl's last-applied annotation.
            self.request("PATCH", f"{path}?fieldManager=tiphys-cluster", definition, content_type=APPLY)

    def _wait_for_kinds(self) -> None:
        """A kind is found by kubectl, and served from its cache, a moment after the API server is ready."""
        deadline = time.monotonic() + START_SECONDS
        while not self._serves_kinds():
            if time.monotonic() > deadline:
                raise ClusterError(f"{API_SERVER} does not serve Argo CD's kinds")
            time.sleep(LOOK_SECONDS)

    def _serves_kinds(self) -> bool:
        try:
            for plural in KINDS.values():
                self.request("GET", f"/apis/argoproj.io/v1alpha1/{plural}?limit=1")
        except RefusedError as error:
            if error.code not in {http.client.NOT_FOUND, http.client.TOO_MANY_REQUESTS}:
                raise
            return False
        return discovered(self._api, group="argoproj.io") >= set(KINDS.values())

    def _tls_of_admin(self) -> ssl.SSLContext:
        pair = self._authority.client("admin", groups=("system:masters",))
        write_private(self.folder / "admin.crt", pair.certificate)
        write_private(self.folder / "admin.key", pair.key)
        tls = ssl.create_default_context(cadata=self._authority.certificate.decode())
        tls.load_cert_chain(self.folder / "admin.crt", self.folder / "admin.key")
        return tls

    def _file_name(self, user: str) -> str:
        return f"{re.sub(r'[^A-Za-z0-9.-]+', '-', user)}-{next(self._numbers)}"
