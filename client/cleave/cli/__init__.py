"""The command line: commands, console output, and text of answers and plans."""
