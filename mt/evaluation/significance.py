"""Could the difference between two systems be chance? sacreBLEU's own two paired tests.

Idea: both systems translated the same test set. Paired bootstrap resampling (Koehn 2004) asks how far the
difference would move on other test sets drawn from this one; approximate randomization (Riezler & Maxwell
2005) how often a difference as large comes about when each sentence's two translations are swapped by a
coin. The implementation, its seed (12345, or ``SACREBLEU_SEED``) and so every number are those of
``sacrebleu REF -i BASELINE SYSTEM -m bleu chrf --paired-bs`` (``--paired-ar``).

Where this departs: two systems that the metric cannot tell apart get p = 1. sacreBLEU counts resamples
that are *strictly* beyond the difference, of which a copy has none, and so calls it significant with
p = 1/(n+1).

Not in here: which systems are compared, and what follows from a p-value.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from mt.errors import DataError
from mt.files import write_whole

METRICS = ("bleu", "chrf")


@dataclass(frozen=True)
class Significance:
    """One metric's difference between a system and a baseline.

    Attributes:
        baseline, score: the two corpus scores, 0 to 100.
        bootstrap_p, randomization_p: probability, 0 to 1, of a difference as large if there is none.
        mean, interval: mean of the system's score over the bootstrap's test sets, and half the width of
            its 95 % interval.
        signatures: sacreBLEU's, of the bootstrap and of the randomization.
    """

    baseline: float
    score: float
    bootstrap_p: float
    randomization_p: float
    mean: float
    interval: float
    signatures: tuple[str, str]

    @property
    def difference(self) -> float:
        """System minus baseline."""
        return self.score - self.baseline


def paired_tests(
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    lowercase: bool = False,
    bootstrap_samples: int = 1000,
    randomization_trials: int = 10000,
) -> dict[str, Significance]:
    """Both tests for BLEU and chrF (keys of `METRICS`).

    Args:
        baseline, system: one translation per segment, in the same order.
        references: one list of lines per reference file, each as long.
        lowercase: ignore case, as in `mt.evaluation.metrics.score`.
        bootstrap_samples: test sets drawn.
        randomization_trials: times all sentences are swapped by a coin.

    Raises:
        DataError: the numbers of lines differ, or there is none.
    """
    counts = {len(baseline), len(system), *(len(lines) for lines in references)}
    if len(counts) != 1 or not baseline:
        raise DataError(
            f"a paired test needs the same segments from both systems, but there are {len(baseline)} and "
            f"{len(system)} translations for {', '.join(str(len(lines)) for lines in references)} references"
        )
    tests = {
        kind: _run(kind, size, baseline, system, references, lowercase)
        for kind, size in (("bs", bootstrap_samples), ("ar", randomization_trials))
    }
    found = {}
    for metric in METRICS:
        first, second, signature = tests["bs"][metric]
        _, swapped, swap_signature = tests["ar"][metric]
        difference = second.score - first.score
        found[metric] = Significance(
            baseline=float(first.score),
            score=float(second.score),
            bootstrap_p=_p_value(second.p_value, difference, bootstrap_samples),
            randomization_p=_p_value(swapped.p_value, difference, randomization_trials),
            mean=float(second.mean),
            interval=float(second.ci),
            signatures=(signature, swap_signature),
        )
    return found


def kept_paired_tests(
    folder: Path,
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[Sequence[str]],
    **sizes: Any,
) -> dict[str, Significance]:
    """`paired_tests`, which take seconds, from a file in `folder` named after the hash of all that they
    depend on, if there is one; it is written otherwise (where that is possible).
    """
    known = {**sizes, "sacrebleu": sacrebleu.__version__, "seed": os.environ.get("SACREBLEU_SEED")}
    digest = hashlib.sha256(json.dumps(known, sort_keys=True).encode("utf-8"))
    for lines in (baseline, system, *references):
        digest.update("".join(f"{line}\n" for line in [str(len(lines)), *lines]).encode("utf-8"))
    path = folder / f"paired-{digest.hexdigest()[:16]}.json"
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        content = json.loads(path.read_bytes())
        return {
            metric: Significance(**{**content[metric], "signatures": tuple(content[metric]["signatures"])})
            for metric in METRICS
        }
    found = paired_tests(baseline, system, references, **sizes)
    with contextlib.suppress(OSError):  # it would only have saved time
        folder.mkdir(exist_ok=True)
        text = json.dumps({metric: asdict(test) for metric, test in found.items()}, indent=1)
        write_whole(path, (text + "\n").encode("utf-8"))
    return found


def _run(
    kind: str,
    size: int,
    baseline: Sequence[str],
    system: Sequence[str],
    references: Sequence[Sequence[str]],
    lowercase: bool,
) -> dict[str, tuple[Any, Any, str]]:
    """sacreBLEU's results for baseline and system, and the signature, by metric."""
    metrics = {
        # `force` silences the hint about tokenized text, and has no part in the score.
        "BLEU": BLEU(lowercase=lowercase, force=True, references=references),
        "CHRF": CHRF(lowercase=lowercase, references=references),
    }
    test = PairedTest(
        [("baseline", list(baseline)), ("system", list(system))],
        metrics,
        references=None,
        test_type=kind,
        n_samples=size,
    )
    signatures, scores = test()
    names = {"bleu": "BLEU", "chrf": "chrF2"}
    found = {}
    for key, name in names.items():
        first, second = scores[name]
        found[key] = (first, second, str(signatures[name]))
    return found


def _p_value(found: float, difference: float, size: int) -> float:
    """sacreBLEU's p-value, but 1 where no resample made any difference at all."""
    indistinguishable = difference == 0.0 and found <= 1.0 / (size + 1)
    return 1.0 if indistinguishable else float(found)
