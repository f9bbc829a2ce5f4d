"""`python -m cli` is `tiphys` where the package is not installed."""

from cli.main import main

main()
