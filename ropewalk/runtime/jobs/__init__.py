"""What is done beside training: sample, select, score a file, label steps, chat, replay, export, the laboratory."""
