"""YAML, what nearly is, and what is not, through `tiphys check`."""

import random
import tempfile
from functools import cache
from pathlib import Path

from click.testing import CliRunner

from argocd.rules.catalogue import CATALOGUE
from checks.report_forms import FORMATS
from cli.commands.check import command
from tests.fuzz.target import Target

LARGEST = 128 * 1024
"""Bytes of an input: hostile things do not need more."""

TOKENS = (
    *(
        "- ",
        "? ",
        ": ",
        "&a ",
        "*a",
        "&-0 ",
        "*-0",
        "!!int ",
        "!!merge <<: *a",
        "<<: *a",
        "!x ",
        "!<y> ",
        "%TAG ! x\n",
    ),
    *(
        "%YAML 1.1\n",
        "---\n",
        "...\n",
        "[",
        "]",
        "{",
        "}",
        ",",
        "|\n",
        ">-\n",
        "'",
        '"',
        "\\x41",
        "\\ud800",
        "#",
        "\n",
        "\n  ",
    ),
    *(
        "\t",
        "\r",
        "\x85",
        "\u2028",
        "\ufeff",
        "\x00",
        "\x1b",
        "~",
        "0x",
        "1:30",
        "1e9",
        ".inf",
        "2027-02-31",
        "{{",
        "}}",
        "{%",
    ),
    *(
        "kind: Application\n",
        "kind: List\nitems: ",
        "apiVersion: argoproj.io/v1alpha1\n",
        "$patch: delete\n",
        "sops: {}\n",
    ),
    *("ENC[AES256_GCM,", "metadata: {name: a}\n", "é", "\U0001f600", "\u202e"),
)


@cache
def corpus() -> tuple[bytes, ...]:
    return tuple(text.encode() for rule in CATALOGUE for text in (rule.good, rule.bad))


def make(chance: random.Random) -> bytes:
    data = bytearray(chance.choice(corpus()) if chance.random() < 0.8 else b"")
    for _ in range(chance.randint(1, 12)):
        at = chance.randint(0, len(data))
        what = chance.random()
        if what < 0.6:
            token = chance.choice(TOKENS).encode(errors="surrogatepass")
            many = 1 if chance.random() < 0.8 else 1 << chance.randint(1, 17)
            data[at:at] = token * min(many, LARGEST // len(token))
        elif what < 0.75:
            del data[at : at + chance.randint(1, 40)]
        elif what < 0.9:
            other = chance.choice(corpus())
            start = chance.randrange(len(other))
            data[at:at] = other[start : start + chance.randint(1, 200)]
        else:
            data[at:at] = chance.randbytes(chance.randint(1, 8))
        del data[LARGEST:]
    return bytes(data)


def run(data: bytes) -> None:
    """By its bytes, so that an input does the same again."""
    options = random.Random(data)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / options.choice(("a.yaml", "a.json", "kustomization.yaml"))
        file.write_bytes(data)
        named = options.choice((str(file), folder))
        extra = options.choice(([], ["--fix", "--yes"], ["--strict-input"], ["--any-file", "--quiet"]))
        form = options.choice(sorted(FORMATS))
        done = CliRunner().invoke(command, [named, "--format", form, *extra])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code in {0, 1, 2}, done.exit_code
    assert "this rule failed" not in done.stdout, done.stdout


TARGET = Target("yaml", make=make, run=run, seconds=5, mebibytes=512)
