"""A Git repository of manifests on this machine, which Argo CD reads by its file:// address."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

GIT_SECONDS = 30.0
BRANCH = "main"


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._git("init", "--quiet", f"--initial-branch={BRANCH}", str(folder), inside=False)

    @property
    def url(self) -> str:
        return self.folder.as_uri()

    def commit(self, files: Mapping[str, str | None]) -> str:
        """The revision with these files written, or removed where there is no text."""
        for name, text in files.items():
            path = self.folder / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        self._git("add", "--all")
        self._git("commit", "--quiet", "--message", ", ".join(files))
        return self._git("rev-parse", "HEAD").strip()

    def _git(self, *words: str, inside: bool = True) -> str:
        place = ["-C", str(self.folder)] if inside else []
        name = {"user.name": "tests", "user.email": "tests@example.test", "commit.gpgsign": "false"}
        settings = [word for key, value in name.items() for word in ("-c", f"{key}={value}")]
        done = subprocess.run(
            ["git", *settings, *place, *words],
            env=os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
            check=True,
        )
        return done.stdout
