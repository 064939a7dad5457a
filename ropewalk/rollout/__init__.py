"""Tokens out: engines that sample completions, and the episode loop that turns them into samples."""
