"""Which prompts are worth training on: pass rates, the filter and its honesty, difficulties, coverage, flat groups."""
