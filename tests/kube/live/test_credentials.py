"""Kubeconfigs and pods: good ones, renewed ones, and broken ones in one clear line."""

import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.errors import KubeconfigError, UnauthorizedError
from kube.live import LiveStore, credentials
from kube.live.connection import Connection
from kube.live.credentials import TOKEN_SECONDS, find_access, from_pod
from kube.resources import CONFIG_MAPS
from kube.store import Identity
from tests.kube.live.scripted_server import connected, found, serving, status, write_kubeconfig
from tests.tiphys.test_safe_yaml import HOSTILE

NOBODY = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def no_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the machine's kubeconfig nor a pod's environment."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


async def _trouble(**options: Any) -> str:
    with pytest.raises(KubeconfigError) as caught:
        await LiveStore.connect(**options)
    message = str(caught.value)
    assert "\n" not in message
    assert caught.value.exit_code == 2
    return message


async def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nothing"
    assert await _trouble(kubeconfig=path) == f"kubeconfig {path} does not exist"


async def test_a_file_that_is_no_yaml_is_named_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("apiVersion: v1\nclusters:\n- a: b: c\n")
    message = await _trouble(kubeconfig=path)
    assert (
        message
        == f"kubeconfig {path} cannot be read: line 3, column 7: mapping values are not allowed in this context"
    )


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
async def test_a_file_with_more_than_anybody_writes_is_refused_in_one_line(
    tmp_path: Path, content: str
) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    assert f"kubeconfig {path} cannot be read" in await _trouble(kubeconfig=path)


@pytest.mark.parametrize("content", ["", "just text", "[]", "clusters: 3"])
async def test_a_file_that_is_no_kubeconfig_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    assert str(path) in await _trouble(kubeconfig=path)


async def test_bytes_that_are_no_text_are_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(b"\xff\xfe\x00binary")
    assert f"kubeconfig {path} cannot be read" in await _trouble(kubeconfig=path)


async def test_an_unknown_context_is_named(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", server=NOBODY)
    message = await _trouble(kubeconfig=path, context="elsewhere")
    assert str(path) in message
    assert "elsewhere" in message


async def test_a_context_without_its_user_is_named(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", server=NOBODY)
    message = await _trouble(kubeconfig=path, context="nobody")
    assert str(path) in message
    assert "'ghost'" in message


async def test_a_missing_key_is_named(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text("clusters: []\ncontexts: []\nusers: []\n")
    message = await _trouble(kubeconfig=path)
    assert str(path) in message
    assert "current-context" in message


@pytest.mark.parametrize(
    "user",
    [
        {"client-certificate-data": "bm9uZQ==", "client-key-data": "bm9uZQ=="},
        {"client-certificate": "/nowhere/at.all", "client-key": "/nowhere/at.all"},
        {"client-certificate-data": "!", "client-key-data": "!"},
    ],
)
async def test_a_broken_certificate_is_told_with_its_file(tmp_path: Path, user: dict[str, str]) -> None:
    path = write_kubeconfig(tmp_path / "config", server="https://127.0.0.1:1", user=user)
    assert str(path) in await _trouble(kubeconfig=path)


async def test_secrets_of_a_kubeconfig_are_in_no_message(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", server="https://127.0.0.1:1", user={"token": "sesame"})
    path.write_text(path.read_text().replace("current-context: here", "current-context: gone"))
    assert "sesame" not in await _trouble(kubeconfig=path)
    path.write_text("users: [{name: me, user: {token: sesame}}\n- x")
    assert "sesame" not in await _trouble(kubeconfig=path)


async def test_without_any_kubeconfig_the_message_says_what_to_do() -> None:
    assert "set KUBECONFIG" in await _trouble()


async def test_the_environment_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_kubeconfig(tmp_path / "config", server=NOBODY)
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path / 'absent'}{os.pathsep}{path}")
    access = await find_access()
    assert access.configuration.host == NOBODY
    assert access.namespace == "team"
    assert await access.authorization() == "Bearer sesame"


async def test_an_unreachable_server_is_named_with_its_url(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", server=NOBODY)
    store = await LiveStore.connect(kubeconfig=path)
    try:
        with pytest.raises(
            Exception, match=r"http://127\.0\.0\.1:1 cannot be reached: Connection refused"
        ) as caught:
            await store.get(CONFIG_MAPS, name="a", namespace="default")
        assert "\n" not in str(caught.value)
        assert getattr(caught.value, "exit_code", None) == 2
        assert not getattr(caught.value, "outcome_unknown", True)
    finally:
        await store.close()


async def test_impersonation_is_sent_as_headers(tmp_path: Path) -> None:
    eve = Identity("eve", ("dev", "ops"), "u-1", {"example.com/scope": ("a", "b")})
    async with serving(found()) as script, connected(script, tmp_path, impersonate=eve) as store:
        await store.get(CONFIG_MAPS, name="a", namespace="default")
    headers = script.requests[0].headers
    assert headers["Impersonate-User"] == "eve"
    assert headers.getall("Impersonate-Group") == ["dev", "ops"]
    assert headers["Impersonate-Uid"] == "u-1"
    assert headers.getall("Impersonate-Extra-example.com%2Fscope") == ["a", "b"]
    assert headers["Authorization"] == "Bearer sesame"
    assert headers["User-Agent"].startswith("tiphys/")


async def test_the_impersonation_of_a_kubeconfig_is_not_forgotten(tmp_path: Path) -> None:
    user = {"token": "sesame", "as": "eve", "as-groups": ["dev"]}
    async with serving(found()) as script, connected(script, tmp_path, user=user) as store:
        await store.get(CONFIG_MAPS, name="a", namespace="default")
    assert script.requests[0].headers["Impersonate-User"] == "eve"
    assert script.requests[0].headers.getall("Impersonate-Group") == ["dev"]


async def test_a_refused_token_is_read_again_from_its_file(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old\n")
    answers = (status(401), found())
    async with (
        serving(*answers) as script,
        connected(script, tmp_path, user={"tokenFile": str(token)}) as store,
    ):
        token.write_text("new\n")
        await store.get(CONFIG_MAPS, name="a", namespace="default")
    assert [request.headers["Authorization"] for request in script.requests] == ["Bearer old", "Bearer new"]


async def test_a_token_file_is_read_again_in_time(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    path = write_kubeconfig(tmp_path / "config", server=NOBODY, user={"tokenFile": str(token)})
    access = await find_access(kubeconfig=path)
    now = 1000.0
    access.clock = lambda: now
    access.schedule(TOKEN_SECONDS)
    token.write_text("new")
    now += 59
    assert await access.authorization() == "Bearer old"
    now += 2
    assert await access.authorization() == "Bearer new"
    token.unlink()  # as in the moment of an exchange: the last one stays good
    now += 61
    assert await access.authorization() == "Bearer new"
    token.write_text("newest")
    now += 11
    assert await access.authorization() == "Bearer newest"


async def test_a_token_that_stays_refused_is_told_as_expired(tmp_path: Path) -> None:
    async with serving(status(401)) as script, connected(script, tmp_path) as store:
        with pytest.raises(UnauthorizedError, match="has expired or is unknown") as caught:
            await store.get(CONFIG_MAPS, name="a", namespace="default")
    message = str(caught.value)
    assert script.url in message
    assert f"{tmp_path / 'config'}, context here" in message
    assert "sesame" not in message
    assert caught.value.exit_code == 2


def _plugin(folder: Path, script: str) -> dict[str, Any]:
    path = folder / "plugin"
    path.write_text(f"#!{sys.executable}\n{script}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path)}}


COUNTING_PLUGIN = """
import json, os, pathlib
count = pathlib.Path(__file__).with_suffix(".count")
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
status = {"token": f"t{number}"}
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}))
"""


async def test_a_plugin_gives_the_token_and_is_asked_again_when_that_is_refused(tmp_path: Path) -> None:
    user = _plugin(tmp_path, COUNTING_PLUGIN)
    async with (
        serving(found(), status(401), found()) as script,
        connected(script, tmp_path, user=user) as store,
    ):
        for _ in range(2):
            await store.get(CONFIG_MAPS, name="a", namespace="default")
    tokens = [request.headers["Authorization"] for request in script.requests]
    assert tokens == ["Bearer t1", "Bearer t1", "Bearer t2"]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("import sys; sys.exit('log in first')", "log in first"),
        ("print('no json')", "decode"),
        ("print('{}')", "missing key"),
    ],
)
async def test_a_plugin_that_fails_is_an_error_and_not_anonymity(
    tmp_path: Path, script: str, words: str
) -> None:
    path = write_kubeconfig(tmp_path / "config", server=NOBODY, user=_plugin(tmp_path, script))
    message = await _trouble(kubeconfig=path)
    assert str(path) in message
    assert words in message


async def test_a_plugin_that_is_not_there_is_named(tmp_path: Path) -> None:
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere/plugin"}}
    path = write_kubeconfig(tmp_path / "config", server=NOBODY, user=user)
    assert "/nowhere/plugin" in await _trouble(kubeconfig=path)


async def test_a_pod_uses_its_account_and_its_new_tokens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    for name, content in (("token", "one"), ("ca.crt", "a certificate"), ("namespace", "home\n")):
        (tmp_path / name).write_text(content)
    access = await from_pod(tmp_path)
    now = 1000.0
    access.clock = lambda: now
    access.schedule(TOKEN_SECONDS)
    assert access.configuration.host == "https://[::1]:6443"
    assert access.namespace == "home"
    assert await access.authorization() == "bearer one"
    (tmp_path / "token").write_text("two\n")
    now += 61
    assert await access.authorization() == "bearer two"


async def test_a_pod_without_its_files_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(credentials, "POD_FOLDER", tmp_path)
    assert "the pod's service account" in await _trouble()


async def test_the_names_of_tls_and_proxy_are_used(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", server=NOBODY)
    content = yaml.safe_load(path.read_text())
    content["clusters"][0]["cluster"] |= {
        "tls-server-name": "api.example.com",
        "proxy-url": "http://127.0.0.1:9",
    }
    path.write_text(yaml.safe_dump(content))
    access = await find_access(kubeconfig=path)
    connection = Connection(access, impersonate=None, concurrency=1, deadline=1, on_warning=None)
    assert connection._options == {"server_hostname": "api.example.com", "proxy": "http://127.0.0.1:9"}
    await connection.close()
