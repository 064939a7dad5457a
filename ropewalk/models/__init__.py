"""Networks, their heads, tokenizers and chat templates: one batch in, log-probs, values and scores out."""
