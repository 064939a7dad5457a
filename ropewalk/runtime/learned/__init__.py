"""Learned rewards: sections of a recipe, the calls they make, and how their columns become scores."""
