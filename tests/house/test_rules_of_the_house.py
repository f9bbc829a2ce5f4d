"""What no linter holds: sizes, addresses, how quickly the command answers."""

import ast
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("argocd", "certs", "checks", "cli", "demo", "kube", "sidecars", "tiphys", "webhook")
LONGEST_MODULE = 400

# Spelt in pieces, so that this file does not find itself.
MACHINE_PATH = re.compile(
    "|".join(re.escape("/" + start + "/") for start in ("root", "home", "Users", "work"))
)
PACKAGE_HOSTS = re.compile(
    "|".join(re.escape(f"{name}.org") for name in ("pypi", "pythonhosted", "proxy.golang"))
)


def modules() -> list[Path]:
    found = [path for room in (*ROOMS, "scripts", "tests") for path in (ROOT / room).rglob("*.py")]
    assert found
    return [path for path in found if "generated" not in path.parts]


def tracked_files() -> list[Path]:
    done = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=30
    )
    if done.returncode:
        pytest.skip("not a Git checkout")
    return [path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_no_module_is_longer_than_it_can_be_read() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in modules()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_no_module_is_called_after_nothing() -> None:
    vague = {"utils", "util", "common", "helpers", "helper", "manager", "misc"}
    assert [str(path) for path in modules() if path.stem in vague] == []


FULL_FOLDER = 16
"""More names than this nobody takes in at a glance."""
SORTED_FOLDERS = {"argocd/rules", "cli/commands"}
"""One file for each group of rules, one for each subcommand: lists that are looked up, not read."""


def test_no_folder_has_more_modules_than_can_be_taken_in() -> None:
    counts: defaultdict[str, int] = defaultdict(int)
    for path in modules():
        folder = str(path.parent.relative_to(ROOT))
        if folder.split("/", maxsplit=1)[0] in ROOMS and path.stem != "__init__":
            counts[folder] += 1
    assert {
        folder: count
        for folder, count in counts.items()
        if count > FULL_FOLDER and folder not in SORTED_FOLDERS
    } == {}


def test_every_folder_says_what_lives_there() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in (ROOT / room).rglob("__init__.py")
        if not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_one_public_class_name_stands_for_one_thing() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in modules():
        name = str(path.relative_to(ROOT))
        if name.split("/", maxsplit=1)[0] in ROOMS:
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def named_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.alias):
            yield node.name.rpartition(".")[2]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value  # a type in quotes


def test_no_public_function_or_class_is_there_for_tests_alone() -> None:
    """Looked for by name alone: whatever has a name that is used anywhere passes. Decorators use what they decorate."""
    trees = {
        str(path.relative_to(ROOT)): ast.parse(path.read_text())
        for path in modules()
        if "tests" not in path.relative_to(ROOT).parts
    }
    used = Counter(name for tree in trees.values() for name in named_in(tree))
    used.update(re.findall(r"\w+", (ROOT / "pyproject.toml").read_text()))
    unused = [
        f"{file}: {node.name}"
        for file, tree in trees.items()
        for node in tree.body
        if file.split("/", maxsplit=1)[0] in ROOMS
        and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and (isinstance(node, ast.ClassDef) or not node.decorator_list)
        and used[node.name] == Counter(named_in(node))[node.name]  # by itself, at most
    ]
    assert unused == []


@pytest.mark.parametrize(
    ("what", "pattern"), [("a path of one machine", MACHINE_PATH), ("a package index", PACKAGE_HOSTS)]
)
def test_no_tracked_file_names(what: str, pattern: re.Pattern[str]) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in tracked_files()
        if (match := pattern.search(path.read_text(errors="replace")))
    ]
    assert found == [], what


def test_the_lock_files_have_hashes_and_no_address() -> None:
    for name in ("runtime", "tracing", "development"):
        text = (ROOT / "requirements" / f"{name}.txt").read_text()
        assert "://" not in text
        assert "--index-url" not in text
        assert text.count("--hash=sha256:") >= text.count("==")


HEAVY = {
    "aiohttp",
    "asyncio",
    "cryptography",
    "flask",
    "grpc",
    "kubernetes",
    "prometheus_client",
    "re2",
    "rich",
    "structlog",
    "yaml",
}

VERSION = """
import sys
sys.argv = ["tiphys", "--version"]
from cli.main import main
try:
    main()
finally:
    print(*sys.modules)
"""


def test_the_version_is_told_without_importing_the_house() -> None:
    """Under 200 ms, said as what costs them: an absolute time would depend on who else is at work here."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TIPHYS_")}
    done = subprocess.run(
        [sys.executable, "-c", VERSION],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    version, modules = done.stdout.splitlines()
    imported = set(modules.split())
    assert version.startswith("tiphys, version ")
    assert imported & HEAVY == set()
    assert len(imported) < 250, "70 of them belong to a bare interpreter, 140 to click"


def test_every_subcommand_has_what_its_name_promises() -> None:
    script = (
        "import importlib, click; from cli.main import SUBCOMMANDS\n"
        "for module, line in SUBCOMMANDS.values():\n"
        "    assert isinstance(importlib.import_module(module).command, click.Command), module\n"
        "    assert line.endswith('.') and len(line) < 80, line\n"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, check=True, timeout=120)


def test_the_generated_pages_are_fresh() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "scripts.docs", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


def test_readme_and_pipeline_name_the_same_two_commands() -> None:
    readme, pipeline = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    assert "make run" in readme
    assert "make test" in readme
    assert "TIPHYS_REQUIRE_CLUSTER=1 make test" in pipeline
    assert "make lint" in pipeline


def test_make_alone_lists_the_targets() -> None:
    done = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=30)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert set(names) >= {"run", "test", "lint", "bench", "cluster", "docs", "lock", "clean"}


CHECK = """
import sys
sys.argv = ["tiphys", "check", sys.argv[1]]
from cli.main import main
try:
    main()
finally:
    print(*sys.modules)
"""


def test_files_are_checked_without_importing_what_serves_or_calls(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").write_text("{}\n")
    done = subprocess.run(
        [sys.executable, "-c", CHECK, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    imported = set(done.stdout.splitlines()[-1].split())
    assert "checks.check" in imported, done.stderr
    assert imported & {"aiohttp", "flask", "grpc", "jwt", "kubernetes"} == set()
