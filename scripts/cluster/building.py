"""Builds programs with Go from pinned module sources: etcd and Kubernetes here, others on the same code."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tiphys.errors import SurroundingsError

HERE = Path(__file__).parent
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}
VERSION_PACKAGE = "k8s.io/component-base/version"
PROGRESS_SECONDS = 15.0
BUILD_SECONDS = 2700.0  # Argo CD, the longest, takes ten minutes on two idle cores, and 22 beside many others


def build(*, version: str, platform: str, folder: Path, say: Callable[[str], None]) -> None:
    say(f"cluster: building Kubernetes {version} for {platform} with Go, once: about five minutes")
    build_programs(module=HERE, packages=PACKAGES, flags=kubernetes_flags(version), folder=folder, say=say)


def build_programs(
    *,
    module: Path,
    packages: Mapping[str, str],
    flags: str,
    folder: Path,
    say: Callable[[str], None],
    add: Callable[[Path], None] = lambda _: None,
) -> None:
    """Programs by name into `folder`, with what `add` puts beside them: all of it at once, or nothing."""
    go = shutil.which("go")
    if not go:
        raise SurroundingsError("Go is not installed")
    started = time.monotonic()
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        ready = Path(scratch) / "ready"
        ready.mkdir()
        log = Path(scratch) / "build.log"
        for name, package in packages.items():
            command = [go, "build", "-v", "-mod=readonly", "-trimpath", f"-ldflags={flags}"]
            command += ["-o", str(ready / name), package]
            _run(command, f"compiling {name}", module=module, log=log, say=say)
        add(ready)
        shutil.rmtree(folder, ignore_errors=True)
        ready.rename(folder)
    say(f"cluster: built in {time.monotonic() - started:.0f} s")


def kubernetes_flags(version: str) -> str:
    """Stripped, and with the version that kubectl and kube-apiserver cannot do without."""
    major, minor, _ = version.removeprefix("v").split(".", 2)
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X {VERSION_PACKAGE}.{name}={value}" for name, value in values.items())])


def _run(command: list[str], what: str, *, module: Path, log: Path, say: Callable[[str], None]) -> None:
    say(f"cluster: {what}")
    environment = os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"}
    deadline = time.monotonic() + BUILD_SECONDS
    with log.open("w") as output:
        process = subprocess.Popen(command, cwd=module, env=environment, stdout=output, stderr=output)
    try:
        while True:
            try:
                code = process.wait(PROGRESS_SECONDS)
                break
            except subprocess.TimeoutExpired:
                if time.monotonic() > deadline:
                    raise SurroundingsError(f"{what} took longer than {BUILD_SECONDS:.0f} s") from None
                lines = log.read_text().splitlines()
                say(f"cluster: {what}: {len(lines)} packages, now {lines[-1] if lines else 'the first'}")
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    if code:
        last = " ".join(log.read_text().splitlines()[-3:])
        raise SurroundingsError(f"{what} failed: {last}")
