"""Carry out a plan: compose the recipe, place workers, drive the loop, record, recover, evaluate."""
