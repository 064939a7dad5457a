"""Commands of the small shell that read lines and give lines: cat, head, tail, grep, wc, sort, uniq, cut, tr, echo."""

import os
import re

from ropewalk.tasks.environments.inside.given import Lines, expression, files_below, inputs, options, together, whole
from ropewalk.tasks.environments.inside.words import Trouble


def cat(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    given, names = options(arguments, "cat", "nA")
    found = together(names, lines, "cat")
    return [f"{number:6}\t{line}" for number, line in enumerate(found, 1)] if "n" in given else found, True


def head(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    return _ends(arguments, lines, "head")


def tail(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    return _ends(arguments, lines, "tail")


def _ends(arguments: list[str], lines: "Lines | None", command: str) -> tuple[Lines, bool]:
    given, names = options(arguments, command, "q", "nc")
    if "c" in given:
        most = whole(given["c"], command)
        text = "\n".join(together(names, lines, command)) + "\n"
        return (text[:most] if command == "head" else text[-most:] if most else "").removesuffix("\n").split("\n"), True
    count = whole(given.get("n", "10"), command)
    parts = inputs(names, lines, command)
    found: Lines = []
    for name, part in parts:
        if len(parts) > 1 and "q" not in given:
            found += [*([""] if found else []), f"==> {name} <=="]
        if command == "head":
            found += part[:count]
        else:
            found += part[count - 1 :] if given.get("n", "").startswith("+") else part[-count:] if count else []
    return found, True


def grep(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    given, names = options(arguments, "grep", "inrRvcloHhEFGwxqs", "eABCm")
    if "e" not in given:
        if not names:
            raise Trouble("grep: an expression is missing")
        given["e"], names = names[0], names[1:]
    text = "|".join(f"(?:{part})" for part in given["e"].split("\n")) if "\n" in given["e"] else given["e"]
    test = expression(text, fixed="F" in given, ignore="i" in given, extended="E" in given or "\n" in given["e"])
    if "w" in given or "x" in given:
        before, behind = (r"\b", r"\b") if "w" in given else ("", r"\Z")
        test = re.compile(f"{before}(?:{test.pattern}){behind}", test.flags)
    if "r" in given or "R" in given:
        names = [name for place in names or ["."] for name in (files_below(place) if os.path.isdir(place) else [place])]
        if not names:
            return [], False
    parts = inputs(names, lines, "grep")
    labelled = (len(parts) > 1 or "r" in given or "R" in given or "H" in given) and "h" not in given
    found = [line for name, part in parts for line in _matches(part, test, given, f"{name}:" if labelled else "")]
    return ([] if "q" in given else found), bool(found) and found != ["0"]


def _matches(part: Lines, test: "re.Pattern[str]", given: dict[str, str], label: str) -> Lines:
    entire, inverted = "x" in given, "v" in given
    hits = [n for n, line in enumerate(part) if bool(test.match(line) if entire else test.search(line)) != inverted]
    if "m" in given:
        hits = hits[: whole(given["m"], "grep")]
    if "l" in given:
        return [label.removesuffix(":") or "(standard input)"] if hits else []
    if "c" in given:
        return [f"{label}{len(hits)}"]
    if "o" in given:
        return [f"{label}{_place(n, given)}{m[0]}" for n in hits for m in test.finditer(part[n]) if m[0]]
    before = whole(given.get("B", given.get("C", "0")), "grep")
    after = whole(given.get("A", given.get("C", "0")), "grep")
    shown = sorted({near for n in hits for near in range(max(n - before, 0), min(n + after + 1, len(part)))})
    return [f"{label}{_place(n, given)}{part[n]}" for n in shown]


def _place(number: int, given: dict[str, str]) -> str:
    return f"{number + 1}:" if "n" in given else ""


def wc(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    given, names = options(arguments, "wc", "lwcm")
    parts = inputs(names, lines, "wc")
    counts = [(len(part), sum(len(line.split()) for line in part), sum(len(line.encode()) + 1 for line in part))
              for _, part in parts]  # fmt: skip
    labels = [name if name != "-" else "" for name, _ in parts]
    if len(parts) > 1:
        counts.append((sum(c[0] for c in counts), sum(c[1] for c in counts), sum(c[2] for c in counts)))
        labels.append("total")
    wanted = [i for i, letters in enumerate(("l", "w", "cm")) if not given or any(sign in given for sign in letters)]
    return [" ".join([*(str(count[i]) for i in wanted), label]).strip()
            for count, label in zip(counts, labels, strict=True)], True  # fmt: skip


def sort(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    given, names = options(arguments, "sort", "nruf", "kt")
    field, mark = given.get("k", ""), given.get("t")
    if field and not field[0].isdecimal():
        raise Trouble(f"sort: {field!r} is no field")

    def key(line: str) -> "tuple[float, str]":
        part = line
        if field:
            parts = line.split(mark)
            number = whole(re.split(r"[^0-9]", field)[0] or "1", "sort")
            part = parts[number - 1] if 0 < number <= len(parts) else ""
        numeric = "n" in given or field.endswith("n")
        found = re.match(r"\s*-?\d+(?:\.\d+)?", part) if numeric else None
        return (float(found[0]) if found else 0.0, part.lower() if "f" in given else part)

    found = sorted(together(names, lines, "sort"), key=key, reverse="r" in given or field.endswith("r"))
    return (list(dict.fromkeys(found)) if "u" in given else found), True


def uniq(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    given, names = options(arguments, "uniq", "cdu")
    runs: list[list[str]] = []
    for line in together(names, lines, "uniq"):
        if runs and runs[-1][0] == line:
            runs[-1].append(line)
        else:
            runs.append([line])
    kept = [run for run in runs if ("d" not in given or len(run) > 1) and ("u" not in given or len(run) == 1)]
    return [f"{len(run):7} {run[0]}" if "c" in given else run[0] for run in kept], True


def cut(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    given, names = options(arguments, "cut", "s", "dfc")
    if ("f" in given) == ("c" in given):
        raise Trouble("cut: give -f fields or -c characters")
    spans = [_span(part) for part in (given.get("f") or given["c"]).split(",")]
    mark = given.get("d", "\t") if "f" in given else ""
    found = []
    for line in together(names, lines, "cut"):
        cells = line.split(mark) if mark else list(line)
        if mark and len(cells) == 1:
            found += [] if "s" in given else [line]
            continue
        chosen = sorted({i for low, high in spans for i in range(low - 1, min(high, len(cells)))})
        found.append(mark.join(cells[i] for i in chosen))
    return found, True


def _span(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d{0,9})(-?)(\d{0,9})", text)
    if not found or not (found[1] or found[3]) or found[1] == "0":
        raise Trouble(f"cut: {text!r} is no field")
    low = int(found[1] or 1)
    return low, int(found[3]) if found[3] else (10**9 if found[2] else low)


def tr(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    given, sets = options(arguments, "tr", "ds")
    if len(sets) != (1 if "d" in given or "s" in given else 2):
        raise Trouble("tr: give two sets of characters, or -d or -s and one")
    first = _characters(sets[0])
    text = "".join(f"{line}\n" for line in together([], lines, "tr"))
    if "d" in given:
        text = text.translate(dict.fromkeys(map(ord, first)))
    elif "s" in given:
        text = re.sub(f"([{re.escape(first)}])\\1+", r"\1", text)
    else:
        second = _characters(sets[1]) or first
        second += second[-1:] * (len(first) - len(second))
        text = text.translate({ord(a): b for a, b in zip(first, second, strict=False)})
    return text.removesuffix("\n").split("\n") if text else [], True


def _characters(text: str) -> str:
    text = text.replace("\\n", "\n").replace("\\t", "\t")
    for name, signs in {"upper": "A-Z", "lower": "a-z", "digit": "0-9", "space": " \t\n", "alpha": "A-Za-z"}.items():
        text = text.replace(f"[:{name}:]", signs)
    span = re.compile(r"(.)-(.)", re.DOTALL)
    return span.sub(lambda m: "".join(map(chr, range(ord(m[1]), min(ord(m[2]), ord(m[1]) + 999) + 1))), text)


def echo(arguments: list[str], lines: "Lines | None") -> tuple[Lines, bool]:
    plain = [word for word in arguments if word not in ("-e", "-n")]
    text = " ".join(plain)
    if "-e" in arguments:
        text = text.replace("\\n", "\n").replace("\\t", "\t")
    # What ends without a line break is a line of its own here.
    return [] if "-n" in arguments and not text else text.split("\n"), True
