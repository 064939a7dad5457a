"""Judges in a run: as calls of the graph, asked on the crew or behind a server, once samples are scored."""
