"""Running scorers, reading numbers, and composing outcomes into one reward."""
