"""Scripts that build, describe and exercise the stack; nothing here is shipped."""
