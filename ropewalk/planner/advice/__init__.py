"""From GPUs, model and task to a method, a placement and a recipe, each with its reason."""
