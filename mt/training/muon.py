"""Muon: momentum whose update is made orthogonal, for the matrices inside the layers (Jordan et al. 2024).

    M ← μ M + (1-μ) G,   U = orthogonalize((1-μ) G + μ M),   W ← (1 - η λ) W - η sqrt(max(O, I)) U

Every direction of the update has the same size, so rare directions are learnt as fast as frequent ones:
on small corpora it needs about half the updates that Adam needs. Orthogonalization is a few Newton–
Schulz iterations ``X ← aX + b(XXᵀ)X + c(XXᵀ)²X``, matrix products only. ``sqrt(max(O, I))`` gives each
entry of the update a root mean square of about 1 before the rate η, whatever the shape, so that one rate
suits all matrices and compares with Adam's (Liu et al. 2025, §2.2, which scale by 0.2 more).

Where we depart from PyTorch's `torch.optim.Muon`: that rounds to bf16, which is slow on most CPUs; we
stay in the format of the weights on a CPU, and matrices of one shape are iterated together.

Embeddings, the output layer, norms and biases are not matrices in this sense: they keep AdamW, in the same
optimizer, so that gradient scaling and stored states know one object.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.optim.adamw import adamw

# Coefficients of Jordan's quintic: they maximise the slope at zero, so that small singular values grow
# by 3.4 per iteration, and hold large ones between 0.7 and 1.2.
_A, _B, _C = 3.4445, -4.7750, 2.0315


def orthogonalize(matrices: Tensor, iterations: int) -> Tensor:
    """Singular values moved towards 1, singular vectors kept.

    Args:
        matrices: (n, O, I).
        iterations: Newton–Schulz iterations.

    Returns:
        (n, O, I); with 5 iterations singular values above 0.5 % of the largest end in about [0.7, 1.2].
    """
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.transpose(1, 2) if tall else matrices
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    if x.device.type == "cuda":
        x = x.bfloat16()
    for _ in range(iterations):
        gram = x @ x.transpose(1, 2)
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    x = x.to(matrices.dtype)
    return x.transpose(1, 2) if tall else x


class Muon(torch.optim.Optimizer):
    """The update of the module's head for matrices, AdamW for everything else, as one optimizer.

    Args:
        params: groups. A group with ``muon=True`` holds 2-D parameters and may have ``parts``, a list as
            long as its ``params``: how many independent matrices are stacked along the first axis of
            each. Any other group is updated as by `torch.optim.AdamW`.
        lr: the rate of groups that set none: η, the root mean square of an update's entries, or Adam's.
        betas, eps: Adam's.
        momentum: μ.
        weight_decay: λ, decoupled.
        iterations: of Newton–Schulz.
    """

    def __init__(
        self,
        params: Iterable[Any],
        *,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.98),
        eps: float = 1e-9,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
        iterations: int = 5,
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "momentum": momentum,
            "weight_decay": weight_decay,
            "iterations": iterations,
            "muon": False,
        }
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One update; a closure is evaluated first, as PyTorch's optimizers do."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            if group["muon"]:
                self._update_matrices(group)
            else:
                self._update_others(group)
        return loss

    def _update_matrices(self, group: dict[str, Any]) -> None:
        parts = group.get("parts") or [1] * len(group["params"])
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = {}
        for parameter, count in zip(group["params"], parts, strict=True):
            if parameter.grad is None:
                continue
            state = self.state[parameter]
            if not state:
                state["momentum"] = torch.zeros_like(parameter)
            momentum: Tensor = state["momentum"]
            momentum.lerp_(parameter.grad, 1.0 - group["momentum"])
            update = parameter.grad.lerp(momentum, group["momentum"])
            for weight, piece in zip(parameter.chunk(count), update.chunk(count), strict=True):
                by_shape.setdefault(piece.shape, []).append((weight, piece))
        for shape, pairs in by_shape.items():
            directions = orthogonalize(torch.stack([piece for _, piece in pairs]), group["iterations"])
            for (weight, _), direction in zip(pairs, directions, strict=True):
                weight.mul_(1.0 - group["lr"] * group["weight_decay"])
                weight.add_(direction, alpha=-group["lr"] * math.sqrt(max(shape)))

    def _update_others(self, group: dict[str, Any]) -> None:
        parameters = [p for p in group["params"] if p.grad is not None]
        for parameter in parameters:
            state = self.state[parameter]
            if not state:
                state["step"] = torch.zeros((), dtype=torch.float32, device=parameter.device)
                state["exp_avg"] = torch.zeros_like(parameter)
                state["exp_avg_sq"] = torch.zeros_like(parameter)
        states = [self.state[p] for p in parameters]
        adamw(
            parameters,
            [p.grad for p in parameters],
            [state["exp_avg"] for state in states],
            [state["exp_avg_sq"] for state in states],
            [],
            [state["step"] for state in states],
            fused=all(p.device.type in ("cpu", "cuda") for p in parameters),
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )
