"""Report page with an answer, how far to trust it and what each party saw: HTML that needs nothing else."""
