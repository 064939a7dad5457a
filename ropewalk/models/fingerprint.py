"""A fingerprint of weights: equal for equal bytes, whatever the process, device or object."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn


def fingerprint(module: nn.Module) -> str:
    """blake2b over sorted (name, type, shape, bytes) of parameters and saved buffers; tied ones count once."""
    seen: set[int] = set()
    named: list[tuple[str, Tensor]] = []
    for name, tensor in sorted(module.state_dict(keep_vars=True).items()):
        if id(tensor) not in seen:
            seen.add(id(tensor))
            named.append((name, tensor))
    with ThreadPoolExecutor(2) as pool:  # hashing releases the interpreter lock
        digests = list(pool.map(_digest, (tensor for _, tensor in named)))
    total = hashlib.blake2b(digest_size=16)
    for (name, tensor), digest in zip(named, digests, strict=True):
        total.update(f"{name}\x1f{tensor.dtype}\x1f{tuple(tensor.shape)}\x1f".encode() + digest)
    return total.hexdigest()


def _digest(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return hashlib.blake2b(flat.numpy().data, digest_size=32).digest()
