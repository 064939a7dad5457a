"""Runs untrusted programs: limits, isolation, the conversation with the supervisor inside, and the pool."""
