"""Rules over the text of a completion: its form, what it must and may not say, and answers that need no arithmetic."""
