"""Where prompts come from and how an answer is scored. A task is prompts + scorers; never torch."""
