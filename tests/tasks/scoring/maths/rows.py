"""The conformance table: two answers, their verdict, and the policy where it is not the default one."""

import json
from pathlib import Path
from typing import NamedTuple

from ropewalk.tasks.scoring.maths.compare import Verdict
from ropewalk.tasks.scoring.maths.policy import Policy, with_row
from ropewalk.tasks.scoring.maths.scorer import compare

FILE = Path(__file__).with_name("table.tsv")


class Row(NamedTuple):
    first: str
    second: str
    verdict: Verdict
    policy: Policy


def rows() -> list[Row]:
    """All rows; lines that begin with # are headings."""
    found = []
    for line in FILE.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            first, second, verdict, policy = line.split("\t")
            assert verdict in ("equal", "different", "unparsed"), line
            found.append(Row(first, second, verdict, with_row(Policy(), json.loads(policy or "null"))))  # type: ignore[arg-type]
    return found


def disagreements() -> list[tuple[str, str, str]]:
    """Rows on which the grader says something else than the table, read from the left or from the right."""
    wrong = []
    for row in rows():
        for first, second in ((row.first, row.second), (row.second, row.first)):
            found = compare(first, second, row.policy)
            if found != row.verdict:
                wrong.append((first, second, found))
    return wrong
