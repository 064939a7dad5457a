"""Nouns of execution: call graph, layout, execution plan, model shape, memory. Arithmetic and checks only; no torch."""
