"""Conversations with a world: turns, tools and what they do."""
