"""The tables of keys agree with each other, and with the Argo CD whose sources are here."""

import re
from pathlib import Path

import pytest

from argocd import names
from argocd.settings.keys import home_of, keys_of
from tests.corpus.argocd_module import argocd_module

THREE = (names.ARGOCD_CM, names.ARGOCD_RBAC_CM, names.ARGOCD_CMD_PARAMS_CM)
_KEY_IN_MANIFEST = re.compile(r"configMapKeyRef:\n((?:\s+(?:name|key|optional): .*\n){2,3})")
_KEY_IN_CODE = re.compile(r'^\s+\w*[kK]ey\w*\s+= "([a-z][\w.]+)"$', re.MULTILINE)


@pytest.mark.parametrize("name", THREE)
def test_a_key_is_at_home_in_one_config_map(name: str) -> None:
    for key in keys_of(name).exact:
        assert home_of(key) == f"ConfigMap {name}"


@pytest.mark.parametrize(
    ("key", "version", "is_read"),
    [
        ("repositories", (2, 14), True),
        ("repositories", (3, 0), False),
        ("webhook.refresh.jitter", (3, 4), False),
        ("webhook.refresh.jitter", (3, 5), True),
        ("webhook.refresh.jitter", (3, 5, 6), True),
        ("url", (2, 13), True),
    ],
)
def test_a_key_is_read_by_some_releases(key: str, version: tuple[int, ...], *, is_read: bool) -> None:
    known = keys_of(names.ARGOCD_CM).find(key)
    assert known
    assert known.is_read_by(version) is is_read


@pytest.mark.parametrize(
    "key",
    [
        "accounts.ci",
        "accounts.ci.enabled",
        "help.download.linux-amd64",
        "resource.customizations.health.a.b_C",
    ],
)
def test_a_key_may_have_a_part_that_users_name(key: str) -> None:
    assert keys_of(names.ARGOCD_CM).find(key)
    assert keys_of(names.ARGOCD_CM).find(key.split(".", maxsplit=1)[0]) is None


def in_manifests(module: Path, config_map: str) -> set[str]:
    found = set()
    for manifest in (module / "manifests" / "base").rglob("*.yaml"):
        for reference in _KEY_IN_MANIFEST.findall(manifest.read_text()):
            fields = dict(line.split(": ", 1) for line in map(str.strip, reference.strip().splitlines()))
            if fields["name"].strip("'\"") == config_map:
                found.add(fields["key"].strip("'\""))
    return found


@pytest.mark.parametrize("config_map", [names.ARGOCD_CM, names.ARGOCD_CMD_PARAMS_CM])
def test_every_key_that_argo_cds_manifests_name_is_known(config_map: str) -> None:
    module = argocd_module()
    named = in_manifests(module, config_map)
    assert named
    assert {key for key in named if keys_of(config_map).find(key) is None} == set()


def test_every_key_in_argo_cds_settings_is_known_or_a_secrets() -> None:
    code = (argocd_module() / "util" / "settings" / "settings.go").read_text()
    keys = {key for key in _KEY_IN_CODE.findall(code) if "." in key}
    assert keys
    prefixes = {"kustomize.version", "kustomize.path", "help.download"}
    assert {key for key in keys - prefixes if not home_of(key)} == set()
