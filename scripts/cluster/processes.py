"""This side of the pipe to a cluster's keeper."""

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

KEEPER = Path(__file__).with_name("keeper.py")
GRACE_SECONDS = 10.0  # kube-apiserver drains its requests in well under one


class Processes:
    """Those of one cluster: etcd, kube-apiserver and what runs beside them. They end with this process, whatever ends it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(KEEPER), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    @property
    def keeper_pid(self) -> int:
        return self._keeper.pid

    def start(self, name: str, argv: list[str], *, environment: dict[str, str] | None = None) -> int:
        """Its process id; without an environment it has ours."""
        order = {
            "do": "start",
            "name": name,
            "argv": argv,
            "log": str(self.log(name)),
            "folder": str(self._folder),
            "environment": environment,
        }
        pid: int = self._order(order)["pid"]
        return pid

    def end(self, name: str, *, kill: bool = False) -> None:
        number = signal.SIGKILL if kill else signal.SIGTERM
        self._order({"do": "end", "name": name, "signal": int(number), "within": GRACE_SECONDS})

    def exit_code(self, name: str) -> int | None:
        """None while it runs."""
        code: int | None = self._order({"do": "look", "name": name})["exit"]
        return code

    def log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def close(self) -> None:
        """Ends everything and removes the folder."""
        with self._lock:
            if self._keeper.stdin and not self._keeper.stdin.closed:
                self._keeper.stdin.close()
            try:
                self._keeper.wait(GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self._keeper.kill()
                self._keeper.wait()
            if self._keeper.stdout:
                self._keeper.stdout.close()

    def _order(self, order: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            assert self._keeper.stdin
            assert self._keeper.stdout
            self._keeper.stdin.write(json.dumps(order) + "\n")
            self._keeper.stdin.flush()
            answer: dict[str, Any] = json.loads(self._keeper.stdout.readline())
            return answer
