"""`python -m tinymemory` is the `tinymemory` command."""

from tinymemory.cli import main

main()
