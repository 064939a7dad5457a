"""Imitation: the negative log-likelihood of the target tokens, to be minimised."""

from torch import Tensor


def nll_terms(logprobs_T: Tensor) -> Tensor:
    """−log π(token | before), (T,)."""
    return -logprobs_T
