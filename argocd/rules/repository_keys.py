"""Keys and certificates in repository secrets that Argo CD cannot parse. No finding quotes them."""

import re
from collections.abc import Iterator

from argocd import names
from argocd.go import pem
from argocd.judging.case import Action, Case, Finding, Kind, Profile, Rule
from argocd.rules import examples
from argocd.settings import secrets

_LABELS = {
    "sshPrivateKey": "PRIVATE KEY",
    "githubAppPrivateKey": "PRIVATE KEY",
    "tlsClientCertKey": "PRIVATE KEY",
    "tlsClientCertData": "CERTIFICATE",
}
# What a tool will replace before the secret reaches a cluster, or what a page leaves out.
_PLACEHOLDER = re.compile(r"\.\.\.|…|<|\$|\{\{|ENC\[|\*\*\*|xxx", re.IGNORECASE)
_PLACEHOLDER_WITHIN = 65_536
"""Characters in which one is looked for: no key is longer."""


def _key_unreadable(case: Case) -> Iterator[Finding]:
    for key, label in _LABELS.items():
        text = secrets.value(case.object, key)
        if not text or not text.strip() or _PLACEHOLDER.search(text[:_PLACEHOLDER_WITHIN]):
            continue
        if reason := pem.problem(text, label=label):
            yield Finding(
                "repository/key-unreadable",
                f"data.{key}",
                f"Argo CD cannot parse {key}: {reason}",
                "Store the file as it is, with its first and last line and without a passphrase.",
            )


def _key(content: str) -> str:
    return examples.secret(
        kind="repository",
        values=f"""\
url: git@git.example.com:shop/shop.git
sshPrivateKey: |
  -----BEGIN PRIVATE KEY-----
  {content}
  -----END PRIVATE KEY-----""",
    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="repository/key-unreadable",
        kinds=frozenset({Kind.REPOSITORY}),
        profile=Profile.RECOMMENDED,
        action=Action.DENY,
        reads=(*(f"data[{key}]" for key in _LABELS), f"metadata.labels[{names.SECRET_TYPE}]"),
        title="Keys and certificates can be parsed",
        explanation=(
            "sshPrivateKey, githubAppPrivateKey, tlsClientCertKey and tlsClientCertData are PEM: a line with BEGIN, base64, "
            "a line with END. A key that is cut, of another kind or behind a passphrase fails every application of the "
            "repository. Placeholders are left alone; the numbers in a key are not checked."
        ),
        bad=_key("bm90IGEga2V5"),
        good=_key("MAMCAQA="),
        check=_key_unreadable,
    ),
)
