"""Repository URLs as Argo CD compares them.

Both sides of a comparison are normalised: lower case, no `.git`, `git@host:path` as `host/path`. A URL that
Go's net/url cannot read, `ssh://git@host:org/repo` for one, becomes empty, and so equals every other such URL.
"""

import re

from argocd.budget import remembered, spend
from argocd.go import net_url, runes

_PLAIN = re.compile(r"https?://[a-z0-9.-]+(?::[0-9]+)?(?:/[a-z0-9_.~/*-]*)?")
"""What most are, and what stays as it is when it is read and written again."""
_PLAIN_SSH = re.compile(r"([a-z0-9._-]+@[a-z0-9.-]+):([a-z0-9_.~/*-]*)")
"""What most others are, of which the colon becomes a slash."""
_READING = 5
"""Steps to read any other and write it again."""
_AT_ONCE = 2
"""Characters of it that one step reads."""
_SSH = re.compile(r"(ssh://)?([^/:]*?)@[^@]+")
_SCHEMES = frozenset({"http", "https", "ssh", "git", "oci", "file"})
_FOLDER = re.compile(r"\.{1,2}/|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+/[^:]*\Z")
"""./folder, or host.name/path; host:path is ssh's, and a word alone stands for what a pipeline will write."""
_SHOWN = 20
"""Characters of a scheme that are repeated: no more can be one."""


def is_plain(url: str) -> bool:
    """Whether it is what most are: nobody can read it in two ways."""
    return bool(_PLAIN.fullmatch(url) or _PLAIN_SSH.fullmatch(url))


def same(one: str, other: str) -> bool:
    """Whether both mean the same repository; two that nobody can read do not."""
    normalized = normalize(one)
    return bool(normalized) and normalized == normalize(other)


def problem(url: str) -> str:
    """Why Argo CD cannot fetch from there; empty where it can, or where the address alone does not tell."""
    if not url:
        return ""
    if any(character.isspace() for character in url):
        return "an address has no blanks"
    scheme, separator, rest = url.partition("://")
    if not separator:
        return ""
    if scheme.lower() not in _SCHEMES:
        return f"Argo CD cannot fetch over {scheme[:_SHOWN]}"
    return "" if rest else "there is nothing behind the scheme"


def git_problem(url: str) -> str:
    """The same for a repository that is surely Git's or a registry with its scheme; a Helm registry has none."""
    found = problem(url)
    if found or not url:
        return found
    if "://" in url:
        return "" if net_url.read(url) else "it cannot be parsed, as Go reads URLs"
    return "it has no scheme, and is taken for a folder" if _FOLDER.match(url) else ""


@remembered(longest=500, most=4096)
def normalize(url: str) -> str:
    url = runes.lower(runes.trim(url))
    bare = url.removesuffix(".git")
    if _PLAIN.fullmatch(bare):
        return bare
    if plain := _PLAIN_SSH.fullmatch(bare):
        return f"{plain[1]}/{plain[2]}"
    spend(_READING + len(url) // _AT_ONCE)
    if _SSH.fullmatch(url) and not url.startswith("ssh://"):
        # A colon after the host would count as the beginning of a port.
        url = f"ssh://{url.replace(':', '/', 1)}"
    return (net_url.rewritten(url.removesuffix(".git")) or "").removeprefix("ssh://")
