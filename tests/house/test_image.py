"""The Dockerfile, as far as it can be checked where no Docker is: what it copies, runs as, installs and asks of whom."""

import json
import re
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts import sbom

ROOT = Path(__file__).parents[2]
Instruction = tuple[str, str]


@pytest.fixture(scope="module")
def dockerfile() -> list[Instruction]:
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines if line.strip())]


def _copied(dockerfile: list[Instruction]) -> list[str]:
    return [
        source
        for word, rest in dockerfile
        if word == "COPY" and not rest.startswith("--from")
        for source in shlex.split(rest)[:-1]
    ]


def test_everything_that_is_copied_exists_and_every_room_is(dockerfile: list[Instruction]) -> None:
    copied = _copied(dockerfile)
    assert [source for source in copied if not (ROOT / source).exists()] == []
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"scripts"}
    assert rooms <= set(copied)


def test_only_what_is_copied_goes_to_the_builder(dockerfile: list[Instruction]) -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert let_in == {source.split("/")[0] for source in _copied(dockerfile)}


def test_it_runs_as_a_number_that_is_not_root(dockerfile: list[Instruction]) -> None:
    """A name cannot be checked by `runAsNonRoot`."""
    (user,) = [rest for word, rest in dockerfile if word == "USER"]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)


def test_the_base_is_an_argument_and_no_host_is_named(dockerfile: list[Instruction]) -> None:
    assert {rest.split(" AS ")[0] for word, rest in dockerfile if word == "FROM"} == {"${BASE}"}
    assert dockerfile[0][0] == "ARG"
    text = (ROOT / "Dockerfile").read_text()
    assert "://" not in text
    assert not re.search(r"\b[a-z0-9-]+\.(com|dev|io|org|net)\b", text)


def test_one_command_starts_everything(dockerfile: list[Instruction]) -> None:
    assert [json.loads(rest) for word, rest in dockerfile if word == "ENTRYPOINT"] == [["tiphys"]]


def test_whatever_comes_from_elsewhere_has_a_hash(dockerfile: list[Instruction]) -> None:
    calls = [
        call for word, rest in dockerfile if word == "RUN" for call in rest.split("&&") if " pip " in call
    ]
    assert calls
    for call in calls:
        assert "--no-index" in call or "--require-hashes" in call


def test_our_wheel_holds_the_command_and_the_status_page(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in (
        "pyproject.toml",
        "README.md",
        "LICENSE",
        "argocd",
        "certs",
        "checks",
        "cli",
        "demo",
        "kube",
        "sidecars",
        "tiphys",
        "webhook",
    ):
        subprocess.run(["cp", "-r", str(ROOT / name), str(source)], check=True, timeout=30)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(source)],
        check=True,
        timeout=100,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("tiphys-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = [name for name in names if name.endswith("entry_points.txt")]
        assert "tiphys = cli.main:main" in archive.read(entry_points).decode()
    assert "webhook/templates/status.html" in names
    assert {"tiphys/pages/templates/layout.html", "tiphys/pages/static/tiphys.css"} <= set(names)
    assert not [name for name in names if name.startswith(("tests/", "scripts/"))]


def test_the_bill_of_materials_names_every_locked_package_with_its_licence() -> None:
    lock = sbom.LOCK.read_text()
    found = sbom.packages(lock)
    bill = sbom.bill_of_materials(found)
    assert bill == sbom.bill_of_materials(sbom.packages(lock))
    assert {part["name"] for part in bill["components"]} == set(sbom.locked(lock))
    assert "unknown" not in {package.licence.lower() for package in found}
    assert all(package.hashes for package in found)
