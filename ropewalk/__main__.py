"""`python -m ropewalk` is the command `ropewalk`."""

from ropewalk.cli.main import main

main()
