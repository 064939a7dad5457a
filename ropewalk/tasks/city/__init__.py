"""The city laboratory: a formal language in which the true preference is known."""
