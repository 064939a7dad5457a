"""Scores programs: extraction, tests, rules, layers."""
