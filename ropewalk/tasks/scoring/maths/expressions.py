r"""Sums, products, powers and what they are made of.

sum     = ["+" | "-" | "±" | "∓"] product {("+" | "-" | "±" | "∓") product}
product = power {("*" | "/") power | power}          what follows without a sign is multiplied
power   = atom {"^" exponent | "!" | "%" | "°" | currency}
atom    = number | name | function | \frac | \sqrt | brackets | matrix | "|" sum "|"
"""

import re
from fractions import Fraction

from ropewalk.tasks.scoring.maths.cursor import Cursor
from ropewalk.tasks.scoring.maths.limits import MAX_EXPONENT, MAX_ITEMS, TooLarge, Unreadable, whole_number
from ropewalk.tasks.scoring.maths.tokens import Token
from ropewalk.tasks.scoring.maths.tree import (
    FUNCTIONS,
    Based,
    Bracketed,
    Call,
    Infinity,
    Matrix,
    Measured,
    Name,
    Node,
    Num,
    Percent,
    Power,
    Product,
    Reals,
    Relation,
    Signed,
    Sum,
)
from ropewalk.tasks.scoring.maths.units import CURRENCIES, LETTERS, WORDS

ADDITION = frozenset("+-±∓")
_OPENS_FACTOR = frozenset(("(", "{", "sqrt", "frac", "binom", "⌊", "⌈"))
_SCALES = {
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "dozen": 12,
    "lakh": 10**5,
    "crore": 10**7,
}
_CONSTANTS: dict[str, Node] = {"pi": Name("π"), "π": Name("π"), "inf": Infinity(), "infinity": Infinity(), "ℝ": Reals()}
_VARIABLES = re.compile("[abchkmnpqrstuvwxyzABCDPQRSTXYZ]{2,3}")
"""Letters beside each other that are multiplied; other words are words."""
_PERCENT_WORDS = ("percent", "pct")
_ALIAS = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "lg": "log"}
_CLOSING = {"(": ")", "[": "]", "\\{": "\\}", "{": "}", "⟨": "⟩", "⌊": "⌋", "⌈": "⌉"}
_IDEOGRAPHS = "\u2e80"
_MAX_MARKS = 5
_MATRICES = frozenset(("matrix", "pmatrix", "bmatrix", "Bmatrix", "smallmatrix", "array"))


class Expressions(Cursor):
    """The part of the grammar that has values one can add and multiply."""

    def sum(self) -> Node:
        sign = self.advance().text if self.sign() in ADDITION else "+"
        terms = [(sign, self.product())]
        while self.sign() in ADDITION:
            terms.append((self.advance().text, self.product()))
        self.both_signs = self.both_signs or any(sign in "±∓" for sign, _ in terms)
        return terms[0][1] if len(terms) == 1 and sign == "+" else Sum(tuple(terms))

    def product(self) -> Node:
        first = self.power()
        if self.token.kind == "end of text":
            return first
        factors = [("*", first)]
        while True:
            sign = self.sign()
            if sign == "*" or (sign == "/" and not self._names_unit(self.next_token())):
                self.advance()
                factors.append((sign, self.signed_power()))
            elif self._mixed(factors):
                mixed = Sum((("+", factors[0][1]), ("+", self._proper_fraction())))
                factors = [("*", self._marked(mixed))]
            elif self._crossed(factors[-1][1]):
                self.advance()
                factors.append(("*", self.power()))
            elif self._goes_on(factors[-1][1]):
                factors.append(("*", self.power()))
            else:
                return factors[0][1] if len(factors) == 1 else _product(factors)

    def signed_power(self) -> Node:
        """A factor after a sign of its own: 3 · -4."""
        if self.sign() in ("-", "+"):
            return Sum(((self.advance().text, self.power()),))
        return self.power()

    def power(self) -> Node:
        return self._marked(self.atom())

    def _marked(self, node: Node) -> Node:
        """The value with the powers and signs behind it."""
        for _ in range(_MAX_MARKS):
            sign = self.sign()
            if sign == "^":
                node = self._raised(node)
            elif sign == "!" and not (isinstance(node, Call) and node.name == "!"):
                self.advance()
                node = Call("!", (node,))
            elif sign == "%" or (self.token.kind == "word" and self.token.text in _PERCENT_WORDS):
                self.advance()
                if isinstance(node, Percent):
                    raise Unreadable("two percent signs")
                node = Percent(node)
            elif sign and (sign in CURRENCIES or sign == "°"):
                node = self._with_sign(node)
            else:
                return node
        raise TooLarge("too many marks behind a value")

    def _raised(self, base: Node) -> Node:
        self.advance()
        if self.sign() == "{" and self.next_token().text == "°":
            self.advance()
            node = self._with_sign(base)
            self.expect("}")
            return node
        if self.sign() == "°":
            return self._with_sign(base)
        return Power(base, self._exponent())

    def _exponent(self) -> Node:
        before = self.enter()
        node = self.argument() if self.sign() == "{" else self.signed_power()
        self.leave(before)
        return node

    def _with_sign(self, node: Node) -> Node:
        """Degrees and currency signs behind a value."""
        sign = self.advance().text
        if sign == "°" and self.token.text in ("C", "F"):
            sign += self.advance().text
        return Measured(node, (sign,))

    def _goes_on(self, last: Node) -> bool:
        """Whether the next token is multiplied without a sign."""
        kind, text, spaced = self.token
        if isinstance(last, Bracketed | Infinity | Matrix | Measured | Percent | Based):
            return False
        if kind == "sign":
            return text in _OPENS_FACTOR or (text == "|" and not self.bar_closes)
        if kind != "word":
            return kind == "name"
        if len(text) == 1 and text < _IDEOGRAPHS:
            return not (text in WORDS or (text in LETTERS and spaced and isinstance(last, Num) and self._unit_ends()))
        if text in _SCALES:
            return isinstance(last, Num)
        return text in FUNCTIONS or text in ("pi", "sqrt") or self._variables(text)

    def _crossed(self, last: Node) -> bool:
        """The letter x between two numbers."""
        return self.token[1:] == ("x", True) and isinstance(last, Num) and self.next_token().kind == "num"

    def _unit_ends(self) -> bool:
        """Whether a letter that may be a unit has nothing behind it that a variable would have."""
        power = self.next_token().text == "^" and self.next_token(2).text in ("2", "3")
        after = self.next_token(3 if power else 1)
        return after.kind in ("end of text", "text") or after.text in (",", ";", ")", "]", "/", "=", "and", "or", ".")

    @staticmethod
    def _variables(word: str) -> bool:
        return word not in WORDS and _VARIABLES.fullmatch(word) is not None

    @staticmethod
    def _names_unit(token: Token) -> bool:
        return token.kind == "text" or (token.kind == "word" and token.text in WORDS)

    def _mixed(self, factors: list[tuple[str, Node]]) -> bool:
        r"""Whether `2 1/2` or `2\frac{1}{2}` comes: a whole number and then a proper fraction."""
        last = factors[-1][1]
        if len(factors) != 1 or not isinstance(last, Num) or last.places is not None or not isinstance(last.value, int):
            return False
        if self.sign() == "frac":
            return self._is_proper(*(self.next_token(ahead) for ahead in (1, 2, 3, 4, 5, 6)))
        if self.token.kind == "num" and self.token.spaced and self.next_token().text == "/":
            return self._is_proper_pair(self.token, self.next_token(2))
        return False

    def _is_proper(self, *ahead: Token) -> bool:
        if ahead[0].kind == "num" and len(ahead[0].text) == 2:
            return ahead[0].text.isdigit() and 0 < int(ahead[0].text[0]) < int(ahead[0].text[1])
        signs = [token.text for token in (ahead[0], ahead[2], ahead[3], ahead[5])]
        return signs == ["{", "}", "{", "}"] and self._is_proper_pair(ahead[1], ahead[4])

    @staticmethod
    def _is_proper_pair(over: Token, under: Token) -> bool:
        whole = over.text.isdigit() and under.text.isdigit()
        return whole and 0 < whole_number(over.text) < whole_number(under.text)

    def _proper_fraction(self) -> Node:
        if self.sign() == "frac":
            return self.atom()
        over = number(self.advance().text)
        self.advance()
        return Product((("*", over), ("/", number(self.advance().text))))

    def atom(self) -> Node:
        kind, text, _ = self.token
        if kind == "num":
            self.advance()
            return self._based(text) if self.sign() == "_" else number(text)
        if kind == "word":
            return self._named(self.advance().text)
        if kind == "text" and len(text) == 1:
            return Name(self.advance().text)
        if kind == "name":
            return Name(self.advance().text + self._subscript())
        if kind == "begin":
            return self._matrix()
        if kind != "sign":
            raise Unreadable("no value where one should be")
        return self._opened(text)

    def _opened(self, sign: str) -> Node:
        if sign in _CLOSING:
            return self._brackets(sign)
        self.advance()
        if sign == "frac":
            over = self.argument(one_digit=True)
            return Product((("*", over), ("/", self.argument(one_digit=True))))
        if sign == "sqrt":
            return self._root()
        if sign == "binom":
            return Call("binom", (self.argument(one_digit=True), self.argument(one_digit=True)))
        if sign == "|":
            return Call("abs", (self._up_to("|"),))
        if sign == "∞":
            return Infinity()
        if sign == "∅":
            return Bracketed("\\{", "\\}", ())
        if sign in CURRENCIES:
            if self.sign() in ADDITION and self.at > 1 and self.tokens[self.at - 2].text in ADDITION:
                raise Unreadable("two signs")
            before = self.enter()
            node = Measured(self.signed_power(), (sign,))
            self.leave(before)
            return node
        raise Unreadable(f"{sign!r} where a value should be")

    def _up_to(self, closing: str) -> Node:
        """A sum and the sign that closes it."""
        before = self.enter(bar_closes=closing == "|")
        node = self.sum()
        self.expect(closing)
        self.leave(before)
        return node

    def _root(self) -> Node:
        index: Node = Num(2)
        if self.take("["):
            index = self._up_to("]")
        return Call("sqrt", (self.argument(), index))

    def argument(self, *, one_digit: bool = False) -> Node:
        r"""What a command is applied to: a group in braces, or one atom; `\frac12` takes one digit."""
        if self.take("{"):
            return self._up_to("}")
        kind, text, _ = self.token
        if one_digit and kind == "num" and len(text) > 1:
            if not text.isdigit():
                raise Unreadable("an argument without braces")
            self.tokens[self.at] = self.token = Token("num", text[1:], False)
            return Num(int(text[0]))
        if one_digit and kind == "word" and self._variables(text):
            self.tokens[self.at] = self.token = Token("word", text[1:], False)
            return Name(text[0])
        before = self.enter()
        node = self.atom()
        self.leave(before)
        return node

    def _based(self, digits: str) -> Node:
        """101_2; the base is a label of the numeral, as the point of the question is how it is written."""
        self.advance()
        base = self.argument()
        if (
            not isinstance(base, Num)
            or not digits.isdigit()
            or not (isinstance(base.value, int) and 2 <= base.value <= 36)
        ):
            raise Unreadable("no base")
        return Based(digits, base.value)

    def _named(self, word: str) -> Node:
        if word in FUNCTIONS:
            return self._function(_ALIAS.get(word, word))
        if word == "sqrt":
            return self._root()
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        if word in _SCALES:
            return Num(_SCALES[word])
        if len(word) == 1 and word < _IDEOGRAPHS:
            return Name(word + self._subscript())
        if self._variables(word):
            names = (*word[:-1], word[-1] + self._subscript())
            return Product(tuple(("*", Name(name)) for name in names))
        raise Unreadable(f"the word {word[:20]!r}")

    def _subscript(self) -> str:
        if not self.take("_"):
            return "'" if self.take("'") else ""
        if not self.take("{"):
            return "_" + self.advance().text
        parts = []
        while self.token.kind != "end of text" and not self.take("}"):
            parts.append(self.advance().text)
        return "_" + "".join(parts)

    def _function(self, name: str) -> Node:
        exponent: Node | None = None
        base: tuple[Node, ...] = ()
        if self.take("_") and name == "log":
            base = (self.argument(),)
        if self.take("^"):
            exponent = self._exponent()
        if exponent == Sum((("-", Num(1)),)):
            name, exponent = "arc" + name, None
        before = self.enter()
        applied = Call(name, (self._applied(), *base))
        self.leave(before)
        return applied if exponent is None else Power(applied, exponent)

    def _applied(self) -> Node:
        """The brackets behind a function, or else the product up to the next sign, bracket or function."""
        if self.sign() in ("(", "[", "{", "|", "⌊", "⌈"):
            return self.atom()
        factors = [("*", self.signed_power())]
        while self._goes_on(factors[-1][1]) and self.sign() not in ("(", "|") and self.token.text not in FUNCTIONS:
            factors.append(("*", self.power()))
        return factors[0][1] if len(factors) == 1 else Product(tuple(factors))

    def _brackets(self, opening: str) -> Node:
        self.advance()
        outer = self.both_signs
        members: list[tuple[Node, bool]] = []
        is_set = opening in ("{", "\\{")
        before = self.enter(bar_closes=is_set, colon_divides=not is_set)
        closing = self._members(members, opening)
        self.leave(before)
        alone = len(members) == 1
        self.both_signs = outer or (alone and members[0][1])
        if opening in "⌊⌈" and alone:
            return Call("floor" if opening == "⌊" else "ceil", (members[0][0],))
        if alone and (opening != "\\{" or isinstance(members[0][0], Relation)):
            return members[0][0]
        kept = tuple(Signed(node) if both else node for node, both in members)
        return Bracketed(opening.replace("⟨", "("), closing.replace("⟩", ")"), kept)

    def _members(self, members: list[tuple[Node, bool]], opening: str) -> str:
        """Reads members up to the closing sign, which it returns; an interval may close with another one."""
        endings = {_CLOSING[opening]} | ({")", "]"} if opening in "([" else set())
        if self.sign() in endings and opening in ("{", "\\{"):
            return self.advance().text
        while True:
            self.both_signs = False
            node = self.item()
            members.append((node, self.both_signs))
            if len(members) > MAX_ITEMS:
                raise TooLarge("too many members")
            sign = self.sign()
            if sign in endings and (sign == _CLOSING[opening] or len(members) == 2):
                return self.advance().text
            if sign in ("|", ":") and opening in ("{", "\\{") and len(members) == 1:
                # A set by its condition is the condition.
                members.clear()
                return self._condition(members, _CLOSING[opening])
            if not (self.take(",") or self.take(";")):
                raise Unreadable("brackets that do not close")

    def _condition(self, members: list[tuple[Node, bool]], closing: str) -> str:
        self.advance()
        members.append((self.item(), False))
        self.expect(closing)
        return closing

    def _matrix(self) -> Node:
        name = self.advance().text
        if name not in _MATRICES:
            raise Unreadable(f"the environment {name[:20]!r}")
        rows: list[tuple[Node, ...]] = []
        before = self.enter()
        row = [self.sum()]
        while self.token.kind != "end":
            if self.take("&"):
                row.append(self.sum())
            else:
                self.expect("row")
                rows.append(tuple(row))
                if self.token.kind == "end":
                    row = []
                    break
                row = [self.sum()]
        if row:
            rows.append(tuple(row))
        self.leave(before)
        if self.advance().text != name or len({len(row) for row in rows}) != 1 or len(rows) * len(rows[0]) > MAX_ITEMS:
            raise Unreadable("no matrix")
        return Matrix(tuple(rows))


def _product(factors: list[tuple[str, Node]]) -> Node:
    """Percent behind a product or a fraction is that of all of it: 1/2 % is 0.5 %."""
    *others, (sign, last) = factors
    if isinstance(last, Percent):
        return Percent(Product((*others, (sign, last.value))))
    return Product(tuple(factors))


def number(text: str) -> Num:
    """The number of canonical digits: `12`, `1.50`, `.5`, `2e-3`, `0.1(6)`."""
    if text.isdigit():
        return Num(whole_number(text))
    if text.endswith(")"):
        head, _, repeated = text[:-1].partition("(")
        whole, _, part = head.partition(".")
        nines = (10 ** len(repeated) - 1) * 10 ** len(part)
        all_digits, first_digits = whole_number(whole + part + repeated), whole_number(whole + part or "0")
        return Num(Fraction(all_digits - first_digits, nines))
    mantissa, _, exponent = text.replace("E", "e").partition("e")
    whole, _, part = mantissa.partition(".")
    shift = int(exponent or "0") if len(exponent) < 6 else MAX_EXPONENT + 1
    if abs(shift) > MAX_EXPONENT:
        raise TooLarge("too large an exponent")
    places = len(part) - shift
    value = Fraction(whole_number(whole + part)) * Fraction(10) ** -places
    if not part:
        return Num(int(value) if value.denominator == 1 else value)
    return Num(value, places, len((whole + part).lstrip("0")))
