"""Scalar heads read at the right place: a value where the token is predicted, a score at the last token."""

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
