"""A place in a list of tokens, with a count of how deep in brackets it is."""

from ropewalk.tasks.scoring.maths.limits import MAX_DEPTH, TooLarge, Unreadable
from ropewalk.tasks.scoring.maths.tokens import END, Token
from ropewalk.tasks.scoring.maths.tree import Node


class Cursor:
    """Reads tokens from the left; nothing is read twice."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.token = tokens[0] if tokens else END
        """The one that comes next."""
        self.depth = 0
        self.both_signs = False
        """A `±` has been read in the current item."""
        self.bar_closes = False
        """A `|` ends something here, and opens nothing."""
        self.colon_divides = True
        """A `:` is a ratio here, not the condition of a set."""

    def item(self) -> Node:
        """One member of a list; the answers' grammar says which."""
        raise NotImplementedError

    def next_token(self, ahead: int = 1) -> Token:
        """The token after the coming one."""
        place = self.at + ahead
        return self.tokens[place] if place < len(self.tokens) else END

    def advance(self) -> Token:
        token = self.token
        self.at += 1
        self.token = self.tokens[self.at] if self.at < len(self.tokens) else END
        return token

    def sign(self) -> str:
        """The sign that comes next; empty if it is none."""
        return self.token.text if self.token.kind == "sign" else ""

    def take(self, sign: str) -> bool:
        """Whether that sign came, and is read."""
        if self.token.kind == "sign" and self.token.text == sign:
            self.advance()
            return True
        return False

    def expect(self, sign: str) -> None:
        if not self.take(sign):
            raise Unreadable(f"no {sign!r} where one should be")

    def enter(self, *, bar_closes: bool = False, colon_divides: bool = True) -> tuple[bool, bool]:
        """One level deeper; `leave` takes what this returns. An error on the way ends the reading for good."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooLarge("too deep")
        before = self.bar_closes, self.colon_divides
        self.bar_closes, self.colon_divides = bar_closes, colon_divides
        return before

    def leave(self, before: tuple[bool, bool]) -> None:
        self.bar_closes, self.colon_divides = before
        self.depth -= 1
