"""`python -m cli` is `tiphys` where the package is not installed."""

import signal

# Ctrl-C while modules are still being loaded ends the process without a traceback.
_usual = signal.signal(signal.SIGINT, signal.SIG_DFL)

from cli.main import main  # noqa: E402 - after the line above

signal.signal(signal.SIGINT, _usual)
main()
