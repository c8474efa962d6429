"""The long-term memory of an AI agent, as a library: values in, values out."""
