"""Ways to answer a part of a divided question, one in each module."""
