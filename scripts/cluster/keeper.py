"""Owns the processes of one local cluster, so that none outlives whoever asked for it.

Started as a program of its own with its parent's pipe as standard input: when the parent ends, even by
`kill -9`, the pipe closes and everything here ends with it. It leads a session of its own, so a Ctrl-C in
the parent's terminal does not reach etcd before kube-apiserver: ended together, the latter hangs.

One JSON object a line in, one a line out. Only the standard library, to start in a few milliseconds.
"""

import ctypes
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

PR_SET_PDEATHSIG = 1  # prctl(2)

children: dict[str, subprocess.Popen[bytes]] = {}


def main() -> None:
    folder = Path(sys.argv[1])
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        for line in sys.stdin:
            answer = _obey(json.loads(line))
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()
    except (SystemExit, BrokenPipeError):
        pass
    finally:
        # The data is temporary: nothing is owed to anyone, and killing is quick and certain.
        for name in sorted(children, key=lambda name: name == "etcd"):
            children[name].kill()
            children[name].wait()
        shutil.rmtree(folder, ignore_errors=True)


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit


def _obey(order: dict[str, Any]) -> dict[str, Any]:
    name = order["name"]
    if order["do"] == "start":
        with Path(order["log"]).open("ab") as log:
            children[name] = subprocess.Popen(
                order["argv"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=order["folder"],
                env=order["environment"],
                preexec_fn=_die_with_keeper,  # noqa: PLW1509 - this program has one thread
            )
        return {"pid": children[name].pid}
    child = children[name]
    if order["do"] == "end":
        child.send_signal(order["signal"])
        try:
            child.wait(order["within"])
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    return {"exit": child.poll()}


def _die_with_keeper() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


if __name__ == "__main__":
    main()
