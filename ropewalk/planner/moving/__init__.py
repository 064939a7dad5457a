"""What it costs to move a model between two meshes, for all pairs of many candidates."""
