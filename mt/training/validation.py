"""How good the model is on the validation set: loss on the pairs that fit, BLEU of real translations.

Contract: BLEU comes from the same `Translator` and the same metric as `mt.evaluate`, on untouched
references, with as many hypotheses as references: a source that is too long for the model is cut, never
left out. The loss needs both sides as they are, so pairs that are too long for the model are left out of
it (`prepare` counts them).

Not in here: when to validate and what follows from it (`mt.training.trainer`).

Shapes: B sentences, S source length, T target length, H heads, L layers.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from mt.config.schema import TrainConfig, ValidMetric
from mt.data.batches import Indices, collate
from mt.data.lines import counted
from mt.data.preparation import Prepared
from mt.data.tokenizer import BOS, EOS
from mt.decoding.translator import Translator
from mt.errors import DataError
from mt.evaluation.metrics import corpus_bleu
from mt.models.seq2seq import Seq2Seq
from mt.training.distributed import World
from mt.training.loss import label_smoothed_loss
from mt.training.tracking import AttentionMap, Sample

logger = logging.getLogger("mt.training.validation")

_SAMPLED = 16  # a forecast looks at one of so many sentences


@dataclass(frozen=True)
class Validation:
    """One look at the validation set.

    Attributes:
        loss: label-smoothed loss per target token; None when no pair fits the model.
        nll: negative log-likelihood per target token, in nats; likewise.
        bleu: sacreBLEU of the translations, 0 to 100.
        translations: one per decoded sentence, in order.
    """

    loss: float | None
    nll: float | None
    bleu: float
    translations: list[str]

    def metrics(self) -> dict[str, float]:
        """The numbers that are recorded: those that there are."""
        if self.loss is None or self.nll is None:
            return {"bleu": self.bleu}
        return {"loss": self.loss, "nll": self.nll, "perplexity": perplexity(self.nll), "bleu": self.bleu}


class Validator:
    """The validation set of a run, ready to be asked many times.

    Args:
        tokens: pairs of this many target positions, padding included, are scored together.
        world: the processes that share the work.
        breakable: stands around what a signal may break off.

    Raises:
        DataError: no pair fits the model although the loss decides which checkpoint is best.
    """

    def __init__(
        self,
        config: TrainConfig,
        prepared: Prepared,
        device: torch.device,
        tokens: int,
        world: World | None = None,
        breakable: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext,
    ) -> None:
        self.config = config
        self._breakable = breakable
        self.world = world or World()
        self.prepared = prepared
        self.device = device
        limit = config.training.valid_max_sentences
        self.sources: Sequence[str] = prepared.valid_source_lines[:limit]
        self.references: Sequence[str] = prepared.valid_target_lines[:limit]
        self._warned_cut = False
        self.batches = batches_of_like_length(
            prepared.valid.source_lengths, prepared.valid.target_lengths, tokens
        )
        if not self.batches and config.training.valid_metric is ValidMetric.loss:
            raise DataError(
                f"training.valid_metric=loss, but no validation pair fits "
                f"model.max_positions={config.model.max_positions}"
            )

    def validate(self, model: Seq2Seq) -> Validation:
        """Loss and BLEU of `model`, whose mode (training or not) is restored.

        The ranks share the batches and the sentences; each gets the whole result.

        Raises:
            Halted: a signal broke it off, on any rank.
        """
        rank, size = self.world.rank, self.world.size

        def own_part() -> tuple[list[float], list[str]]:
            with self._breakable():
                return (
                    self._losses(model, self.batches[rank::size]),
                    self._translate(model, self.sources[rank::size]),
                )

        with _evaluating(model):
            sums, texts = self.world.together(own_part)
        loss, nll, tokens = self.world.sums(sums)
        translations = [""] * len(self.sources)
        for other, part in enumerate(self.world.gather_texts(texts)):
            translations[other::size] = part
        bleu = corpus_bleu(translations, self.references)
        if not tokens:
            return Validation(None, None, bleu, translations)
        return Validation(loss / tokens, nll / tokens, bleu, translations)

    def forecast(self, model: Seq2Seq, clock: Callable[[], float]) -> float:
        """How many seconds `validate` would take, measured on every sixteenth sentence and batch.

        Searching a few sentences at a time costs more for each than searching all: rather too much. Every
        rank measures the same; the slowest one counts.
        """
        sources, batches = self.sources[::_SAMPLED], self.batches[_SAMPLED // 2 :: _SAMPLED] or self.batches
        with _evaluating(model):
            begin = clock()
            self._translate(model, sources)
            middle = clock()
            self._losses(model, batches)
            end = clock()
        searching = (middle - begin) * len(self.sources) / len(sources)
        seconds = searching + (end - middle) * len(self.batches) / max(1, len(batches))
        return max(row[0] for row in self.world.gather([seconds / self.world.size]))

    def samples(self, result: Validation, count: int) -> list[Sample]:
        """The first `count` sentences with their reference and translation."""
        shown = zip(self.sources, self.references, result.translations, strict=True)
        return [Sample(*three) for _, three in zip(range(count), shown, strict=False)]

    def attention_maps(self, model: Seq2Seq, samples: Sequence[Sample]) -> list[AttentionMap]:
        """Cross-attention of the model's last layer, averaged over its heads, at its translations."""
        tokenizer = self.prepared.tokenizer
        maps: list[AttentionMap] = []
        for number, sample in enumerate(samples, start=1):
            source = tokenizer.encode_source([sample.source])[0][: model.max_positions - 1]
            target = tokenizer.encode_target([sample.hypothesis])[0][: model.max_positions - 1]
            if not source or not target:
                continue
            source_row = torch.tensor([[*source, EOS]], device=self.device)
            target_row = torch.tensor([[BOS, *target]], device=self.device)
            weights = model.cross_attention(
                source_row, torch.ones_like(source_row, dtype=torch.bool), target_row
            )
            source_pieces = [*tokenizer.pieces(source, "source"), "</s>"]
            target_pieces = [*tokenizer.pieces(target, "target"), "</s>"]
            # Row t of the weights is from predicting piece t: (B=1, L, H, T, S) -> (T, S).
            maps.append(AttentionMap(str(number), weights[0, -1].mean(0), target_pieces, source_pieces))
        return maps

    @torch.no_grad()
    def _losses(self, model: Seq2Seq, batches: Sequence[Indices]) -> list[float]:
        """[smoothed loss, negative log-likelihood, target tokens], sums over the pairs of some batches."""
        loss = nll = 0.0
        tokens = 0
        for indices in batches:
            batch = collate(self.prepared.valid, indices).to(self.device)
            hidden = model(batch.source, batch.source_mask, batch.target_input, batch.target_mask)
            targets = batch.target_output[batch.target_mask]
            sums = label_smoothed_loss(
                hidden, model.output_weight, model.output_bias, targets, self.config.training.label_smoothing
            )
            loss += float(sums[0])
            nll += float(sums[1])
            tokens += batch.tokens
        return [loss, nll, tokens]

    def _translate(self, model: Seq2Seq, sources: Sequence[str]) -> list[str]:
        """One translation per source, in order."""
        options = replace(self.config.decoding, beam=self.config.training.valid_beam, n_best=1)
        translator = Translator(model, self.prepared.tokenizer, options, self.device)
        with _silent_translator():
            results = translator.translate(sources)
        cut = sum(result.source_cut for result in results)
        if cut and len(sources) == len(self.sources) and not self._warned_cut:
            self._warned_cut = True
            logger.warning("%s longer than the model allows, cut for BLEU", counted(cut, "validation source"))
        return [result.text for result in results]


@contextlib.contextmanager
def _evaluating(model: Seq2Seq) -> Iterator[None]:
    """While inside, the model is in evaluation mode."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


@contextlib.contextmanager
def _silent_translator() -> Iterator[None]:
    """Its warnings are for people who translate; here they would come again with every validation."""
    room = logging.getLogger("mt.decoding.translator")
    level = room.level
    room.setLevel(logging.ERROR)
    try:
        yield
    finally:
        room.setLevel(level)


def is_better(metric: ValidMetric, new: Mapping[str, float | None], old: Mapping[str, float | None]) -> bool:
    """Whether a validation's numbers are better than others'; what is not a number never is.

    Equal BLEU (0 for a while, at the beginning) is decided by the loss.
    """
    names = ["bleu", "loss"] if metric is ValidMetric.bleu else ["loss"]
    ours, theirs = ([_goodness(name, numbers.get(name)) for name in names] for numbers in (new, old))
    return ours[0] > -math.inf and ours > theirs


def _goodness(name: str, value: float | None) -> float:
    """A validation number as one where higher is better; minus infinity for what is not a number."""
    if value is None or not math.isfinite(value):
        return -math.inf
    return value if name == "bleu" else -value


def finite_or_none(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no NaN."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}


def perplexity(nll: float) -> float:
    """exp of a negative log-likelihood; infinite where that overflows."""
    return math.exp(nll) if nll < 700 else math.inf


def batches_of_like_length(
    source_lengths: npt.NDArray[np.integer], target_lengths: npt.NDArray[np.integer], tokens: int
) -> list[Indices]:
    """All pairs, cut into batches of pairs x longest side (with end of sentence) <= tokens.

    Unlike the training plan this one has no random order, and a pair beyond the token budget gets a batch
    of its own (fairseq#2998: one such pair ended the training).
    """
    longest = np.maximum(source_lengths, target_lengths) + 1
    order: Indices = np.lexsort((source_lengths, target_lengths, longest))
    batches: list[Indices] = []
    start = 0
    for end in range(1, len(order) + 1):
        # `longest` rises along the order, so the next pair decides the width of the batch.
        if end == len(order) or (end - start + 1) * longest[order[end]] > tokens:
            batches.append(order[start:end])
            start = end
    return batches
