import pytest

from tests.argocd.rules.asking import ask, secret

RULE = "repository/key-unreadable"
HEAD, TAIL = "-----BEGIN PRIVATE KEY-----\n", "\n-----END PRIVATE KEY-----\n"


@pytest.mark.parametrize(
    ("key", "text", "found"),
    [
        ("sshPrivateKey", f"{HEAD}MAMCAQA={TAIL}", 0),
        ("sshPrivateKey", "", 0),
        ("sshPrivateKey", f"{HEAD}...{TAIL}", 0),
        ("sshPrivateKey", "<path:secret/data/git#key>", 0),
        ("sshPrivateKey", "${SSH_KEY}", 0),
        ("sshPrivateKey", "ENC[AES256_GCM,data:abc]", 0),
        ("sshPrivateKey", "ssh-ed25519 AAAAC3 ada", 1),
        ("sshPrivateKey", f"{HEAD}bm90IGEga2V5{TAIL}", 1),
        ("githubAppPrivateKey", f"{HEAD}MAMCAQA=", 1),
        ("tlsClientCertData", f"{HEAD}MAMCAQA={TAIL}", 1),
        ("password", "not a key", 0),
    ],
)
def test_a_key_can_be_parsed_or_is_a_placeholder(key: str, text: str, found: int) -> None:
    given = secret("repository", url="git@git.example.com:shop.git", **{key: text})
    assert len(ask(RULE, given)) == found


def test_no_finding_quotes_a_key() -> None:
    (finding,) = ask(RULE, secret("repository", sshPrivateKey="never-shown"))
    assert "never-shown" not in finding.message + finding.hint
