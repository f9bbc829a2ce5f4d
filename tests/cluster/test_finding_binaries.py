"""The four places that binaries come from, without starting any."""

import hashlib
import io
import socketserver
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler
from pathlib import Path

import pytest
import yaml

from scripts.cluster import bundle, definitions
from scripts.cluster.binaries import (
    NAMES,
    NoBinariesError,
    cache_folder,
    find_binaries,
    kubernetes_version,
    platform_name,
)
from scripts.cluster.building import kubernetes_flags
from tiphys.errors import SurroundingsError


@pytest.fixture(autouse=True)
def empty_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, no Go, no network."""
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "no-programs"))
    monkeypatch.setattr(bundle, "INDEX", "http://127.0.0.1:1/index.yaml")


def put(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder


def test_the_environments_folder_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(cache_folder() / f"{kubernetes_version()}-{platform_name()}", *NAMES)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(put(tmp_path / "assets", *NAMES)))

    found = find_binaries()

    assert (found.folder, found.origin) == (tmp_path / "assets", "KUBEBUILDER_ASSETS")


def test_an_incomplete_folder_of_the_environment_is_an_error_and_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(put(tmp_path / "assets", "etcd")))

    with pytest.raises(NoBinariesError, match=r"assets has no kube-apiserver, kubectl"):
        find_binaries()


def test_the_cache_comes_second() -> None:
    folder = put(cache_folder() / f"{kubernetes_version()}-{platform_name()}", *NAMES)

    found = find_binaries()

    assert (found.folder, found.origin) == (folder, "the cache")


def test_without_any_place_one_line_tells_what_was_tried_and_what_to_do() -> None:
    said: list[str] = []

    with pytest.raises(NoBinariesError) as caught:
        find_binaries(say=said.append)

    message = str(caught.value)
    assert "the envtest bundle: http://127.0.0.1:1/index.yaml cannot be downloaded" in message
    assert "a build with Go: Go is not installed" in message
    assert "set KUBEBUILDER_ASSETS" in message
    assert "\n" not in message
    assert said[0].startswith("cluster: looking for the envtest bundle")


def test_a_build_carries_the_version_without_which_kubectl_does_not_start() -> None:
    assert "-X k8s.io/component-base/version.gitVersion=v1.36.3" in kubernetes_flags("v1.36.3")


def archive_of(*names: str) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as files:
        for name in names:
            member = tarfile.TarInfo(f"controller-tools/envtest/{name}")
            member.size = len(name)
            files.addfile(member, io.BytesIO(name.encode()))
    return content.getvalue()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A web server with what is put into this folder."""
    folder = tmp_path / "site"
    folder.mkdir()
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with socketserver.TCPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setattr(bundle, "INDEX", f"http://127.0.0.1:{server.server_address[1]}/index.yaml")
        yield folder
        server.shutdown()
        thread.join()


def publish(site: Path, release: str, content: bytes, *, checksum: str = "") -> None:
    name = f"envtest-{release}-{platform_name()}.tar.gz"
    (site / name).write_bytes(content)
    entry = {
        "hash": checksum or hashlib.sha512(content).hexdigest(),
        "selfLink": bundle.INDEX.replace("index.yaml", name),
    }
    index = site / "index.yaml"
    releases = yaml.safe_load(index.read_text())["releases"] if index.exists() else {}
    index.write_text(yaml.safe_dump({"releases": {**releases, release: {name: entry}}}))


def test_the_bundle_comes_third_and_is_kept(site: Path) -> None:
    publish(site, kubernetes_version(), archive_of(*NAMES))

    assert find_binaries().origin == "the envtest bundle"

    found = find_binaries()
    assert found.origin == "the cache"
    assert found.etcd.read_text() == "etcd"


def test_the_newest_patch_of_the_same_series_stands_in_for_a_version_without_a_bundle(site: Path) -> None:
    for patch in ("v1.36.0", "v1.36.10", "v1.36.9", "v1.37.0", "v1.36.11-rc.0"):
        publish(site, patch, archive_of(*NAMES))
    index = yaml.safe_load((site / "index.yaml").read_text())

    release, _ = bundle._choose(index, version="v1.36.3", platform=platform_name())

    assert release == "v1.36.10"


@pytest.mark.parametrize(
    ("content", "checksum", "complaint"),
    [
        pytest.param(archive_of(*NAMES), "0" * 128, "does not have the checksum", id="wrong-checksum"),
        pytest.param(archive_of("etcd"), "", "has no kube-apiserver, kubectl", id="incomplete"),
    ],
)
def test_a_bad_bundle_is_refused_and_nothing_of_it_kept(
    site: Path, content: bytes, checksum: str, complaint: str
) -> None:
    publish(site, kubernetes_version(), content, checksum=checksum)

    with pytest.raises(NoBinariesError, match=complaint):
        find_binaries()

    assert [path.suffix for path in cache_folder().iterdir()] == [".lock"]


def test_no_bundle_for_this_platform_is_said(site: Path) -> None:
    publish(site, "v1.36.0", b"")
    index = yaml.safe_load((site / "index.yaml").read_text())

    with pytest.raises(SurroundingsError, match=r"lists no bundle of v1\.36\.x for plan9-mips"):
        bundle._choose(index, version="v1.36.3", platform="plan9-mips")


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "CONNECT_SECONDS", 0.2)
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as silent:
        monkeypatch.setattr(bundle, "INDEX", f"http://127.0.0.1:{silent.server_address[1]}/index.yaml")

        with pytest.raises(
            SurroundingsError, match=r"index\.yaml (took longer than 0\.2 s|cannot be downloaded)"
        ):
            bundle.download(
                version="v1.36.3", platform="linux-amd64", folder=cache_folder(), say=lambda _: None
            )


def test_without_go_small_definitions_of_our_own_are_used_and_it_says_so() -> None:
    found = definitions.find_definitions()

    assert found.origin == "small definitions of our own (Go is not installed)"
    assert {each["spec"]["names"]["kind"] for each in found.objects} == set(definitions.KINDS)
