"""`tiphys` in this process: the words and the answer of a command line, without the second that a start takes.

What a process of its own decides (signals, memory, what is imported) is tested with one.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from click.testing import CliRunner

from cli import main

SECONDS = 60.0
Done = subprocess.CompletedProcess[str]


def tiphys_here(*words: str, stdin: str = "", environment: Mapping[str, str] | None = None) -> Done:
    """Nothing of the caller's environment counts but what is given."""
    if not _in_a_loop():
        return _answer(words, stdin, environment or {})
    with ThreadPoolExecutor(1) as beside:  # commands have a loop of their own
        return beside.submit(_answer, words, stdin, environment or {}).result(SECONDS)


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _answer(words: tuple[str, ...], stdin: str, environment: Mapping[str, str]) -> Done:
    ours = [name for name in os.environ if name.startswith(("TIPHYS_", "ARGOCD_", "KUBECONFIG"))]
    arguments, hook = sys.argv, sys.excepthook
    code = 0
    with CliRunner().isolation(stdin, env={**dict.fromkeys(ours), **environment}) as (out, err, _):
        sys.argv = ["tiphys", *words]
        try:
            main.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            sys.argv, sys.excepthook = arguments, hook
        return Done(words, code, out.getvalue().decode(), err.getvalue().decode())
