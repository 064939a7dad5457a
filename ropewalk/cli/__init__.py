"""The command line: choose and wire. The only place that sees everything."""
