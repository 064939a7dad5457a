"""Scorers by kind: their sections of a recipe, and from a section to the scorer with what it asks of the data."""
