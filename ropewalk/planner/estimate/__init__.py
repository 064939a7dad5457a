"""Seconds and bytes of one call: the roofline with its corrections, and every constant with its source."""
