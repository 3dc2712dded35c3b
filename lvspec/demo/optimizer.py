"""Muon for matrices, Adam for the rest (training only).

Muon (Keller Jordan et al., 2024) replaces the momentum of a matrix by its nearest orthogonal
matrix, found by a few Newton-Schulz steps. On this pair it learns clearly faster than Adam.
Matrices of one shape are stepped together, which is what makes it cheap.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

# Coefficients of four Newton-Schulz steps (You Jiacheng's, 2025), steepest first.
_STEPS = (
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
)


class Optimizer:
    """Steps `parameters` in place. `vectors` are matrices to be treated as lists of vectors
    (embeddings): Adam.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], vectors: Iterable[nn.Parameter]) -> None:
        self.parameters = [p for p in parameters if p.requires_grad]
        apart = {id(p) for p in vectors}
        groups: dict[tuple[int, int], list[nn.Parameter]] = {}
        self.adam: list[tuple[nn.Parameter, Tensor, Tensor]] = []
        for p in self.parameters:
            if p.ndim >= 2 and id(p) not in apart:
                groups.setdefault((p.shape[0], p[0].numel()), []).append(p)
            else:
                self.adam.append((p, torch.zeros_like(p), torch.zeros_like(p)))
        self.muon = [(s, ps, torch.zeros(len(ps), *s)) for s, ps in groups.items()]
        self.count = 0

    @torch.no_grad()
    def step(self, rate: float, decay: float = 0.01) -> None:
        """One step at learning rate `rate`; clears the gradients."""
        self.count += 1
        for size, ps, momentum in self.muon:
            grads = torch.stack([p.grad.view(size) for p in ps if p.grad is not None])
            momentum.mul_(0.95).add_(grads, alpha=0.05)
            update = _orthogonal(grads.mul_(0.05).add_(momentum, alpha=0.95))
            for p, u in zip(ps, update, strict=True):
                p.mul_(1 - rate * decay).add_(u.view_as(p), alpha=-0.2 * max(size) ** 0.5 * rate)
        for p, first, second in self.adam:
            if p.grad is None:
                continue
            first.lerp_(p.grad, 0.1)
            second.mul_(0.98).addcmul_(p.grad, p.grad, value=0.02)
            scale = (second / (1 - 0.98**self.count)).sqrt_().add_(1e-9)
            p.addcdiv_(first / (1 - 0.9**self.count), scale, value=-rate)
        for p in self.parameters:
            p.grad = None


def _orthogonal(x: Tensor) -> Tensor:
    """Near-orthogonal matrices in the directions of `x`, [n, rows, columns]."""
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.transpose(1, 2)
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for a, b, c in _STEPS:
        square = x @ x.transpose(1, 2)
        x = a * x + (b * square + c * (square @ square)) @ x
    return x.transpose(1, 2) if tall else x
