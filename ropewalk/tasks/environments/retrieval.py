"""Retrieval over a folder of text files: passages ranked by BM25 (Robertson & Zaragoza 2009), by the package bm25s.

Every file is cut into passages along its paragraphs. Equal scores are told apart by file name and place, so that the
same query finds the same passages everywhere. Files that are no text are left out and named.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ropewalk.data.optional import optional_module
from ropewalk.records.errors import InputError
from ropewalk.tasks.environments.protocol import ToolSpec
from ropewalk.tasks.environments.tools import Arguments, Tool

MAX_DOCUMENTS = 20_000
MAX_BYTES = 2**20
"""Of one file; what is larger is left out and named."""
PASSAGE_CHARACTERS = 700
MOST_PASSAGES = 10

_MAX_QUERY = 2_000
_WORD = re.compile(r"[^\W_]+")
_IDEOGRAPH = re.compile(r"[㐀-鿿豈-﫿぀-ヿ]")
_PARAGRAPH = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document."""

    document: str
    """Path below the folder."""
    text: str


class Documents:
    """An index over a folder. Raises InputError for a folder that is not there or holds no text."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(f"there is no folder of documents {folder}: name one")
        self.left_out: list[tuple[str, str]] = []
        """Files that are not searched, and why."""
        self.passages: list[Passage] = []
        for place in _files(folder):
            name = place.relative_to(folder).as_posix()
            text = self._text(place, name)
            self.passages += [Passage(name, part) for part in _parts(text)]
        if not self.passages:
            why = f": {self.left_out[0][0]} {self.left_out[0][1]}" if self.left_out else ""
            raise InputError(f"folder {folder} has no text files to search{why}")
        bm25s = optional_module("bm25s", extra="tasks", need="retrieval over documents")
        self._index = bm25s.BM25(k1=1.5, b=0.75)
        self._index.index([words(passage.text) for passage in self.passages], show_progress=False)
        self._vocabulary = frozenset(self._index.vocab_dict)

    def search(self, query: str, count: int) -> list[tuple[Passage, float]]:
        """The best passages, best first; none of score 0."""
        asked = [word for word in dict.fromkeys(words(query[:_MAX_QUERY])) if word in self._vocabulary]
        if not asked:
            return []
        scores = np.asarray(self._index.get_scores(asked))
        order = np.argsort(-scores, kind="stable")[:count]
        return [(self.passages[place], float(scores[place])) for place in order if scores[place] > 0]

    def _text(self, place: Path, name: str) -> str:
        size = place.stat().st_size
        if size > MAX_BYTES:
            self.left_out.append((name, f"has {size} bytes, more than {MAX_BYTES}"))
            return ""
        content = place.read_bytes()
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            self.left_out.append((name, "is no text in UTF-8"))
            return ""
        return text


def words(text: str) -> list[str]:
    """Words in their plain form; of writing without spaces, each sign is one."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    found: list[str] = []
    for match in _WORD.finditer(plain):
        found += list(match[0]) if _IDEOGRAPH.search(match[0]) else [match[0]]
    return found


def search_tool(documents: Documents) -> Tool:
    """The tool `search`."""
    spec = ToolSpec(
        "search",
        "Finds passages of the documents by their words and shows them with the names of their documents.",
        {
            "type": "object",
            "properties": {
                "query": {"type": "string", "minLength": 1},
                "count": {"type": "integer", "minimum": 1, "maximum": MOST_PASSAGES, "description": "3 if not given"},
            },
            "required": ["query"],
        },
    )

    def run(arguments: Arguments) -> str:
        found = documents.search(arguments["query"], int(arguments.get("count", 3)))
        if not found:
            return "Nothing is found: no document has any of these words."
        return "\n\n".join(f"[{number}] {each.document}\n{each.text}" for number, (each, _) in enumerate(found, 1))

    return Tool(spec, run, bounded=True)


def _files(folder: Path) -> Sequence[Path]:
    found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    shown = [path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    if len(shown) > MAX_DOCUMENTS:
        raise InputError(f"folder {folder} has {len(shown)} files: at most {MAX_DOCUMENTS} are searched")
    return shown


def _parts(text: str) -> Iterator[str]:
    """Paragraphs, joined while they are short and cut where they are long."""
    held = ""
    for paragraph in _PARAGRAPH.split(text):
        paragraph = paragraph.strip()
        if held and len(held) + len(paragraph) > PASSAGE_CHARACTERS:
            yield held
            held = ""
        held = f"{held}\n\n{paragraph}".strip()
        while len(held) > PASSAGE_CHARACTERS:
            at = held.rfind(" ", 1, PASSAGE_CHARACTERS)
            at = at if at > 0 else PASSAGE_CHARACTERS
            yield held[:at].strip()
            held = held[at:].strip()
    if held:
        yield held
