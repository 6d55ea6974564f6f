"""Operations on stored tables, each declared beside the code that does it; names.py lists them."""
