"""The versioned file form of records: whole files or nothing, whole lines or nothing.

A reader never sees half of what `write_atomic` writes; a crash inside `append_jsonl` can leave one torn last
line, which the next append mends and a reader may be told to tolerate. NaN and infinities are written as null.
"""

import errno
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ropewalk.records.errors import InputError, RopewalkError, RunStopped
from ropewalk.records.sample import Floats, Sample, SamplingRecord
from ropewalk.records.score import Abstain, Failed, Outcome, Score

SAMPLES_FORMAT = "ropewalk.samples"
SAMPLES_VERSION = 1

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def write_atomic(path: str | Path, data: bytes | str) -> None:
    """Write the whole file or leave the old one as it was: temporary file beside it, fsync, rename.

    Raises `RunStopped` if there is no room, `InputError` if the place cannot be written to.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    content = data.encode() if isinstance(data, str) else data
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise _write_failure(target, error) from error
    _sync_folder(target.parent)


def append_jsonl(path: str | Path, record: object) -> None:
    """Append one record as one whole line, in one write; on failure the file is as long as before.

    A torn last line that an earlier crash left is mended first.
    """
    target = Path(path)
    line = (dumps(record) + "\n").encode()
    try:
        if not _ends_whole(target):
            mend_jsonl(target)
        descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _append_whole(descriptor, line)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise _write_failure(target, error) from error


def mend_jsonl(path: str | Path) -> bool:
    """Cut a torn last line off (or end it, if it is whole but for its newline); says whether it had to."""
    target = Path(path)
    content = target.read_bytes()
    if not content or content.endswith(b"\n"):
        return False
    tail = content[content.rfind(b"\n") + 1 :]
    try:
        json.loads(tail)
    except ValueError:
        os.truncate(target, len(content) - len(tail))
    else:
        with target.open("ab") as file:
            file.write(b"\n")
    return True


def read_jsonl(path: str | Path, *, torn_tail: bool = False) -> list[Any]:
    """All records of a file of JSON lines. With `torn_tail` an unfinished last line is left out."""
    target = Path(path)
    try:
        content = target.read_bytes()
    except OSError as error:
        raise read_failure(target, error) from None
    lines = content.split(b"\n")
    records = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            records.append(parse_json(line, f"{target} line {number}"))
        except InputError:
            if torn_tail and number == len(lines):
                break
            raise
    return records


def parse_json(text: bytes | str, where: str) -> Any:
    """JSON text as data; the `InputError` says where it stands and what is wrong. NaN is not JSON."""
    try:
        return json.loads(text if isinstance(text, str) else text.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError:
        raise InputError(f"{where} is not UTF-8 text") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{where} is not JSON: {error.msg} (column {error.colno})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is not JSON: {error}") from None


def dumps(record: object) -> str:
    """Compact JSON of plain data, dataclasses' dicts, numpy values and paths; what is not finite becomes null."""
    return json.dumps(_plain(record), separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def read_failure(path: Path, error: OSError) -> InputError:
    """Why a file could not be read, with the mend."""
    if isinstance(error, FileNotFoundError):
        return InputError(f"there is no file {path}: check the path")
    if isinstance(error, IsADirectoryError):
        return InputError(f"{path} is a folder: name a file in it")
    return InputError(f"{path} cannot be read ({error.strerror}): check its permissions")


def no_room(error: Exception) -> bool:
    """Whether a write failed because the disk, or a quota, is full; safetensors tells the number only in its text."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno in _NO_ROOM
    return any(f"(os error {number})" in str(error) for number in _NO_ROOM)


def sample_to_json(sample: Sample) -> dict[str, Any]:
    """A sample as JSON data; `sample_from_json` gives back an equal one, bit for bit."""
    return {
        "prompt_id": sample.prompt_id,
        "group_id": sample.group_id,
        "index": sample.index,
        "seed": sample.seed,
        "tokens": sample.tokens_T.tolist(),
        "mask": sample.policy_mask_T.astype(np.int64).tolist(),
        "logprobs": _floats_to_json(sample.logprobs_T),
        "versions": sample.versions_T.tolist(),
        "finish": sample.finish,
        "sampling": _plain(asdict(sample.sampling)),
        "text": sample.text,
        "scores": {name: outcome_to_json(outcome) for name, outcome in sample.scores.items()},
        "info": _plain(dict(sample.info)),
    }


def sample_from_json(data: Mapping[str, Any], where: str = "a sample") -> Sample:
    """The sample that `sample_to_json` wrote; `where` is named in errors."""
    try:
        sampling: dict[str, Any] = {
            name: tuple(v) if isinstance(v, list) else v for name, v in data["sampling"].items()
        }
        return Sample(
            prompt_id=data["prompt_id"],
            group_id=data["group_id"],
            index=data["index"],
            seed=data["seed"],
            tokens_T=np.array(data["tokens"], np.int64),
            policy_mask_T=np.array(data["mask"], np.bool_),
            logprobs_T=np.array([math.nan if x is None else x for x in data["logprobs"]], np.float32),
            versions_T=np.array(data["versions"], np.int64),
            finish=data["finish"],
            sampling=SamplingRecord(**sampling),
            text=data["text"],
            scores={name: outcome_from_json(outcome, where) for name, outcome in data["scores"].items()},
            info=data["info"],
        )
    except RopewalkError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{where} is not a sample record ({type(error).__name__}: {error})") from None


def outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    if isinstance(outcome, Score):
        return {"kind": "score", "value": outcome.value}
    if isinstance(outcome, Abstain):
        return {"kind": "abstain", "reason": outcome.reason}
    return {"kind": "failed", "reason": outcome.reason, "detail": outcome.detail}


def outcome_from_json(data: Mapping[str, Any], where: str = "a sample") -> Outcome:
    kind = data.get("kind")
    if kind == "score":
        return Score(data["value"])
    if kind == "abstain":
        return Abstain(data["reason"])
    if kind == "failed":
        return Failed(data["reason"], data["detail"])
    raise InputError(f"{where} has an outcome of kind {kind!r}: it was written by another version, or by hand")


def write_samples(path: str | Path, samples: Sequence[Sample]) -> None:
    """A batch as JSON lines under a header line that names the format and its version."""
    header = {"format": SAMPLES_FORMAT, "version": SAMPLES_VERSION, "samples": len(samples)}
    write_atomic(path, "".join(dumps(line) + "\n" for line in (header, *map(sample_to_json, samples))))


def read_samples(path: str | Path) -> list[Sample]:
    """The batch that `write_samples` wrote, complete, or an `InputError` that says what is missing."""
    records = read_jsonl(path)
    header = records[0] if records and isinstance(records[0], dict) else {}
    if header.get("format") != SAMPLES_FORMAT:
        raise InputError(f"{path} is not a file of samples: its first line must name the format {SAMPLES_FORMAT!r}")
    if header.get("version") != SAMPLES_VERSION:
        raise InputError(
            f"{path} has version {header.get('version')} of {SAMPLES_FORMAT}, this program reads {SAMPLES_VERSION}"
        )
    samples = [sample_from_json(data, f"{path} record {n}") for n, data in enumerate(records[1:], 1)]
    if len(samples) != header.get("samples"):
        raise InputError(f"{path} was cut short: {len(samples)} of {header.get('samples')} samples are in it")
    return samples


def rollout_file(folder: str | Path, iteration: int) -> Path:
    """Where the samples of an iteration lie in a `rollouts/` folder."""
    return Path(folder) / f"iteration-{iteration:06d}.jsonl"


def rollout_files(folder: str | Path) -> Iterator[tuple[int, Path]]:
    """(iteration, file) of every recorded iteration, in order."""
    for path in sorted(Path(folder).glob("iteration-*.jsonl")):
        number = path.stem.removeprefix("iteration-")
        if number.isdigit():
            yield int(number), path


def _floats_to_json(values: Floats) -> list[float | None]:
    """Shortest decimals that give back the very float32; null where not finite."""
    short = [float(str(v)) if math.isfinite(v) else None for v in np.asarray(values, np.float32)]
    return [
        s if s is None or np.float32(s) == v else float(v)
        for s, v in zip(short, np.asarray(values, np.float32), strict=True)
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, float | np.floating):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in (sorted(value) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    return str(value) if isinstance(value, Path) else value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value (write null)")


def _ends_whole(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            if file.seek(0, os.SEEK_END) == 0:
                return True
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except FileNotFoundError:
        return True


def _append_whole(descriptor: int, line: bytes) -> None:
    before = os.fstat(descriptor).st_size
    try:
        written = os.write(descriptor, line)
        if written < len(line):
            raise OSError(errno.ENOSPC, "no space left for the whole line")
    except OSError:
        os.ftruncate(descriptor, before)
        raise


def _write_failure(path: Path, error: OSError) -> RopewalkError:
    if no_room(error):
        return RunStopped(f"there is no room to write {path}: free some space and resume; what was there is untouched")
    if isinstance(error, FileNotFoundError):
        return InputError(f"{path} cannot be written: its folder {path.parent} does not exist")
    return InputError(f"{path} cannot be written ({error.strerror}): check the path and its permissions")


def _sync_folder(folder: Path) -> None:
    """Make a rename durable; where folders cannot be synced the rename itself must do."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
