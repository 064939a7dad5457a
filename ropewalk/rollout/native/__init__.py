"""The native engine: continuous batching over transformers models with a slot cache."""
