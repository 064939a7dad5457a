"""A look at a recipe before anything is loaded: its models, prompts and worlds, its problems and its sizes."""
