"""Hidden states of one decoder layer, taken while the stock decoder runs.

By a hook on that layer: `output_hidden_states=True` would keep the states of every layer, about
11 GB for a video of 16k tokens.
"""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


class LayerStates:
    """What layer `layer` of `decoder` returns in the passes made inside `watch()`.

    The hook is there only inside: the same weights may also run as the draft or in another engine.
    """

    def __init__(self, decoder: nn.Module, layer: int) -> None:
        layers: Any = decoder.layers
        self._layer: nn.Module = layers[layer]
        self._passes: list[Tensor] = []

    @contextmanager
    def watch(self) -> Generator[None]:
        """Keep the states of passes of one row or one set of rows; forget those before."""
        self._passes.clear()
        hook = self._layer.register_forward_hook(self._keep)
        try:
            yield
        finally:
            hook.remove()

    def _keep(self, layer: nn.Module, inputs: Any, output: Any) -> None:
        # some versions of transformers return the states in a tuple
        self._passes.append(output if isinstance(output, Tensor) else output[0])

    def take(self, like: Tensor) -> Tensor:
        """The states, in the shape and on the device of the last hidden states of the passes."""
        states, self._passes = torch.cat(self._passes, dim=1), []
        return states.reshape(like.shape).to(like.device)
