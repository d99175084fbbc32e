"""What learns: the model, its optimizer, the average of its weights, and the number format of its products.

Contract: a `Learner` is made from the seed, or takes over what `state` gave for a checkpoint. Its model's
tensors keep their names and ties, whatever is done with it.

Not in here: how a gradient is made (`mt.training.step`), and the files (`mt.training.snapshots`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from mt.config.schema import Initialization, Precision, Shard, TrainConfig
from mt.data.preparation import Prepared
from mt.errors import CheckpointError, ConfigError
from mt.kernels.linear import set_precision
from mt.models import storage
from mt.models.build import build_model
from mt.models.room import move
from mt.models.seq2seq import Seq2Seq
from mt.training import checkpoint, sharding
from mt.training.averaging import Ema
from mt.training.checkpoint import Checkpoint
from mt.training.device import choose_precision
from mt.training.distributed import World
from mt.training.lexical_init import initialize_lexically
from mt.training.optimizer import Updater
from mt.training.randomness import seed_weights
from mt.training.state import Progress

# What stands beside the moving average in a checkpoint: the weights as trained.
_TRAINED = "weights."


class Learner:
    """Model, optimizer, moving average and loss scale of one process.

    Args:
        progress: the counters that came with `start`.
        start: the checkpoint to go on from; None begins with the seed.
        world: the processes of the run, which all begin with the first one's weights, and this one's device.

    Raises:
        CheckpointError: `start` holds another model's weights or state.
    """

    def __init__(
        self,
        config: TrainConfig,
        prepared: Prepared,
        progress: Progress,
        start: Checkpoint | None,
        world: World,
    ) -> None:
        training = config.training
        self.device, self._first = world.device, world.first
        self.sharded = training.shard is Shard.fsdp
        self._config, self._tokenizer = config, prepared.tokenizer
        seed_weights(config.seed)
        self.model = self._build()
        if not self.sharded:
            move(self.model, self.device)
        if start is None and config.model.initialization is Initialization.lexical:
            initialize_lexically(self.model, prepared.train, config.seed)
        if start is not None:
            storage.load_tensors(self.model, start.model(), start.folder / checkpoint.MODEL)
        world.share_weights(self.model)
        if self.sharded:  # only now onto the device, which may not have room for the whole
            sharding.shard(self.model, world)
        self.updater = Updater(self.model, config.optimizer)
        self.ema = Ema(self.model, training.ema_decay) if training.ema_decay > 0 else None
        self.precision = choose_precision(training.precision, self.device)
        fp16 = self.precision is Precision.fp16
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=fp16)
        if start is not None:
            self._restore(start, progress)
        self._set_precision(self.precision)
        if training.compile:
            compile_layers(self.model)

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        """While inside, the model has the weights that count: the moving average if there is one."""
        with self.ema.applied() if self.ema is not None else contextlib.nullcontext():
            yield

    @contextlib.contextmanager
    def with_weights(self, tensors: Mapping[str, Tensor], origin: Path) -> Iterator[None]:
        """While inside, the model has these weights; `origin` names them in messages.

        Raises:
            CheckpointError: they are another model's.
        """
        parameters = dict(self.model.named_parameters())
        own = {name: sharding.local(p.detach()).clone() for name, p in parameters.items()}
        self._assign(tensors, origin)
        try:
            yield
        finally:
            with torch.no_grad():
                for name, parameter in parameters.items():
                    sharding.local(parameter).copy_(own[name])

    @contextlib.contextmanager
    def evaluated(self) -> Iterator[Seq2Seq]:
        """The model as `mt.evaluate` has it: whole, with fp32 products; on all processes at once."""
        if self.sharded:
            yield self._whole_model()
            return
        self._set_precision(Precision.fp32)
        try:
            yield self.model
        finally:
            self._set_precision(self.precision)

    def weights(self) -> dict[str, Tensor]:
        """The weights that the model has now, by name: its own tensors, to be read before they change.

        Of a model in parts the first process gets whole tensors, on the CPU, and the others none; all of them
        have to ask.
        """
        if not self.sharded:
            return storage.tensors_of(self.model)
        return self._whole(dict(self.model.named_parameters()))

    def state(self) -> dict[str, Tensor]:
        """What a checkpoint holds beside the weights that count, by name; see `weights`."""
        tensors = self.updater.tensors()
        if self.ema is not None:
            # The checkpoint's model is the one that was validated; the weights as trained stand beside it.
            trained = self.model.named_parameters()
            tensors.update({f"{_TRAINED}{name}": t.detach().clone() for name, t in trained})
        return self._whole(tensors) if self.sharded else tensors

    def _build(self) -> Seq2Seq:
        """A model of the configuration's kind, on the CPU."""
        config, tokenizer = self._config, self._tokenizer
        return build_model(config.model, config.attention, tokenizer.source_size, tokenizer.target_size)

    def _whole_model(self) -> Seq2Seq:
        """A copy in one part, of the weights that the model has now."""
        with torch.random.fork_rng(devices=[]):
            model = self._build().to(self.device)
        own = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                parameter.copy_(sharding.whole(own[name].detach()))
        return model

    def _whole(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Tensors in one part, on the CPU, one after the other; only the first process keeps them."""
        found: dict[str, Tensor] = {}
        for name, tensor in tensors.items():
            complete = sharding.whole(tensor.detach())
            if self._first:
                found[name] = complete.cpu()
        return found

    def _assign(self, tensors: Mapping[str, Tensor], origin: Path) -> None:
        """Give the model these weights, which `origin` holds."""
        parameters = dict(self.model.named_parameters())
        if parameters.keys() != tensors.keys():
            raise CheckpointError(f"{origin}: the weights there are not the model's")
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(sharding.part_of(tensors[name], parameter))

    def _restore(self, start: Checkpoint, progress: Progress) -> None:
        """Everything but the weights that count, which the model has, and the average with it."""
        tensors = start.optimizer()
        if self.ema is not None:
            trained = {n.removeprefix(_TRAINED): t for n, t in tensors.items() if n.startswith(_TRAINED)}
            self._assign(trained, start.folder / checkpoint.OPTIMIZER)
        self.updater.load({n: t for n, t in tensors.items() if not n.startswith(_TRAINED)})
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(progress.scaler)

    def _set_precision(self, precision: Precision) -> None:
        """bf16 on the CPU rounds the inputs of the matrix products; CUDA has autocast instead."""
        set_precision(self.model, precision if self.device.type == "cpu" else Precision.fp32)


def compile_layers(model: nn.Module) -> None:
    """torch.compile every layer of encoder and decoder, in place (names of weights stay as they are).

    Raises:
        ConfigError: the model has no such layers.
    """
    stacks = [
        stack for name in ("encoder", "decoder") if isinstance(stack := getattr(model, name, None), nn.Module)
    ]
    if not stacks:
        raise ConfigError(["training.compile=true: this model has no encoder and decoder to compile"])
    for stack in stacks:
        for layer in stack if isinstance(stack, nn.ModuleList) else [stack]:
            # Lengths differ from batch to batch: without `dynamic` each would be compiled anew.
            layer.compile(dynamic=True)
