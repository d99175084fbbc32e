"""Is this configuration possible? Ranges of single options, and relations between several.

Contract: `problems` and `warnings` look at nothing but the configuration itself, and report all they
find, one sentence each; `missing_files` is the one check that looks at the disk. What depends on the
data or the machine (vocabulary against alphabet, memory, which devices exist) is checked in the rooms
that know, before they start work.
"""

from __future__ import annotations

import copy
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mt.config.fields import Option, assign, options, show, value_of
from mt.config.schema import (
    AttentionConfig,
    CompareConfig,
    CorpusKind,
    DataConfig,
    DecodingConfig,
    DecodingOverrides,
    EvaluateConfig,
    Feed,
    Initialization,
    ModelConfig,
    ModelKind,
    OptimizerConfig,
    OptimizerKind,
    OutputFormat,
    Positions,
    Precision,
    ScheduleKind,
    ScopeKind,
    ScoreKind,
    Shard,
    Start,
    StateIndex,
    TieEmbeddings,
    TrainConfig,
    TranslateConfig,
)

Config = TrainConfig | TranslateConfig | EvaluateConfig | CompareConfig

_FOLDERS = ("run", "resume", "sweep_folder", "data.root", "data_root")
# Options that are typed by another name than they have.
_TYPED = {"sweep_folder": "sweep"}
# PAD, BOS, EOS and UNK, then one piece for each byte.
_FIXED_PIECES = 4 + 256
# A budget for fewer updates than these is probably not meant.
_FEW_UPDATES = 10


@dataclass(frozen=True)
class Problem:
    """What is wrong (or doubtful), and the options it is about."""

    keys: tuple[str, ...]
    message: str


def problems(config: Config) -> list[str]:
    """Everything that makes a configuration impossible, one sentence per problem; [] when it is fine."""
    return [problem.message for problem in find_problems(config)]


def warnings(config: Config) -> list[str]:
    """What is legal, but probably not meant."""
    return [problem.message for problem in _doubts(config)]


def find_problems(config: Config) -> list[Problem]:
    """`problems`, with the options each of them is about."""
    found = list(_out_of_range(config))
    bad = {key for problem in found for key in problem.keys}
    sound = copy.deepcopy(config)
    for key in bad:
        assign(sound, key, options(type(config))[key].default)
    # A relation to a value that is itself impossible would only repeat the first complaint.
    return found + [problem for problem in _relations(sound) if not bad & set(problem.keys)]


def _out_of_range(config: Config) -> Iterator[Problem]:
    for key, option in options(type(config)).items():
        value = value_of(config, key)
        for item in value if isinstance(value, list) else [value]:
            fault = range_fault(option, item)
            if fault:
                yield Problem((key,), f"{_TYPED.get(key, key)}={show(value)}: {fault}")


def range_fault(option: Option, value: Any) -> str | None:
    """Why a value of the right type is impossible for an option by itself; None when it is possible."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"must be a finite number {option.range}".rstrip()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return None if option.inside(value) else f"must be {option.range}"
    return _text_fault(value) if isinstance(value, str) else None


def _text_fault(text: str) -> str | None:
    if not text.strip():
        return "is empty; leave it out or give a value"
    if "\0" in text:
        return "holds a NUL character"
    if "${" in text:
        return "holds '${', which is kept for interpolations"
    if any(0xD800 <= ord(character) <= 0xDFFF for character in text):
        return "is not valid UTF-8; rename the file"
    if text in ("True", "False"):
        return "is a truth value where text belongs; in YAML put no, yes, on, off into quotes ('no')"
    return None


def _relations(config: Config) -> Iterator[Problem]:
    yield from _device(config.device)
    if isinstance(config, TrainConfig):
        if config.resume is None:
            yield from _data(config.data)
            yield from _budget(config)
        elif config.run is not None:
            yield Problem(
                ("run", "resume"),
                f"run={config.run} and resume={config.resume}: a resumed run stays in its own folder; "
                "give only one of the two",
            )
        yield from _sizes(config)
        yield from _kind(config)
        yield from _attention(config.attention)
        yield from _optimizer(config.optimizer)
        yield from _loop(config)
        yield from _decoding(config.decoding)
    elif isinstance(config, TranslateConfig):
        yield from _decoding(config.decoding)
        yield from _translate(config)
    elif isinstance(config, EvaluateConfig):
        yield from _decoding(config.decoding)
        yield from _evaluate(config)
    else:
        yield from _decoding(config.decoding)
        yield from _compare(config)


def _device(device: str) -> Iterator[Problem]:
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]{1,4})?", device):
        yield Problem(
            ("device",), f"device={device}: must be auto, cpu, cuda or cuda:N (cuda:0 is the first)"
        )


def _data(data: DataConfig) -> Iterator[Problem]:
    if data.source == data.target:
        yield Problem(
            ("data.source", "data.target"),
            f"data.source={data.source} and data.target={data.target}: must be two different languages",
        )
    for key in ("source", "target"):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", getattr(data, key)):
            yield Problem(
                (f"data.{key}",),
                f"data.{key}={getattr(data, key)}: must be a language code such as en, pt-BR or zh_Hant",
            )
    paths = [f"{split}_{side}" for split in ("train", "valid", "test") for side in ("source", "target")]
    if data.kind is CorpusKind.files:
        yield from _unread("data.root", data.root, "data.kind=files (it is for known corpora)")
        absent = [f"data.{name}" for name in paths[:4] if getattr(data, name) is None]
        if absent:
            yield Problem(
                tuple(absent),
                f"{', '.join(absent)} must be given: data=files trains on your own text, e.g. "
                f"data.{paths[0]}=corpus/train.{data.source} data.{paths[1]}=corpus/train.{data.target}; "
                "or take a known corpus: data=demo, data=multi30k (see also experiment=multi30k_fr_en)",
            )
        if (data.test_source is None) != (data.test_target is None):
            given, other = (
                ("test_source", "test_target") if data.test_source else ("test_target", "test_source")
            )
            yield Problem(
                ("data.test_source", "data.test_target"),
                f"data.{given}={getattr(data, given)} needs its other side, data.{other}",
            )
    else:
        unread = {f"data.{name}": getattr(data, name) for name in paths}
        unread = {key: path for key, path in unread.items() if path is not None}
        if unread:
            words = ", ".join(f"{key}={path}" for key, path in unread.items())
            verb = "is" if len(unread) == 1 else "are"
            yield Problem(
                tuple(unread), f"{words} {verb} not read with data.kind={data.kind.name}; add data=files"
            )


def _unread(key: str, value: Any, where: str, default: Any = None) -> Iterator[Problem]:
    """An option that was set although nothing reads it; `where` may end with what to take instead."""
    if value != default:
        way_out = ", or leave it out" if "; take " in where else "; leave it out"
        yield Problem((key,), f"{key}={show(value)} is not read with {where}{way_out}")


def _budget(config: TrainConfig) -> Iterator[Problem]:
    budgets = ("training.max_steps", "training.max_epochs", "training.max_tokens", "training.max_minutes")
    if all(value_of(config, key) is None for key in budgets):
        yield Problem(budgets, f"training would never end: give at least one of {', '.join(budgets)}")


def _sizes(config: TrainConfig) -> Iterator[Problem]:
    model, tokenizer = config.model, config.tokenizer
    if model.kind is ModelKind.rnn:
        yield from _rnn_sizes(model, config.attention)
    else:
        yield from _transformer_sizes(model)
    if model.tie_embeddings is TieEmbeddings.all and not tokenizer.joint:
        yield Problem(
            ("model.tie_embeddings", "tokenizer.joint"),
            "model.tie_embeddings=all needs one vocabulary for both languages, but tokenizer.joint=false; "
            "take model.tie_embeddings=decoder or tokenizer.joint=true",
        )
    if tokenizer.byte_fallback and tokenizer.vocab_size <= _FIXED_PIECES:
        yield Problem(
            ("tokenizer.vocab_size", "tokenizer.byte_fallback"),
            f"tokenizer.vocab_size={tokenizer.vocab_size} has no room beside the {_FIXED_PIECES} pieces of "
            "tokenizer.byte_fallback=true; take a larger vocabulary or tokenizer.byte_fallback=false",
        )


def _transformer_sizes(model: ModelConfig) -> Iterator[Problem]:
    sizes = f"model.width={model.width}"
    if model.width % model.heads:
        yield Problem(
            ("model.width", "model.heads"), f"{sizes} is not divisible by model.heads={model.heads}"
        )
    elif model.positions is Positions.rotary and (model.width // model.heads) % 2:
        yield Problem(
            ("model.width", "model.heads", "model.positions"),
            f"{sizes} with model.heads={model.heads} gives heads of {model.width // model.heads}, but "
            "model.positions=rotary turns pairs and needs an even number",
        )
    if model.positions is Positions.sinusoidal and model.width % 2:
        yield Problem(
            ("model.width", "model.positions"),
            f"{sizes} is odd, but model.positions=sinusoidal pairs sines and cosines: take an even width",
        )


def _rnn_sizes(model: ModelConfig, attention: AttentionConfig) -> Iterator[Problem]:
    rnn = model.rnn
    memory = (2 if rnn.bidirectional else 1) * (rnn.encoder_width or model.width)
    score = attention.cross or attention.score
    if score in (ScoreKind.dot, ScoreKind.scaled_dot) and memory != model.width:
        yield Problem(
            ("attention.cross", "attention.score", "model.width", "model.rnn.encoder_width"),
            f"the score {score.name} multiplies a decoder state by a source state, but one has {model.width} "
            f"values (model.width) and the other {memory} (model.rnn.encoder_width"
            f"{', times 2 for both directions' if rnn.bidirectional else ''}); make them equal, or take a "
            "score with a matrix between them: attention=general or attention=additive",
        )
    embedding = rnn.embedding_width or model.width
    readout = rnn.readout_width or model.width
    if model.tie_embeddings is not TieEmbeddings.none and embedding != readout:
        yield Problem(
            ("model.tie_embeddings", "model.rnn.embedding_width", "model.rnn.readout_width", "model.width"),
            f"model.tie_embeddings={model.tie_embeddings.name} makes the target embedding the output layer, "
            f"but an embedding has {embedding} values and a readout {readout}; make them equal, or take "
            "model.tie_embeddings=none",
        )
    if rnn.bidirectional and rnn.reverse_source:
        yield Problem(
            ("model.rnn.bidirectional", "model.rnn.reverse_source"),
            "model.rnn.reverse_source=true changes nothing where model.rnn.bidirectional=true reads both "
            "ways; give one of the two",
        )
    if rnn.feed is Feed.context_in_gates and rnn.query is StateIndex.current:
        yield Problem(
            ("model.rnn.feed", "model.rnn.query"),
            "model.rnn.feed=context_in_gates needs the context before the current state is known, but "
            "model.rnn.query=current asks with that state; take model.rnn.query=previous",
        )
    like = memory == model.width and model.encoder_layers == model.decoder_layers
    if rnn.start is Start.copy and not like:
        yield Problem(
            (
                "model.rnn.start",
                "model.rnn.encoder_width",
                "model.width",
                "model.encoder_layers",
                "model.decoder_layers",
            ),
            f"model.rnn.start=copy needs states of like size: the encoder has {model.encoder_layers} layers "
            f"of {memory} (directions joined), the decoder {model.decoder_layers} of {model.width}; "
            "take model.rnn.start=project",
        )


# Options of `model` that only one kind reads.
_TRANSFORMER_ONLY = ("heads", "ffn_width", "norm", "activation", "positions", "activation_dropout")
_RNN_INITIALIZATIONS = (Initialization.bahdanau2015, Initialization.luong2015)


def _kind(config: TrainConfig) -> Iterator[Problem]:
    """Options that the chosen kind of model does not read."""
    model, leaves = config.model, options(TrainConfig)
    where = f"model.kind={model.kind.name}"
    if model.kind is ModelKind.rnn:
        unread = [f"model.{name}" for name in _TRANSFORMER_ONLY]
        unread += ["attention.encoder", "attention.decoder", "attention.heads"]
        strange = model.initialization is Initialization.lexical
        yield from _unread("training.compile", config.training.compile, where, default=False)
    else:
        unread = [key for key in leaves if key.startswith("model.rnn.")]
        strange = model.initialization in _RNN_INITIALIZATIONS
    for key in unread:
        yield from _unread(key, value_of(config, key), where, leaves[key].default)
    if model.kind is ModelKind.rnn and (config.attention.cross or config.attention.score) is ScoreKind.none:
        where = "model.kind=rnn and attention.score=none (there is no attention)"
        for key in ("attention.scope", "model.attention_dropout"):
            yield from _unread(key, value_of(config, key), where, leaves[key].default)
    if strange:
        yield Problem(
            ("model.initialization", "model.kind"),
            f"model.initialization={model.initialization.name} is not for {where}; take random"
            + ("" if model.kind is ModelKind.transformer else ", bahdanau2015 or luong2015"),
        )


# Options of `optimizer` that only some rules read, and those rules.
_ADAMS = (OptimizerKind.adam, OptimizerKind.adamw, OptimizerKind.muon)
_READ_BY = {
    "beta1": _ADAMS,
    "beta2": _ADAMS,
    "rho": (OptimizerKind.adadelta,),
    "eps": (*_ADAMS, OptimizerKind.adadelta),
    "matrix_lr": (OptimizerKind.muon,),
    "momentum": (OptimizerKind.muon,),
    "newton_schulz": (OptimizerKind.muon,),
}


def _attention(config: AttentionConfig) -> Iterator[Problem]:
    used = {config.encoder, config.decoder, config.cross}
    used = (used - {None}) | ({config.score} if None in used else set())
    if not used & {ScoreKind.additive, ScoreKind.concat}:
        yield from _unread(
            "attention.hidden", config.hidden, "any score but additive and concat; take attention=additive"
        )
    if config.scope is ScopeKind["global"]:
        yield from _unread(
            "attention.window",
            config.window,
            "attention.scope=global; take attention.scope=local_m or local_p",
            default=options(TrainConfig)["attention.window"].default,
        )


def _optimizer(config: OptimizerConfig) -> Iterator[Problem]:
    for name, kinds in _READ_BY.items():
        if config.kind not in kinds:
            ways = " or ".join(kind.name for kind in kinds)
            where = f"optimizer.kind={config.kind.name}; take optimizer={ways}"
            default = options(TrainConfig)[f"optimizer.{name}"].default
            yield from _unread(f"optimizer.{name}", getattr(config, name), where, default)


def _loop(config: TrainConfig) -> Iterator[Problem]:
    training, schedule = config.training, config.schedule
    if training.precision is Precision.fp16 and config.device == "cpu":
        yield Problem(
            ("training.precision", "device"),
            "training.precision=fp16 works on CUDA only, but device=cpu; take fp32 or bf16",
        )
    if training.shard is Shard.fsdp:
        yield from _sharded(config)
    if schedule.kind is ScheduleKind.noam and schedule.warmup_steps < 1:
        yield Problem(
            ("schedule.kind", "schedule.warmup_steps"),
            f"schedule.kind=noam divides by the warm-up: schedule.warmup_steps={schedule.warmup_steps} "
            "must be >= 1",
        )
    if schedule.kind not in (ScheduleKind.linear, ScheduleKind.cosine):
        yield from _unread(
            "schedule.final_ratio", schedule.final_ratio, f"schedule.kind={schedule.kind.name}", default=0.0
        )
    if schedule.kind is not ScheduleKind.halving:
        yield from _unread(
            "schedule.halve_after_epochs",
            schedule.halve_after_epochs,
            f"schedule.kind={schedule.kind.name}",
            default=options(TrainConfig)["schedule.halve_after_epochs"].default,
        )
    if training.validate_every_steps is not None:
        yield from _unread(
            "training.validate_every_epochs",
            training.validate_every_epochs,
            f"training.validate_every_steps={training.validate_every_steps}",
            default=1.0,
        )


def _sharded(config: TrainConfig) -> Iterator[Problem]:
    """What does not go together with a model in parts."""
    for key, refused, way_out in (
        ("optimizer.kind", config.optimizer.kind is OptimizerKind.muon, "updates whole matrices; take adamw"),
        ("training.precision", config.training.precision is Precision.fp16, "scales its loss; take bf16"),
        ("training.compile", config.training.compile, "compiles whole layers; leave it out"),
    ):
        if refused:
            value = show(value_of(config, key))
            yield Problem(
                ("training.shard", key),
                f"training.shard=fsdp gives each process a part of every matrix, but {key}={value} {way_out}",
            )


def _decoding(decoding: DecodingConfig | DecodingOverrides) -> Iterator[Problem]:
    beam, n_best = decoding.beam, decoding.n_best
    if beam is not None and n_best is not None and n_best > beam:
        yield Problem(
            ("decoding.n_best", "decoding.beam"),
            f"decoding.n_best={n_best} is more than decoding.beam={beam}: a beam holds no more than its "
            "size; raise the beam",
        )
    ratio, extra = decoding.max_length_ratio, decoding.max_length_extra
    if ratio == 0 and extra == 0:
        yield Problem(
            ("decoding.max_length_ratio", "decoding.max_length_extra"),
            "decoding.max_length_ratio=0 with decoding.max_length_extra=0 allows no output at all; "
            "raise one of the two",
        )


def _translate(config: TranslateConfig) -> Iterator[Problem]:
    n_best = config.decoding.n_best
    if config.format is OutputFormat.text and n_best is not None and n_best > 1:
        yield Problem(
            ("decoding.n_best", "format"),
            f"decoding.n_best={n_best} is not read with format=text (one line a sentence); take format=jsonl",
        )
    shown = bool(config.alignments) or any(file.lower().endswith(".png") for file in config.heatmap)
    for key in ("layer", "head"):
        value = getattr(config, key)
        if not re.fullmatch("mean|all|[1-9][0-9]*", value):
            yield Problem((key,), f"{key}={value}: must be mean, all, or a number from 1")
        elif not shown:
            yield from _unread(key, value, "neither alignments=FILE nor heatmap=FILE.png", "mean")
    if config.input not in (None, "-") and config.output == config.input:
        yield Problem(
            ("input", "output"), f"output={config.output} is the input file itself; give another name"
        )


def _evaluate(config: EvaluateConfig) -> Iterator[Problem]:
    if config.hypothesis is not None:
        where = f"hypothesis={config.hypothesis} (nothing is translated)"
        for key in ("run", "checkpoint", "test_sets", "data_root", "source", "alignments", "translations"):
            yield from _unread(key, getattr(config, key), where)
        for key in options(DecodingOverrides):
            yield from _unread(f"decoding.{key}", getattr(config.decoding, key), where)
    elif config.source is not None:
        where = f"source={config.source}"
        for key in ("test_sets", "data_root"):
            yield from _unread(key, getattr(config, key), where)
    elif config.reference:
        yield Problem(
            ("reference", "source", "hypothesis"),
            f"reference={show(config.reference)} needs the text it belongs to: source=FILE to translate, or "
            "hypothesis=FILE to score",
        )
    for key in ("hypothesis", "source"):
        if getattr(config, key) is not None and not config.reference:
            yield Problem(
                (key, "reference"), f"{key}={getattr(config, key)} needs reference=FILE to be scored against"
            )


def _compare(config: CompareConfig) -> Iterator[Problem]:
    if not config.run and config.sweep_folder is None:
        yield Problem(
            ("run", "sweep_folder"),
            "nothing to compare: name run folders (python -m mt.compare runs/A runs/B), or a sweep with "
            "sweep=DIR",
        )
    if config.run and config.sweep_folder is not None:
        yield Problem(
            ("run", "sweep_folder"),
            f"run folders and sweep={config.sweep_folder}: give only one of the two",
        )
    if config.source is not None:
        for key in ("test_set", "data_root"):
            yield from _unread(key, getattr(config, key), f"source={config.source}")
        if not config.reference:
            yield Problem(
                ("source", "reference"), f"source={config.source} needs reference=FILE to be scored against"
            )
    elif config.reference:
        yield Problem(
            ("reference", "source"),
            f"reference={show(config.reference)} needs the text it belongs to: source=FILE",
        )
    if config.report is not None and not config.report.lower().endswith((".html", ".htm")):
        yield Problem(("report",), f"report={config.report}: is an HTML page; name it something.html")
    if config.report is None:
        for key in ("examples", "maps"):
            default = options(CompareConfig)[key].default
            yield from _unread(key, getattr(config, key), "report=null (they are parts of it)", default)


def missing_files(config: Config) -> list[Problem]:
    """Inputs that a configuration names and that are not there.

    Relative paths mean the current directory.
    """
    if isinstance(config, TrainConfig):
        keys = ["resume"]
        if config.resume is None:
            keys += [k for k, o in options(TrainConfig).items() if o.path and k.startswith("data.")]
            keys.remove("data.cache")
    elif isinstance(config, TranslateConfig):
        keys = ["run", "checkpoint", "tokenizer_folder", "input"]
    elif isinstance(config, EvaluateConfig):
        keys = ["run", "checkpoint", "data_root", "source", "reference", "alignments", "hypothesis"]
    else:
        keys = ["run", "sweep_folder", "data_root", "source", "reference", "alignments"]
    found: list[Problem] = []
    for key in keys:
        value = value_of(config, key)
        for path in value if isinstance(value, list) else [value]:
            if path is None or _text_fault(path) is not None:  # none, or complained about already
                continue
            if (key == "input" and path == "-") or os.path.exists(path):
                continue
            if key == "checkpoint" and not isinstance(config, CompareConfig) and _inside_run(config, path):
                continue
            kind = (
                "folder"
                if key in ("run", "resume", "sweep_folder", "data.root", "data_root")
                else "file or folder"
            )
            place = "" if os.path.isabs(path) else f" (relative to {os.getcwd()})"
            found.append(Problem((key,), f"{_as_typed(config, key, path)}: no such {kind}{place}"))
    return found


def _as_typed(config: Config, key: str, path: str) -> str:
    """A path with its option, as `mt.compare` lets it be typed: ``sweep=DIR``, and run folders bare."""
    if isinstance(config, CompareConfig) and key == "run":
        return path
    return f"{_TYPED.get(key, key)}={path}"


def _inside_run(config: TrainConfig | TranslateConfig | EvaluateConfig, checkpoint: str) -> bool:
    """A checkpoint may be given by its name in the run folder, or by a path."""
    run = config.run
    places = (
        [] if run is None else [os.path.join(run, checkpoint), os.path.join(run, "checkpoints", checkpoint)]
    )
    return (run is None and os.sep not in checkpoint) or any(os.path.exists(place) for place in places)


def _doubts(config: Config) -> Iterator[Problem]:
    if not isinstance(config, TrainConfig):
        return
    data, model, schedule, training = config.data, config.model, config.schedule, config.training
    if data.max_length + 1 > model.max_positions:
        yield Problem(
            ("data.max_length", "model.max_positions"),
            f"data.max_length={data.max_length} and the end of sentence do not fit into "
            f"model.max_positions={model.max_positions}: the limit is {model.max_positions - 1} pieces",
        )
    if training.max_steps is not None and schedule.warmup_steps > training.max_steps:
        yield Problem(
            ("schedule.warmup_steps", "training.max_steps"),
            f"schedule.warmup_steps={schedule.warmup_steps} is more than "
            f"training.max_steps={training.max_steps}: the peak rate is never reached",
        )
    # Elsewhere max_tokens is the size of a batch.
    update = training.batch_tokens * training.accumulate
    if training.max_tokens is not None and training.max_tokens < _FEW_UPDATES * update:
        yield Problem(
            ("training.max_tokens", "training.batch_tokens", "training.accumulate"),
            f"training.max_tokens={training.max_tokens} ends the run after a few updates of up to {update} "
            "tokens; the size of a batch is training.batch_tokens",
        )
    if schedule.kind is ScheduleKind.noam and config.optimizer.lr < 0.05:
        yield Problem(
            ("optimizer.lr", "schedule.kind"),
            f"optimizer.lr={config.optimizer.lr:g} is a factor on the formula of schedule.kind=noam, so that "
            "the peak rate becomes tiny; schedule=noam sets it to 1",
        )
