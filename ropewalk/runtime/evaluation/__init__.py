"""Before against after on held-out rows: policies, reward models, steps, texts and tasks, with intervals."""
