"""Slow reading of the three reductions, on lists of lists: one inner list of token terms per trained sequence."""


def reduce(kind: str, rows: list[list[float]], length: int) -> float:
    """From memory of the methods' papers, unverified: `token` is DAPO's, `sequence` GRPO's, `constant` Dr. GRPO's."""
    rows = [row for row in rows if len(row) > 0]
    if not rows:
        return 0.0
    if kind == "token":
        total, tokens = 0.0, 0
        for row in rows:
            for term in row:
                total += term
                tokens += 1
        return total / tokens
    if kind == "sequence":
        means = [sum(row) / len(row) for row in rows]
        return sum(means) / len(means)
    total = 0.0
    for row in rows:
        total += sum(row)
    return total / (length * len(rows))
