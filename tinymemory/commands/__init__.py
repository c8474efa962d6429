"""The library's own commands; `commands` is what the command line adds."""
