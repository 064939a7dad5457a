"""What a paper would contain: returns, advantages, KL, losses, reductions, a short file per method. No collectives."""
