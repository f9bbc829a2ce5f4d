"""A mistake of the user, or of the surroundings, is one line that names its place, and exit code 2."""

import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from cli import main
from cli.commands import webhook
from scripts.cluster.controlplane import Cluster
from tests.command_here import Done, tiphys_here
from webhook.keeper.worker_reports import LONGEST_FOLDER, OWN_FOLDER, SOCKET

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def command_that_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(main.SUBCOMMANDS, "look", ("tests.cli.reading_command", "Look at the namespaces."))


def look(*arguments: str, **environment: str) -> Done:
    return tiphys_here("look", *arguments, environment=environment)


def complaint(*arguments: str, **environment: str) -> str:
    done = look(*arguments, **environment)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("tiphys: ")
    return line.removeprefix("tiphys: ")


def test_with_good_surroundings_it_looks(cluster: Cluster) -> None:
    done = look("--kubeconfig", str(cluster.kubeconfig))
    assert (done.returncode, done.stderr) == (0, "")
    assert "kube-system" in done.stdout.split()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param("clusters: [", "cannot be read: line ", id="no-yaml"),
        pytest.param("- a", "is no kubeconfig", id="no-mapping"),
        pytest.param("apiVersion: v1\nclusters: []\n", "", id="no-context"),
        pytest.param('{"current-context": "x", "contexts": []}', "", id="unknown-context"),
    ],
)
def test_a_broken_kubeconfig_is_named(tmp_path: Path, content: str, expected: str) -> None:
    kubeconfig = tmp_path / "broken.yaml"
    kubeconfig.write_text(content)

    line = complaint("--kubeconfig", str(kubeconfig))

    assert line.startswith(f"kubeconfig {kubeconfig}")
    assert expected in line


def test_a_missing_kubeconfig_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    assert complaint(KUBECONFIG=str(missing)) == f"kubeconfig {missing} does not exist"


def test_an_unreachable_api_server_is_named(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "nobody.yaml"
    kubeconfig.write_text(
        '{"current-context": "x", "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],'
        ' "clusters": [{"name": "x", "cluster": {"server": "https://127.0.0.1:1"}}],'
        ' "users": [{"name": "x", "user": {"token": "marker"}}]}'
    )

    line = complaint("--kubeconfig", str(kubeconfig))

    assert "https://127.0.0.1:1 cannot be reached: Connection refused" in line
    assert str(kubeconfig) in line
    assert "marker" not in line


def test_an_expired_token_is_told_with_the_file_that_holds_it(cluster: Cluster) -> None:
    token = cluster.expired_token()
    kubeconfig = cluster.kubeconfig_with_token(token, in_file=True)

    line = complaint("--kubeconfig", str(kubeconfig))

    assert str(kubeconfig) in line
    assert "expired" in line
    assert token not in line


def test_an_expired_certificate_is_told_with_the_file_that_holds_it(cluster: Cluster) -> None:
    kubeconfig = cluster.kubeconfig_of("eve", expired=True)

    line = complaint("--kubeconfig", str(kubeconfig))

    assert str(kubeconfig) in line
    assert "expired" in line


def test_an_unknown_configuration_key_is_named(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("kubeconfg: x\n")

    assert complaint("--settings", str(file)) == f"{file}: unknown key kubeconfg; did you mean kubeconfig?"
    assert complaint(TIPHYS_LOOK_DEADLIN="1s") == (
        "the environment: unknown key TIPHYS_LOOK_DEADLIN; did you mean TIPHYS_LOOK_DEADLINE?"
    )


BROKEN = """
from cli import main
from tiphys.errors import SurroundingsError

def broken(**_):
    raise {error}

main.tiphys = broken
main.main()
"""


def broken_by(error: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", BROKEN.format(error=error)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_an_error_quotes_no_credentials_of_a_url() -> None:
    done = broken_by("SurroundingsError('https://bob:mar/ker@example.org does not answer')")
    assert done.returncode == 2
    assert done.stderr == "tiphys: https://[removed]@example.org does not answer\n"


def test_a_mistake_of_ours_shows_a_traceback_without_secrets() -> None:
    done = broken_by("""RuntimeError(f"sent {'Bearer'} abcdefghijkl")""")
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "RuntimeError: sent Bearer [removed]" in done.stderr
    assert "abcdefghijkl" not in done.stderr


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "192.0.2.7", "tiphys.example.org"])
def test_the_status_page_is_for_loopback_alone(host: str) -> None:
    done = CliRunner().invoke(webhook.command, ["--pages-host", host])
    assert done.exit_code == 2
    assert "let a proxy in the pod log them in" in done.stderr


def test_a_runtime_folder_that_no_socket_fits_in_is_refused() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        longest = Path(base, "x" * (LONGEST_FOLDER - len(base) - 1))
        done = CliRunner().invoke(webhook.command, ["--runtime-folder", f"{longest}x"])
        assert done.exit_code == 2
        assert "choose a shorter path" in done.stderr
        own = Path(longest, f"{OWN_FOLDER}12345678")  # as long as tempfile makes it
        own.mkdir(parents=True)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
            receiver.bind(str(own / SOCKET))
