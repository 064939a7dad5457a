"""Tokens in: packing, forward-only scoring, the optimiser step, checkpoints."""
