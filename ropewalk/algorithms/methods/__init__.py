"""One short file per method: the calls it makes and the objective it minimises. No torch."""
