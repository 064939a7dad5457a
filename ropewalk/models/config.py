"""Which model a role starts from."""

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from ropewalk.config.schema import Section


class FolderModel(Section):
    """A Hugging Face folder of a causal language model."""

    kind: Literal["folder"] = "folder"
    path: str
    """Local folder, or a hub id (`owner/name`, downloaded by transformers)."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the weights in memory."""


class FreshModel(Section):
    """A small Llama-style model with random weights over a word list."""

    kind: Literal["fresh"] = "fresh"
    width: int = Field(default=192, ge=2)
    """Hidden size."""
    layers: int = Field(default=2, ge=1)
    """Decoder layers."""
    heads: int = Field(default=6, ge=1)
    """Query heads."""
    kv_heads: int = Field(default=6, ge=1)
    """Key/value heads; divides `heads`."""
    ffn: int = Field(default=512, ge=1)
    """Inner width of the feed-forward layers."""
    max_positions: int = Field(default=64, ge=2)
    """Longest sequence in tokens."""
    tied: bool = False
    """One tensor for input embeddings and output head."""
    init_std: float = Field(default=0.02, gt=0)
    """Standard deviation of every matrix at the start."""

    @model_validator(mode="after")
    def _divisible(self) -> Self:
        if self.width % (2 * self.heads) or self.heads % self.kv_heads:
            raise ValueError("width must be a multiple of 2 x heads, and heads a multiple of kv_heads")
        return self


Model: TypeAlias = Annotated[FolderModel | FreshModel, Field(discriminator="kind")]
