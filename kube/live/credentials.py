"""Where the API server is and who we are, from a kubeconfig or from the pod, renewed while we run.

The official client reads the files. What it leaves out is added here: it forgets `as:` (we would act with
more rights than the file gives), it goes on without credentials when an exec plugin fails, and it reads
a token file once. Client certificates and authorities are read on connecting only.
"""

import asyncio
import os
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException
from kubernetes.aio.config.dateutil import parse_rfc3339
from kubernetes.aio.config.exec_provider import ExecProvider
from kubernetes.aio.config.incluster_config import InClusterConfigLoader
from kubernetes.aio.config.kube_config import FileOrData, KubeConfigLoader, KubeConfigMerger

from kube.errors import KubeconfigError
from kube.store import Identity
from tiphys import logs, safe_yaml

log = logs.get_logger()

POD_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# The kubelet renews a token in its last fifth: a minute is early enough, and cheap.
TOKEN_SECONDS = 60.0
# How long before its end the official client takes a plugin's token for expired.
_EXPIRY_MARGIN = 300.0
_SOONEST_RENEWAL = 10.0
_TOLD_CONTEXTS = 10
_PLUGIN_SECONDS = 60.0  # a plugin may wait for a browser or a phone
# What the official client and the libraries under it raise on a bad file.
_BAD_CONFIG = (
    ConfigException,
    yaml.YAMLError,
    OSError,
    ssl.SSLError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
)


@dataclass(slots=True)
class Access:
    """`origin` says where it comes from, for messages."""

    configuration: Any
    origin: str
    namespace: str = "default"
    impersonate: Identity | None = None
    load: Callable[[], Awaitable[float | None]] | None = None
    """Reads the credentials again; the answer is in how many seconds to do so next, or None."""
    clock: Callable[[], float] = time.monotonic
    _due: float | None = None
    _renewed: float = 0.0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def authorization(self) -> str | None:
        """The value of the header, where the identity is no certificate."""
        if self._due is not None and self.clock() >= self._due:
            await self.renew()
        value: str | None = self.configuration.api_key.get("BearerToken")
        return value.strip() if value else None

    async def renew(self) -> bool:
        """Whether there was anything to renew. On an error the old credentials stay, and count until refused."""
        if self.load is None:
            return False
        asked = self.clock()
        async with self._lock:
            if self._renewed < asked:  # else somebody did while we waited
                try:
                    self.schedule(await self.load())
                except KubeconfigError as error:
                    log.warning("credentials could not be renewed", **{logs.ERROR: str(error)})
                    self.schedule(_SOONEST_RENEWAL)
        return True

    def schedule(self, seconds: float | None) -> None:
        self._renewed = self.clock()
        self._due = None if seconds is None else self.clock() + max(seconds, _SOONEST_RENEWAL)


async def find_access(*, kubeconfig: str | Path | None = None, context: str | None = None) -> Access:
    """The given file, else $KUBECONFIG, else the pod's account, else ~/.kube/config."""
    if kubeconfig:
        return await _from_files(str(kubeconfig), context=context)
    if named := os.environ.get("KUBECONFIG"):
        return await _from_files(named, context=context)
    if os.environ.get("KUBERNETES_SERVICE_HOST") and not context:
        return await from_pod()
    usual = Path.home() / ".kube" / "config"
    if usual.exists():
        return await _from_files(str(usual), context=context)
    raise KubeconfigError(f"no kubeconfig: name one with --kubeconfig, set KUBECONFIG, or write {usual}")


async def from_pod(folder: Path = POD_FOLDER) -> Access:
    origin = f"the pod's service account ({folder})"
    configuration = Configuration()

    async def load() -> float | None:
        loader = InClusterConfigLoader(
            token_filename=str(folder / "token"),
            cert_filename=str(folder / "ca.crt"),
            try_refresh_token=False,
        )
        try:
            loader.load_and_set(configuration)
        except _BAD_CONFIG as error:
            raise KubeconfigError(f"{origin}: {_first_line(error)}") from error
        return TOKEN_SECONDS

    access = Access(configuration, origin, load=load)
    access.schedule(await load())
    namespace = folder / "namespace"
    if namespace.is_file():
        access.namespace = namespace.read_text().strip() or access.namespace
    return access


async def _from_files(paths: str, *, context: str | None) -> Access:
    for path in filter(None, paths.split(os.pathsep)):
        _check_file(path, must_exist=os.pathsep not in paths)
    origin = f"kubeconfig {paths}"
    try:
        merged = KubeConfigMerger(paths).config
        _check_context(merged, context, origin=origin)
        loader = _Loader(config_dict=merged, active_context=context, config_base_path=None)
        active = loader.current_context
        user = _user_of(merged, active)
    except _BAD_CONFIG as error:
        raise KubeconfigError(f"{origin}: {_first_line(error)}") from error
    origin = f"kubeconfig {paths}, context {active['name']}"
    configuration = Configuration()

    async def load() -> float | None:
        try:
            await loader.load_and_set(configuration)
        except TimeoutError as error:
            raise KubeconfigError(
                f"{origin}: the exec plugin gave no answer in {_PLUGIN_SECONDS:.0f} s"
            ) from error
        except _BAD_CONFIG as error:
            raise KubeconfigError(f"{origin}: {_first_line(error)}") from error
        return loader.seconds_left(user)

    seconds = await load()
    renewable = bool({"exec", "auth-provider", "tokenFile"} & user.keys())
    access = Access(configuration, origin, load=load if renewable else None)
    access.schedule(seconds)
    access.namespace = active["context"].get("namespace") or access.namespace
    access.impersonate = _impersonation(user)
    return access


class _Loader(KubeConfigLoader):  # type: ignore[misc]  # the client has no types
    async def load_from_exec_plugin(self) -> bool:
        async with asyncio.timeout(_PLUGIN_SECONDS):
            status = await ExecProvider(self._user["exec"]).run()
        if token := status.get("token"):
            self.token = f"Bearer {token}"
        elif status.get("clientCertificateData") and status.get("clientKeyData"):
            self.cert_file = self._file_of(status, "clientCertificateData")
            self.key_file = self._file_of(status, "clientKeyData")
        else:
            raise ConfigException("the exec plugin gave neither a token nor a certificate with its key")
        self.expiry = status.get("expirationTimestamp")
        return True

    @staticmethod
    def _file_of(status: dict[str, str], key: str) -> str:
        return str(FileOrData(status, None, data_key_name=key, base64_file_content=False).as_file())

    def seconds_left(self, user: dict[str, Any]) -> float | None:
        expiry = getattr(self, "expiry", None)
        if expiry is not None:
            return float((parse_rfc3339(expiry) - datetime.now(UTC)).total_seconds()) - _EXPIRY_MARGIN
        return TOKEN_SECONDS if {"auth-provider", "tokenFile"} & user.keys() else None


def _check_file(path: str, *, must_exist: bool) -> None:
    """The official client says neither which file is broken nor that one is missing, and reads without limits."""
    try:
        content = safe_yaml.load(Path(path).expanduser().read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        if must_exist:
            raise KubeconfigError(f"kubeconfig {path} does not exist") from error
        return
    except (OSError, ValueError) as error:
        raise KubeconfigError(f"kubeconfig {path} cannot be read: {_first_line(error)}") from error
    if not isinstance(content, dict) or not isinstance(content.get("clusters"), list | None):
        raise KubeconfigError(
            f"kubeconfig {path} is no kubeconfig: clusters, contexts and users are expected"
        )


def _check_context(merged: Any, context: str | None, *, origin: str) -> None:
    """The client would speak of an expected object in a list."""
    known = [str(each["name"]) for each in merged.safe_get("contexts") or ()]
    if context and context not in known:
        some = ", ".join(sorted(known)[:_TOLD_CONTEXTS]) or "none"
        raise KubeconfigError(f"{origin} has no context {context}; it has {some}")


def _user_of(merged: Any, active: dict[str, Any]) -> dict[str, Any]:
    name = active["context"].get("user")
    found = merged["users"].get_with_name(name, safe=True) if name and merged.safe_get("users") else None
    if found is None:
        raise ConfigException(f"the context {active['name']!r} names a user that is not there: {name!r}")
    user: dict[str, Any] = found["user"].value
    return user


def _impersonation(user: dict[str, Any]) -> Identity | None:
    if not user.get("as"):
        return None
    extra = {key: tuple(values) for key, values in (user.get("as-user-extra") or {}).items()}
    return Identity(str(user["as"]), tuple(user.get("as-groups") or ()), str(user.get("as-uid") or ""), extra)


def _first_line(error: Exception) -> str:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return next(iter(str(error).splitlines()), "") or type(error).__name__
