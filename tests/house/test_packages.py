"""A release as others get it: wheel and sdist in an environment of their own, the lock for both platforms of the image."""

import os
import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from tiphys import __version__

ROOT = Path(__file__).parents[2]
LOCK = ROOT / "requirements" / "runtime.txt"
PROJECT = "apiVersion: argoproj.io/v1alpha1\nkind: AppProject\nmetadata: {name: web, namespace: argocd}\nspec: SPEC\n"
PLATFORMS = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


def run(
    *command: str | Path,
    cwd: Path = ROOT,
    environment: Mapping[str, str] | None = None,
    codes: tuple[int, ...] = (0,),
) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode in codes, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run("make", "packages", f"DIST={folder}")
    return folder


@pytest.fixture(scope="module")
def clean(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pipx would put it: an environment with nothing but the package and what it needs."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=True)
    pip = (folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check")
    run(*pip, "install", "--quiet", "--no-deps", "--require-hashes", "-r", LOCK)
    (wheel,) = packages.glob("*.whl")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel)
    run(*pip, "check")
    return folder


@pytest.mark.proof
@pytest.mark.timeout(1200)
def test_the_wheel_and_the_sdist_hold_the_same_and_are_called_by_the_version(packages: Path) -> None:
    (wheel,) = packages.glob("*.whl")
    (sdist,) = packages.glob("*.tar.gz")
    assert wheel.name == f"tiphys-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        installed = {name for name in archive.namelist() if ".dist-info/" not in name}
    with tarfile.open(sdist) as archive:
        source = {name.partition("/")[2] for name in archive.getnames()}
    assert installed <= source
    assert not [name for name in source if name.startswith(("tests/", "scripts/", "manifests/"))]


@pytest.mark.proof
@pytest.mark.timeout(1200)
def test_the_command_works_where_there_is_no_checkout(clean: Path, tmp_path: Path) -> None:
    check_command(clean / "bin" / "tiphys", tmp_path)


@pytest.fixture(scope="module")
def pipx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """From where pip gets everything else, into an environment of its own."""
    folder = tmp_path_factory.mktemp("pipx")
    venv.create(folder, with_pip=True)
    pip: list[str | Path] = [folder / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    done = subprocess.run(
        [*pip, "install", "--quiet", "pipx"], capture_output=True, text=True, timeout=600, check=False
    )
    if done.returncode:
        pytest.skip(f"pip finds no pipx, is a package index reachable? {done.stderr.strip()[-200:]}")
    return folder / "bin" / "pipx"


@pytest.mark.proof
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("form", ["*.whl", "*.tar.gz"], ids=["wheel", "sdist"])
def test_pipx_installs_it_and_takes_it_away_again(
    pipx: Path, packages: Path, form: str, tmp_path: Path
) -> None:
    (package,) = packages.glob(form)
    places = {
        "PIPX_HOME": tmp_path / "home",
        "PIPX_BIN_DIR": tmp_path / "bin",
        "PIPX_MAN_DIR": tmp_path / "man",
    }
    environment = {**os.environ, **{name: str(path) for name, path in places.items()}}
    (tmp_path / "elsewhere").mkdir()

    def do(*words: str | Path) -> str:
        return run(pipx, *words, cwd=tmp_path / "elsewhere", environment=environment)

    do("install", "--python", sys.executable, package)
    assert f"package tiphys {__version__}" in do("list")
    check_command(tmp_path / "bin" / "tiphys", tmp_path / "elsewhere")
    do("uninstall", "tiphys")
    assert not (tmp_path / "bin" / "tiphys").exists()


def check_command(command: Path, folder: Path) -> None:
    """That it answers, judges and shows itself at work, in a `folder` without any of our code."""
    environment = {"PATH": f"{command.parent}:/usr/bin:/bin", "HOME": str(folder)}

    def tiphys(*words: str, codes: tuple[int, ...] = (0,)) -> str:
        return run(command, *words, cwd=folder, environment=environment, codes=codes)

    assert __version__ in tiphys("--version")
    (folder / "good.yaml").write_text(PROJECT.replace("SPEC", "{sourceRepos: ['*']}"))
    (folder / "bad.yaml").write_text(PROJECT.replace("SPEC", "{sourceRepos: ['!*']}"))
    assert "project/source-repo-format" in tiphys("check", "bad.yaml", codes=(1,))
    tiphys("check", "good.yaml", "--quiet")
    assert "refuse" in tiphys("demo", "--once")


@pytest.mark.proof
@pytest.mark.timeout(1200)
def test_what_is_read_from_beside_the_code_is_there(clean: Path, tmp_path: Path) -> None:
    listed = (
        "from importlib.resources import files\n"
        "import checks.doctor.rights, sidecars.principal.fleet_page\n"
        "print(len(files('sidecars.fleet').joinpath('agent-managed.yaml').read_text()))\n"
    )
    assert int(run(clean / "bin" / "python", "-c", listed, cwd=tmp_path, environment={})) > 0


@pytest.mark.proof
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("platform", PLATFORMS)
def test_every_locked_package_has_a_wheel_for_each_platform_of_the_image(
    platform: str, tmp_path: Path
) -> None:
    """The one step of the Dockerfile that a platform could fail; the base is Python 3.13 on Debian."""
    (version,) = re.findall(
        r"^BASE \?= python:(\d+\.\d+)-slim$", (ROOT / "Makefile").read_text(), re.MULTILINE
    )
    machine = PLATFORMS[platform]
    tags = [f"manylinux_2_{minor}_{machine}" for minor in (17, 24, 27, 28, 31, 34, 35, 36)]
    wanted = [word for tag in (*tags, f"manylinux2014_{machine}") for word in ("--platform", tag)]
    abi = f"cp{version.replace('.', '')}"
    run(
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"),
        *("--only-binary", ":all:", "--require-hashes", "-r", LOCK, "--dest", tmp_path),
        *(
            "--implementation",
            "cp",
            "--python-version",
            version,
            "--abi",
            abi,
            "--abi",
            "abi3",
            "--abi",
            "none",
        ),
        *wanted,
        environment=dict(os.environ),
    )
    locked = re.findall(r"^([A-Za-z0-9_.-]+)==", LOCK.read_text(), re.MULTILINE)
    assert 0 < len(list(tmp_path.glob("*.whl"))) <= len(locked)


def test_the_image_is_built_for_both_platforms_with_the_version_of_the_code() -> None:
    (line,) = run("make", "--dry-run", "image").replace("\\\n", " ").partition("docker")[2:]
    assert f"--platform {','.join(PLATFORMS)}" in line
    assert f"--tag tiphys:{__version__}" in line
    assert f"org.opencontainers.image.version={__version__}" in line


def test_pages_name_the_version_of_the_code() -> None:
    for page in sorted((ROOT / "docs").glob("*.md")):
        for version in re.findall(r"(?:newTag: \"|/tiphys:)(\d+\.\d+\.\d+)", page.read_text()):
            assert version == __version__, page
    assert yaml.safe_load((ROOT / "manifests/chart/Chart.yaml").read_text())["appVersion"] == __version__
