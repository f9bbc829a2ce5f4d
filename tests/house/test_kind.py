"""scripts/kind needs Docker; what can be shown without it."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "kind"


def test_it_is_a_script_that_bash_can_read() -> None:
    assert os.access(SCRIPT, os.X_OK)
    subprocess.run(["bash", "-n", str(SCRIPT)], check=True, timeout=30)


@pytest.mark.parametrize("missing", ["docker", "kind", "kubectl"])
def test_it_says_clearly_what_is_missing(tmp_path: Path, missing: str) -> None:
    for name in ("bash", "dirname"):
        (tmp_path / name).symlink_to(f"/bin/{name}" if Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")
    for name in {"docker", "kind", "kubectl"} - {missing}:
        (tmp_path / name).symlink_to("/bin/true")
    done = subprocess.run(
        ["bash", str(SCRIPT)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        env={"PATH": str(tmp_path)},
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"scripts/kind: {missing} is not installed: ")
