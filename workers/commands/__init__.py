"""The job layer's commands, a module each."""
