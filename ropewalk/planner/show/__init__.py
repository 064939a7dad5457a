"""What is shown of a plan: why it is this one, its memory, its timeline as text, what would change it."""
