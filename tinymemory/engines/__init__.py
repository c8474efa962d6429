"""The engines: a file or a folder each, none knowing another."""
