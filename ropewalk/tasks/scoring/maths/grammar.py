r"""From tokens to a tree: lists, relations and sets around the expressions.

    answer   = item {("," | ";" | "and" | "or") item}
    item     = ["≈"] side {("=" | "≈" | "≠" | "<" | ">" | "≤" | "≥" | "∈") side}
    side     = measured {("∪" | "∖") measured}
    measured = sum [":" sum] [unit]

The parser is a recursive descent of bounded depth and linear time; it evaluates nothing.
"""

from typing import Literal

from ropewalk.tasks.scoring.maths.expressions import Expressions
from ropewalk.tasks.scoring.maths.limits import MAX_ITEMS, TooLarge, Unreadable
from ropewalk.tasks.scoring.maths.tokens import Token
from ropewalk.tasks.scoring.maths.tree import Measured, Node, Ratio, Relation, Series, Sets, Signed
from ropewalk.tasks.scoring.maths.units import WORDS, pieces

_RELATIONS = frozenset(("=", "≈", "!=", "<", ">", "<=", ">=", "∈"))
_IDEOGRAPHS = "\u2e80"
_LINKS = ("and", "or")


def parse(tokens: list[Token]) -> Node:
    """The tree of an answer. Raises Unreadable."""
    if not tokens:
        raise Unreadable("nothing")
    return _Answers(tokens).answer()


class _Answers(Expressions):
    def answer(self) -> Node:
        link: Literal["and", "or", ","] = ","
        members = [self._signed_item()]
        while (found := self._link()) is not None:
            link = found if link == "," else link
            members.append(self._signed_item())
            if len(members) > MAX_ITEMS:
                raise TooLarge("too many members")
        if self.sign() == "." and self.next_token().kind == "end of text":
            self.advance()
        if self.token.kind != "end of text":
            raise Unreadable(f"{self.token.text[:20]!r} where the answer should end")
        return members[0] if len(members) == 1 else Series(link, tuple(members))

    def _link(self) -> Literal["and", "or", ","] | None:
        """What joins two members, read; `, and` is one."""
        comma = self.take(",") or self.take(";")
        if self.token.kind == "word" and self.token.text.lower() in _LINKS:
            return "and" if self.advance().text.lower() == "and" else "or"
        return "," if comma else None

    def _signed_item(self) -> Node:
        self.both_signs = False
        node = self.item()
        return Signed(node) if self.both_signs else node

    def item(self) -> Node:
        self.take("≈")
        sides = [self._side()]
        signs = []
        while self.sign() in _RELATIONS:
            signs.append(self.advance().text)
            sides.append(self._side())
        return Relation(tuple(signs), tuple(sides)) if signs else sides[0]

    def _side(self) -> Node:
        sides = [self._measured()]
        signs = []
        while self.sign() in ("∪", "∖") or self.token.text in ("U", "u"):
            signs.append("∖" if self.advance().text == "∖" else "∪")
            sides.append(self._measured())
        return Sets(tuple(signs), tuple(sides)) if signs else sides[0]

    def _measured(self) -> Node:
        start = self.at
        node = self.sum()
        if self.sign() == ":" and self.colon_divides:
            return self._ratio(node, start)
        unit = self._unit()
        return Measured(node, unit) if unit else node

    def _ratio(self, first: Node, start: int) -> Node:
        members = [first]
        while self.take(":"):
            members.append(self.sum())
        hours, _, minutes, *more = [token.text for token in self.tokens[start : self.at]]
        clock = not more and hours.isdigit() and minutes.isdigit() and len(minutes) == 2 and minutes < "60"
        half = self.advance().text.lower() if clock and self.token.text.lower() in ("am", "pm") else ""
        return Ratio(tuple(members), clock, half)

    def _unit(self) -> tuple[str, ...]:
        """The words and signs behind a value, up to the end of its item."""
        parts: list[str] = []
        kind, text, spaced = self.token
        if kind == "word" and not spaced and text not in WORDS and text < _IDEOGRAPHS and len(text) > 1:
            raise Unreadable("a word that is glued to a value")
        while True:
            kind, text, _ = self.token
            if kind == "text":
                parts += pieces(text)
            elif (
                (kind == "word" and text.lower() not in _LINKS and text not in ("U", "u"))
                or (kind == "sign" and (text == "/" or (text == "^" and parts)))
                or (kind == "num" and parts and parts[-1] == "^")
            ):
                parts.append(text)
            elif text in ("{", "}") and parts and "^" in parts[-2:]:
                pass
            else:
                return tuple(parts)
            self.advance()
