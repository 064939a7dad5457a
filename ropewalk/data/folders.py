"""Which files a path means: a file, the files of one split of a folder, or a data set in the hub's local cache.

Nothing is ever fetched: a name that is not on this machine is refused. Splits are told by the names of files and
folders, as the hub's data sets name them (train-00000-of-00002.parquet, data/test.jsonl, gsm8k_train.jsonl.gz).
"""

import json
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from ropewalk.data.optional import optional_module
from ropewalk.records.errors import InputError
from ropewalk.records.files import parse_json, read_failure

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".csv", ".csv.gz", ".parquet", ".arrow")
_SHARD = re.compile(r"[-_.]\d{5}(?:-of-\d{5})?$")
_HUB_NAME = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(?:/[\w./-]+)?")
_NOT_ROWS = {"dataset_info.json", "dataset_dict.json", "state.json", "dataset_infos.json", "config.json"}
_KNOWN_SPLITS = ("train", "test", "validation", "valid", "val", "dev", "eval", "heldout")


def data_files(path: str | Path, split: str | None = None) -> list[Path]:
    """The files that hold the rows, in order. Raises `InputError` for what is not there or not told apart."""
    place = Path(path)
    if place.is_dir():
        return folder_files(place, split)
    if not place.exists() and (cached := cached_dataset(str(path))) is not None:
        return folder_files(cached, split) if cached.is_dir() else [cached]
    if not place.exists():
        hub = _HUB_NAME.fullmatch(str(path)) and not str(path).endswith(SUFFIXES)
        mend = ", nor a data set of that name in the local cache; nothing is fetched here" if hub else ""
        raise InputError(f"there is no file {place}{mend}: check the path")
    if not place.name.endswith(SUFFIXES):
        raise InputError(f"{place} is of an unknown kind: use one of {', '.join(SUFFIXES)}")
    if split is not None:
        raise InputError(f"{place} is one file and has no split {split!r}: take the split out, or name a folder")
    return [place]


def folder_files(folder: Path, split: str | None) -> list[Path]:
    """The files of one split of a folder."""
    if (folder / "dataset_dict.json").is_file():
        names = _listed(folder / "dataset_dict.json", "splits")
        return folder_files(folder / _one(folder, names, split), None)
    if (folder / "state.json").is_file():
        return [folder / name for name in _listed(folder / "state.json", "_data_files")]
    found = sorted(p for p in folder.rglob("*") if p.name.endswith(SUFFIXES) and _holds_rows(p, folder))
    if not found:
        raise InputError(f"{folder} is a folder: name a file in it (it has none of {', '.join(SUFFIXES)})")
    by_split: dict[str, list[Path]] = {}
    for file in found:
        by_split.setdefault(split_of(file, folder), []).append(file)
    chosen = by_split[_one(folder, list(by_split), split)]
    homes = {file.parent for file in chosen}
    if len(homes) > 1:
        named = ", ".join(sorted(str(home.relative_to(folder)) for home in homes))
        raise InputError(f"{folder} has this split in several folders ({named}): name one of them")
    return chosen


def split_of(file: Path, folder: Path) -> str:
    """The split that a file's name tells: a known one as a word in it, else in its folders' names, else its whole name.

    Shards of one split (train-00000-of-00002) have one name.
    """
    stem = file.name[: -len(next(s for s in sorted(SUFFIXES, key=len, reverse=True) if file.name.endswith(s)))]
    stem = _SHARD.sub("", stem)
    words = re.split(r"[-_. ]", stem.lower())
    if stem.lower() in _KNOWN_SPLITS or not set(words) & set(_KNOWN_SPLITS):
        homes = [part for part in file.relative_to(folder).parts[:-1] if part.lower() in _KNOWN_SPLITS]
        return stem if stem.lower() in _KNOWN_SPLITS or not homes else homes[-1]
    # "gsm8k_train" is the train split; "train_sft" is a split of that name.
    return words[-1] if words[-1] in _KNOWN_SPLITS else stem


def cached_dataset(name: str) -> Path | None:
    """Where a data set OWNER/NAME (or a folder or file in it) lies in the hub's cache; None if it is not there."""
    if not _HUB_NAME.fullmatch(name):
        return None
    owner, repository, *inside = name.split("/")
    hub = optional_module("huggingface_hub", extra="data", need=f"looking for {name} in the local cache")
    try:
        root = hub.snapshot_download(f"{owner}/{repository}", repo_type="dataset", local_files_only=True)
    except (OSError, ValueError, hub.errors.HfHubHTTPError):
        return None
    place = Path(root).joinpath(*inside)
    return place if place.exists() and place.resolve().is_relative_to(Path(root).resolve().parents[1]) else None


def _one(folder: Path, names: Sequence[str], split: str | None) -> str:
    """The split asked for; or train, or the only one."""
    if split is not None:
        if split not in names:
            near = get_close_matches(split, names, n=1)
            mend = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(sorted(names))}"
            raise InputError(f"{folder} has no split {split!r}: {mend}")
        return split
    if len(names) == 1:
        return names[0]
    if "train" in names:
        return "train"
    raise InputError(f"{folder} is a folder with several parts: name one as split ({', '.join(sorted(names))})")


def _holds_rows(file: Path, folder: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)
    return file.is_file() and file.name not in _NOT_ROWS and not hidden


def _listed(file: Path, key: str) -> list[str]:
    """Names in a file that the package `datasets` wrote."""
    try:
        content = parse_json(file.read_bytes(), str(file))
    except OSError as error:
        raise read_failure(file, error) from None
    listed = content.get(key) if isinstance(content, Mapping) else None
    names = [item.get("filename") if isinstance(item, Mapping) else item for item in listed or ()]
    if not names or not all(isinstance(name, str) and Path(name).name == name for name in names):
        raise InputError(f"{file} does not list the parts of a data set as {json.dumps(key)}: save it again")
    return [str(name) for name in names]
