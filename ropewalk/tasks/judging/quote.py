"""What is to be judged, quoted so that it cannot pose as a part of the question.

    <answer 5f0c…>
    …
    </answer 5f0c…>

The key in the marks is a hash of all that is quoted: nobody who writes one of the texts can know it, and the same
question has the same key. It occurs in none of the texts. Control tokens of chat templates are broken up, so that a
text cannot end the turn it stands in.
"""

import hashlib
import re
from collections.abc import Sequence

from ropewalk.records.prompt import Dialogue

_CONTROL = re.compile(
    r"<\|(?=[^|<>\n]{0,64}\|>)|<｜(?=[^｜<>\n]{0,64}｜>)|\[(?=/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS)\])|<(?=<SYS>>|</SYS>>)"
    r"|<(?=/?(?:s|bos|eos|pad|unk|start_of_turn|end_of_turn|turn|think|im_start|im_end|sep|cls|mask)>)"
)
"""Where a control token of a common chat template begins."""


def plain(text: str) -> str:
    """The text with its control tokens broken up by a space after their first character, and as valid Unicode."""
    valid = text.encode("utf-8", "replace").decode("utf-8").replace("\x00", "�")
    return _CONTROL.sub(lambda found: f"{found.group()[0]} {found.group()[1:]}", valid)


def broken_up(text: str, tokens: Sequence[str]) -> str:
    """The text without any of these tokens in it: each is parted after its first character."""
    for token in sorted((token for token in tokens if token.strip()), key=len, reverse=True):
        parted = f"{token[0]} {token[1:]}" if len(token) > 1 else " "
        text = text.replace(token, parted)
    return text


def key_of(texts: Sequence[str]) -> str:
    """The key of a question about these texts: 16 hexadecimal digits that occur in none of them."""
    number = 0
    while True:
        digest = hashlib.blake2b(str(number).encode(), digest_size=8)
        for text in texts:
            data = text.encode("utf-8", "surrogatepass")
            digest.update(len(data).to_bytes(8, "big") + data)
        key = digest.hexdigest()
        if not any(key in text for text in texts):
            return key
        number += 1


def quoted(what: str, text: str, key: str) -> str:
    """The text between its marks."""
    return f"<{what} {key}>\n{plain(text)}\n</{what} {key}>"


def asked_text(dialogue: Dialogue) -> str:
    """What the policy was asked, as a judge reads it."""
    if isinstance(dialogue, str):
        return dialogue
    return "\n\n".join(f"{message.role}: {message.content}" for message in dialogue)
