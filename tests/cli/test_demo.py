import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("demo.txt")
TIPHYS = [sys.executable, "-m", "cli"]


def test_the_demonstration_tells_its_story() -> None:
    done = subprocess.run(
        [*TIPHYS, "demo", "--once"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )

    assert done.stderr == ""
    assert done.stdout == GOLDEN.read_text()
    assert done.returncode == 0


def test_ctrl_c_ends_it_cleanly() -> None:
    process = subprocess.Popen(
        [*TIPHYS, "demo"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout
        while "until Ctrl-C" not in (line := process.stdout.readline()):
            assert line, "it ended by itself"
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 0
    assert rest == "The demonstration has ended; it leaves nothing behind.\n"
    assert "Traceback" not in errors
