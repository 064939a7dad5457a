"""Numbers written in Chinese: 三百二十, 1.5亿, 三分之一, 百分之五十 become ordinary digits."""

import re

_DIGITS = {digit: value for value, digit in enumerate("零一二三四五六七八九")} | {"两": 2, "〇": 0}
_TENS = {"十": 10, "百": 100, "千": 1000}
_LARGE = {"万": 10**4, "亿": 10**8}
_RUN = "零〇一二两三四五六七八九十百千万亿"
_WRITTEN = re.compile(
    rf"(?P<percent>百分之)(?P<part>[{_RUN}]+(?:点[零〇一二三四五六七八九]+)?|[0-9.]+)"
    rf"|(?P<under>[{_RUN}]+|(?<![0-9,.])[0-9]+)分之(?P<over>[{_RUN}]+|[0-9]+)"
    rf"|(?P<number>(?<![0-9,.])[0-9][0-9,]*(?:\.[0-9]+)?)(?P<times>[十百千万亿]{{1,2}})"
    rf"|(?P<run>[{_RUN}]+(?:点[零〇一二三四五六七八九]+)?)"
)
_MIXED = re.compile(r"(?<=[0-9])又(?=[0-9\\])")
"""二又三分之一 is 2 1/3."""


def arabic(text: str) -> str:
    """The text with its Chinese numbers in digits; a run that is no number stays as it is."""
    return _MIXED.sub(" ", _WRITTEN.sub(_rewritten, text.replace("負", "-").replace("负", "-")))


def _rewritten(match: re.Match[str]) -> str:
    if match["percent"]:
        return _digits(match["part"], match[0], "{}%")
    if match["under"]:
        under, over = _digits(match["under"], "", "{}"), _digits(match["over"], "", "{}")
        return rf"\frac{{{over}}}{{{under}}}" if under and over else match[0]
    if match["number"]:
        times = 1
        for sign in match["times"]:
            times *= _TENS.get(sign) or _LARGE[sign]
        return rf"({match['number']}\cdot {times})"
    return _digits(match["run"], match[0], "{}")


def _digits(run: str, otherwise: str, form: str) -> str:
    if run[0] in "0123456789.":
        return form.format(run)
    whole, _, part = run.partition("点")
    value = _value(whole)
    if value is None:
        return otherwise
    return form.format(f"{value}.{''.join(str(_DIGITS[digit]) for digit in part)}" if part else str(value))


def _value(run: str) -> int | None:
    """三百二十万零五 is 3,200,005; digits alone such as 二零二四 are read one by one."""
    if len(run) > 40:
        return None
    if all(sign in _DIGITS for sign in run):
        return int("".join(str(_DIGITS[sign]) for sign in run))
    total = section = digit = 0
    for sign in run:
        if sign in _DIGITS:
            digit = _DIGITS[sign]
        elif sign in _TENS:
            section += (digit or 1) * _TENS[sign]
            digit = 0
        elif not total + section + digit:
            return None
        else:
            total = (
                (total + section + digit) * _LARGE[sign] if sign == "亿" else total + (section + digit) * _LARGE[sign]
            )
            section = digit = 0
    return total + section + digit
