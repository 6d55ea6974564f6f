"""Report page with an answer, its accuracy, and what each party saw: HTML without other files."""
