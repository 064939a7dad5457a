"""Before against after on held-out prompts: same prompts, same seeds."""
