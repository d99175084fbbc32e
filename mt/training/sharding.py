"""A model in parts: each process keeps its share of weights, gradients and moments (FSDP2).

Contract: `shard` cuts every parameter along its first axis; PyTorch gathers a layer's weights when they are
needed and adds up the gradients while the backward pass runs. Names and ties stay. `whole` and `part_of` go
from parts to whole tensors and back; tensors that are not cut pass through, so that the same code serves both
ways of training. Rajbhandari et al. 2020 ("ZeRO", stage 3); Zhao et al. 2023 ("PyTorch FSDP").

Every process has to gather and add up the same layers in the same order. So all make the same number of
passes, and one that is out of memory in the middle of a pass can begin it again only if all are.

Not in here: when a pass is made (`mt.training.step`), and what is stored (`mt.training.learner`).
"""

from __future__ import annotations

import contextlib

from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from mt.training.distributed import World, loss_noticed


def shard(model: nn.Module, world: World) -> None:
    """Cut a model's parameters into the processes' parts, in place, and move them to the device.

    Each layer of the Transformer's encoder and decoder is gathered on its own; what is around them (and a
    recurrent model, whose layers take turns at every step) with the model as a whole.

    Weights are gathered and gradients added up in fp32, in which they are kept: `training.precision` is the
    format of the products alone, as without parts.
    """
    mesh = init_device_mesh(world.device.type, (world.size,))
    layers = [
        layer
        for stack in (getattr(model, "encoder", None), getattr(model, "decoder", None))
        if isinstance(stack, nn.ModuleList)
        for layer in stack
    ]
    for module in (*layers, model):
        fully_shard(module, mesh=mesh)
        assert isinstance(module, FSDPModule)
        # The loss is divided by what all processes have together: gradients are added, not averaged.
        module.set_gradient_divide_factor(1.0)
        module.set_force_sum_reduction_for_comms(True)


def forget_pass(model: nn.Module) -> None:
    """Make a model that `shard` cut ready for another pass after one that failed."""
    assert isinstance(model, FSDPModule)
    with contextlib.suppress(AttributeError):  # it failed before the first layer's weights were gathered
        model.reset_iter_state()


def local(tensor: Tensor) -> Tensor:
    """This process's part, in the same memory."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """The whole tensor; where it is in parts, all processes have to ask for it."""
    if not isinstance(tensor, DTensor):
        return tensor
    with loss_noticed():
        return tensor.full_tensor()


def part_of(tensor: Tensor, like: Tensor) -> Tensor:
    """The part of a whole tensor that this process has of `like`, on its device and of its kind."""
    if not isinstance(like, DTensor):
        return tensor
    # Every process has the whole tensor: nothing needs to be sent.
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
