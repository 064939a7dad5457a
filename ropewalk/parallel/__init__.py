"""Process groups and collectives."""
