"""Show answers and plans as text for people, and as JSON."""
