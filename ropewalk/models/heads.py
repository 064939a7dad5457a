"""Scalar heads read at the right place: a value where the token is predicted, a score at the last token.

A process reward model scores what has been said up to and including a token, so its head is read at the token itself.
"""

from torch import Tensor

from ropewalk.models.logprobs import spread
from ropewalk.models.network import Network
from ropewalk.models.packed import TokenBatch


def token_values(network: Network, hidden_TD: Tensor, batch: TokenBatch) -> Tensor:
    """values_T[t] = value head(hidden[predecessor[t]]), expected before token t is chosen; 0 outside `mask_T`."""
    return spread(network.value(hidden_TD.index_select(0, batch.source_N)), batch)


def row_scores(network: Network, hidden_TD: Tensor, batch: TokenBatch) -> Tensor:
    """scores_R = reward head(hidden at each row's last token), by recorded length, whatever the token is."""
    return network.reward(hidden_TD.index_select(0, batch.last_token_R))


def row_head_scores(network: Network, hidden_TD: Tensor, batch: TokenBatch) -> Tensor:
    """scores_RH = every reward head at each row's last token."""
    return network.rewards(hidden_TD.index_select(0, batch.last_token_R))


def token_scores(network: Network, hidden_TD: Tensor, batch: TokenBatch) -> Tensor:
    """scores_T[t] = reward head(hidden[t]), what has been said so far, t included; 0 outside `mask_T`."""
    return spread(network.reward(hidden_TD.index_select(0, batch.target_N)), batch)
