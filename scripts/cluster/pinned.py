"""Programs built once from a module's pinned sources into the user's cache folder."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from scripts.cluster.binaries import Say, cache_folder, locked, platform_name
from scripts.cluster.building import build_programs


def built(
    module: Path,
    *,
    name: str,
    version: str,
    package: str,
    flags: str,
    about: str,
    say: Say,
    add: Callable[[Path], None] = lambda _: None,
) -> Path:
    """Its folder in the cache, by what the module's files pin: another version or dependency is another folder."""
    folder = cache_folder() / f"{name}-{version}-{_pinned(module)}-{platform_name()}"
    if folder.exists():  # renamed into place when complete
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{folder.name}.lock"), say=say):
        if not folder.exists():
            say(f"cluster: building {name} {version} for {platform_name()} with Go, once: about {about}")
            build_programs(
                module=module, packages={name: package}, flags=flags, folder=folder, say=say, add=add
            )
    return folder


def _pinned(module: Path) -> str:
    files = b"".join((module / name).read_bytes() for name in ("go.mod", "go.sum"))
    return hashlib.sha256(files).hexdigest()[:12]
