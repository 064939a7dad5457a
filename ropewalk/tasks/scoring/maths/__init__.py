"""Mathematical answers: where they stand, what they mean, and whether two of them are the same."""
