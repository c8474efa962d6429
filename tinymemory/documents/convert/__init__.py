"""One module a format, each with one function from a file to its text."""
