"""ropewalk: a post-training system for language models."""
