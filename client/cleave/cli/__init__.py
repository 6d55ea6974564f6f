"""The command line: commands, console, reports, and how figures are shown."""
