"""Models from folders, and fresh ones from sizes and words. No pickle, no foreign code, no network for a folder.

Every loaded network has been run beside the stock implementation on a few tokens (`verify.py`): an architecture that
packed attention cannot carry is refused here, never trained wrongly.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled
from safetensors import SafetensorError
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from ropewalk.models.config import FreshModel
from ropewalk.models.folder import checked_folder, eos_ids_of, stored_settings
from ropewalk.models.network import POLICY, Network
from ropewalk.models.verify import stock_hidden, stock_logits, verify
from ropewalk.records.errors import InputError

Dtype = Literal["float32", "bfloat16"]


@dataclass(slots=True)
class LoadedModel:
    """A network with everything needed to talk to it."""

    network: Network
    tokenizer: PreTrainedTokenizerFast
    eos_ids: tuple[int, ...]
    """Every id that ends a completion; the tokenizer's own comes first and ends a taught answer."""
    pad_id: int | None
    vocabulary_size: int
    """Number of logits; may exceed the tokenizer's length."""
    notes: list[str] = field(default_factory=list)
    """What was found and not used, for the user to read."""


def load_policy(path: str | Path, *, dtype: Dtype = "float32", device: str = "cpu") -> LoadedModel:
    """A causal LM with its policy head from a local folder, or from a hub id `owner/name` (which is downloaded).

    Raises `InputError` for a missing folder, pickle weights, custom code, an encoder-decoder, missing or unexpected
    tensors, and an architecture that packed attention cannot carry.
    """
    folder = local_folder(path)
    config, notes = checked_folder(folder)
    causal_lm = _strictly(AutoModelForCausalLM, folder, dtype)
    tokenizer = tokenizer_in(folder)
    expected = stock_logits(causal_lm)
    network = Network(causal_lm, POLICY)
    verify(network, expected)
    return LoadedModel(
        network=network.to(device),
        tokenizer=tokenizer,
        eos_ids=eos_ids_of(folder, config, tokenizer.eos_token_id),
        pad_id=tokenizer.pad_token_id if tokenizer.pad_token_id is not None else config.get("pad_token_id"),
        vocabulary_size=network.vocabulary_size,
        notes=notes + stored_settings(folder, config),
    )


def load_scorer(
    path: str | Path, *, dtype: Dtype = "float32", device: str = "cpu", many_heads: bool = False
) -> LoadedModel:
    """A reward model: a sequence-classification folder; its `score` becomes the reward head, or with `many_heads` all
    of its rows become one head each.

    Raises `InputError` as `load_policy` does: a head that is missing or extra is an error, never a random start; and
    for another number of labels than one, unless many are asked for.
    """
    folder = local_folder(path)
    config, notes = checked_folder(folder)
    labels = config.get("num_labels", len(config.get("id2label", {0: "", 1: ""})))
    if labels != 1 and not many_heads:
        raise InputError(f"{folder} has {labels} labels: a reward model is a sequence classifier with exactly one")
    classifier = _strictly(AutoModelForSequenceClassification, folder, dtype)
    score = getattr(classifier, "score", None)
    if not isinstance(score, torch.nn.Linear) or score.bias is not None:
        raise InputError(f"{folder} has no linear `score` head without bias: save it with ropewalk's export")
    expected = stock_hidden(classifier)
    with torch.device("meta"):
        causal_lm = AutoModelForCausalLM.from_config(classifier.config)
    setattr(causal_lm, causal_lm.base_model_prefix, classifier.base_model)
    network = Network(causal_lm, frozenset({"reward"}))
    network.set_reward_heads(score.weight)
    verify(network, expected)
    tokenizer = tokenizer_in(folder)
    return LoadedModel(
        network=network.to(device),
        tokenizer=tokenizer,
        eos_ids=eos_ids_of(folder, config, tokenizer.eos_token_id),
        pad_id=tokenizer.pad_token_id,
        vocabulary_size=network.vocabulary_size,
        notes=notes,
    )


def fresh_policy(config: FreshModel, words: Sequence[str], eos: str, pad: str = "<pad>", *, seed: int) -> LoadedModel:
    """A Llama-style model over whole words, every matrix drawn from normal(0, init_std) by its own generator."""
    tokenizer = word_tokenizer(words, eos, pad)
    eos_id, pad_id = int(tokenizer.eos_token_id), int(tokenizer.pad_token_id)
    shape = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.width,
        intermediate_size=config.ffn,
        num_hidden_layers=config.layers,
        num_attention_heads=config.heads,
        num_key_value_heads=config.kv_heads,
        max_position_embeddings=config.max_positions,
        tie_word_embeddings=config.tied,
        bos_token_id=None,
        eos_token_id=eos_id,
        pad_token_id=pad_id,
        attn_implementation="eager",
    )
    with torch.random.fork_rng(devices=[]):  # transformers draws initial weights from the global generator
        causal_lm = LlamaForCausalLM(shape).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for _, parameter in sorted(causal_lm.named_parameters()):
            if parameter.dim() > 1:
                parameter.normal_(0.0, config.init_std, generator=generator)
    return LoadedModel(Network(causal_lm), tokenizer, (eos_id,), pad_id, len(tokenizer))


def word_tokenizer(words: Sequence[str], eos: str, pad: str) -> PreTrainedTokenizerFast:
    """One id per word, text split at white space, decoding joins with spaces."""
    vocabulary = [*([] if pad in words else [pad]), *words, *([] if eos in words else [eos])]
    broken = [word for word in vocabulary if not word or re.search(r"\s", word)]
    if broken or len(set(vocabulary)) != len(vocabulary):
        raise InputError(f"a word list needs distinct words without spaces, got {broken or 'a word twice'}")
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=eos, pad_token=pad, clean_up_tokenization_spaces=False
    )


def local_folder(path: str | Path) -> Path:
    """The folder itself, or the snapshot of a hub id: `owner/name` where no local folder `owner` exists."""
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder
    text = str(path)
    if folder.exists() or not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", text) or folder.parent.exists():
        raise InputError(f"there is no model folder {text}: give a folder with config.json and *.safetensors")
    try:
        found = snapshot_download(text, allow_patterns=["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"])
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OfflineModeIsEnabled, OSError) as error:
        raise InputError(
            f"{text} is neither a local folder nor a model that can be fetched from the hub ({type(error).__name__}): "
            "check the name, or give a local folder"
        ) from error
    return Path(found)


def _strictly(auto: Any, folder: Path, dtype: Dtype) -> Any:
    """The stock model, every tensor accounted for."""
    try:
        with torch.random.fork_rng(devices=[]), _quietly():
            model, report = auto.from_pretrained(
                folder,
                dtype=getattr(torch, dtype),
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                attn_implementation="eager",
                output_loading_info=True,
                ignore_mismatched_sizes=True,  # reported below by name instead
            )
    except (ValueError, KeyError, OSError, SafetensorError) as error:
        first = str(error).strip().split("\n")[0]
        raise InputError(f"{folder} cannot be loaded as a {auto.__name__.removeprefix('Auto')}: {first}") from error
    wrong = {kind.split("_")[0]: sorted(map(_tensor_name, report.get(kind) or ())) for kind in _REPORTED}
    listed = [
        f"{kind} {', '.join(names[:5])}{' and more' * (len(names) > 5)}" for kind, names in wrong.items() if names
    ]
    if listed:
        raise InputError(
            f"{folder} does not fit {type(model).__name__} ({'; '.join(listed)}): it is damaged or of another kind"
        )
    return model.eval()


def _tensor_name(entry: object) -> str:
    return str(entry[0] if isinstance(entry, tuple) else entry)


_REPORTED = ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")


@contextmanager
def _quietly() -> Iterator[None]:
    """transformers writes a progress bar and a load report to stderr; ours is the one error or none."""
    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()


def tokenizer_in(folder: Path) -> PreTrainedTokenizerFast:
    """The fast tokenizer of a folder; no code of the folder runs."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (ValueError, KeyError, OSError) as error:
        raise InputError(f"{folder} has no tokenizer that transformers can load: copy tokenizer.json there") from error
    if not isinstance(tokenizer, PreTrainedTokenizerFast):
        raise InputError(f"{folder} has no fast tokenizer: convert it to tokenizer.json first")
    return tokenizer
