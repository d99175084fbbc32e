"""Every option of the application: its type, default, range and meaning.

Contract: these dataclasses are the whole configuration. Each field is declared with `option`, which
keeps its one-sentence description and its range beside the default; `mt.config.validate` checks the
ranges and the relations between fields, `mt.config.app` prints the descriptions in ``--help``.
Not in here: Hydra, YAML, and any behaviour.

The YAML files in ``conf/`` choose values; the defaults below are what an option means when no YAML
sets it.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from enum import Enum
from typing import Any, Optional


def option(
    default: Any,
    doc: str,
    *,
    gt: float | None = None,
    ge: float | None = None,
    lt: float | None = None,
    le: float | None = None,
    path: bool = False,
) -> Any:
    """A dataclass field with its description and its range (bounds as in mathematics: gt is ``>``).

    ``path`` marks a file or folder: a leading ``~/`` then means the user's home.
    """
    bounds = {"gt": gt, "ge": ge, "lt": lt, "le": le}
    metadata = {"doc": doc, "bounds": {name: b for name, b in bounds.items() if b is not None}, "path": path}
    if dataclasses.is_dataclass(default):
        return dataclasses.field(default_factory=default, metadata=metadata)  # type: ignore[arg-type]
    if isinstance(default, list):
        return dataclasses.field(default_factory=lambda: list(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


# Far beyond what anyone trains, and small enough that sizes can be multiplied and compared with the memory.
_LARGEST, _MOST = 2**20, 1000


class CorpusKind(Enum):
    """Where the parallel text comes from."""

    demo = "demo"
    multi30k = "multi30k"
    files = "files"


class InvalidUtf8(Enum):
    """What to do with bytes that are not UTF-8."""

    error = "error"
    replace = "replace"


class TokenizerModel(Enum):
    """SentencePiece's two algorithms."""

    unigram = "unigram"
    bpe = "bpe"


class Normalization(Enum):
    """What happens to text before it is cut into pieces."""

    none = "none"
    nfc = "nfc"
    nfkc = "nfkc"
    nmt_nfkc = "nmt_nfkc"
    nfkc_cf = "nfkc_cf"
    nmt_nfkc_cf = "nmt_nfkc_cf"


class ModelKind(Enum):
    """The family of the encoder–decoder."""

    transformer = "transformer"
    rnn = "rnn"


class Norm(Enum):
    """Where layer normalization stands: before each sublayer, or after the residual sum."""

    pre = "pre"
    post = "post"


class Initialization(Enum):
    """What a model knows before training."""

    random = "random"
    lexical = "lexical"
    bahdanau2015 = "bahdanau2015"
    luong2015 = "luong2015"


class Cell(Enum):
    """The recurrent cells."""

    gru = "gru"
    lstm = "lstm"


class Start(Enum):
    """Where a recurrent decoder's first state comes from."""

    project = "project"
    copy = "copy"


class StateIndex(Enum):
    """Which of a decoder's states is meant at position t: s_{t-1} or s_t."""

    previous = "previous"
    current = "current"


class Feed(Enum):
    """How what was attended to reaches a recurrent decoder's next state."""

    context_in_gates = "context_in_gates"
    input_feeding = "input_feeding"
    none = "none"


class Readout(Enum):
    """The layer between a recurrent decoder's state and the output layer."""

    maxout = "maxout"
    tanh = "tanh"
    linear = "linear"


class Positions(Enum):
    """How a position is told to the Transformer."""

    sinusoidal = "sinusoidal"
    learned = "learned"
    rotary = "rotary"


class Activation(Enum):
    """The nonlinearity of the feed-forward layers."""

    relu = "relu"
    gelu = "gelu"


class TieEmbeddings(Enum):
    """Which of source embedding, target embedding and output layer are one matrix."""

    all = "all"
    decoder = "decoder"
    none = "none"


class ScoreKind(Enum):
    """The score functions f(Q, K), with the names that their papers' authors lend them."""

    scaled_dot = "scaled_dot"
    dot = "dot"
    general = "general"
    scaled_general = "scaled_general"
    concat = "concat"
    additive = "additive"
    location = "location"
    none = "none"
    # Second names of the same members: Python resolves them wherever a name is read.
    bahdanau = "additive"
    luong = "general"
    luong_dot = "dot"
    luong_general = "general"
    luong_concat = "concat"
    luong_location = "location"


# Which source positions the cross-attention looks at (Luong et al. 2015, §3). `global` is a keyword of
# Python's, so that the class cannot be written with the word class: it is ScopeKind["global"].
ScopeKind = Enum("ScopeKind", {"global": "global", "local_m": "local_m", "local_p": "local_p"})


class Heads(Enum):
    """How the heads of an attention become one vector."""

    concatenated = "concatenated"
    summed = "summed"


class OptimizerKind(Enum):
    """The update rules."""

    adamw = "adamw"
    adam = "adam"
    muon = "muon"
    adadelta = "adadelta"
    sgd = "sgd"


class ScheduleKind(Enum):
    """How the learning rate moves after the warm-up."""

    constant = "constant"
    linear = "linear"
    cosine = "cosine"
    inverse_sqrt = "inverse_sqrt"
    noam = "noam"
    halving = "halving"


class Precision(Enum):
    """The number format of the matrix products (weights stay fp32)."""

    auto = "auto"
    fp32 = "fp32"
    bf16 = "bf16"
    fp16 = "fp16"


class Shard(Enum):
    """What each of several processes has of the model."""

    none = "none"
    fsdp = "fsdp"


class GradientPer(Enum):
    """What the loss of an update is a mean over."""

    token = "token"
    sentence = "sentence"


class ValidMetric(Enum):
    """What decides which checkpoint is best."""

    bleu = "bleu"
    loss = "loss"


class OutputFormat(Enum):
    """What `mt.translate` writes."""

    text = "text"
    jsonl = "jsonl"


class TableFormat(Enum):
    """How `mt.compare` writes its table."""

    text = "text"
    markdown = "markdown"
    csv = "csv"
    json = "json"
    latex = "latex"


@dataclass
class DataConfig:
    """The parallel corpus and what is kept of it."""

    kind: CorpusKind = option(CorpusKind.files, "demo or multi30k (known corpora), or files (your own pairs)")
    source: str = option("fr", "language to translate from (also the file suffix of known corpora)")
    target: str = option("en", "language to translate to")
    root: Optional[str] = option(
        None,
        "folder with a known corpus's files (plain or .gz); null takes demo's own, downloads multi30k's",
        path=True,
    )
    train_source: Optional[str] = option(
        None, "training text, source side (plain, .gz, .xz or .zst)", path=True
    )
    train_target: Optional[str] = option(
        None, "training text, target side; line N translates line N", path=True
    )
    valid_source: Optional[str] = option(None, "validation text, source side", path=True)
    valid_target: Optional[str] = option(None, "validation text, target side", path=True)
    test_source: Optional[str] = option(None, "test text, source side (optional)", path=True)
    test_target: Optional[str] = option(None, "test text, target side (optional)", path=True)
    max_length: int = option(256, "drop training pairs with a side longer than this many pieces", ge=1)
    max_length_ratio: float = option(
        9.0, "drop training pairs where one side has this many times the other's pieces", ge=1
    )
    invalid_utf8: InvalidUtf8 = option(
        InvalidUtf8.error, "error stops at bytes that are not UTF-8; replace puts U+FFFD"
    )
    strict: bool = option(False, "treat control characters in the text as errors instead of cleaning them")
    cache: str = option(".cache/mt", "folder for downloads, tokenizers and token stores", path=True)


@dataclass
class TokenizerConfig:
    """How text becomes pieces (SentencePiece)."""

    model: TokenizerModel = option(TokenizerModel.unigram, "unigram or bpe")
    vocab_size: int = option(8000, "number of pieces, special and byte pieces included", ge=8, le=_LARGEST)
    hard_vocab_limit: bool = option(
        False, "error when the corpus cannot fill vocab_size, instead of lowering it"
    )
    joint: bool = option(True, "one vocabulary for both languages instead of one each")
    character_coverage: float = option(1.0, "share of the training characters that get a piece", gt=0, le=1)
    byte_fallback: bool = option(
        True, "spell characters without a piece as bytes, so that nothing is unknown"
    )
    normalization: Normalization = option(
        Normalization.nfc, "none, nfc, nfkc, nmt_nfkc, or *_cf with case folding"
    )
    threads: int = option(
        2, "threads that encode text (training always uses 8: the same result)", ge=1, le=_MOST
    )


@dataclass
class RnnConfig:
    """What only a recurrent encoder–decoder has (model.kind=rnn)."""

    cell: Cell = option(Cell.lstm, "gru (Cho et al. 2014: reset gate before the product) or lstm")
    bidirectional: bool = option(True, "read the source in both directions")
    reverse_source: bool = option(False, "read the source from its end (one direction only)")
    embedding_width: Optional[int] = option(
        None, "size of an embedding; null = model.width", ge=1, le=_LARGEST
    )
    encoder_width: Optional[int] = option(
        None, "size of an encoder state, of each direction; null = model.width", ge=1, le=_LARGEST
    )
    readout_width: Optional[int] = option(
        None, "size of what the output layer reads; null = model.width", ge=1, le=_LARGEST
    )
    start: Start = option(
        Start.project, "first decoder state: project (tanh of a product) or copy the encoder's last states"
    )
    query: StateIndex = option(
        StateIndex.current, "which decoder state asks: current (after reading the last piece) or previous"
    )
    feed: Feed = option(
        Feed.input_feeding,
        "what enters the next state: context_in_gates, input_feeding (the readout) or none",
    )
    readout: Readout = option(Readout.tanh, "maxout (also reads the last piece), tanh or linear")
    readout_state: StateIndex = option(
        StateIndex.current, "which decoder state the readout reads: current or previous"
    )


@dataclass
class ModelConfig:
    """The encoder–decoder's shape."""

    kind: ModelKind = option(ModelKind.transformer, "transformer or rnn")
    width: int = option(
        256, "size of a position's vector (d_model); rnn: of a decoder state", ge=1, le=_LARGEST
    )
    heads: int = option(4, "transformer: attention heads; must divide width", ge=1, le=_LARGEST)
    ffn_width: int = option(1024, "transformer: inner size of the feed-forward layers", ge=1, le=_LARGEST)
    match_parameters: Optional[int] = option(
        None, "transformer: choose ffn_width so that the model has this many parameters, within 1 %", ge=1
    )
    encoder_layers: int = option(4, "layers of the encoder", ge=1, le=_MOST)
    decoder_layers: int = option(4, "layers of the decoder", ge=1, le=_MOST)
    norm: Norm = option(Norm.pre, "transformer: pre (before each sublayer) or post (after each residual sum)")
    activation: Activation = option(Activation.relu, "transformer: relu or gelu")
    positions: Positions = option(Positions.sinusoidal, "transformer: sinusoidal, learned or rotary")
    max_positions: int = option(512, "longest side in pieces, end-of-sentence included", ge=2, le=_LARGEST)
    tie_embeddings: TieEmbeddings = option(
        TieEmbeddings.all, "all, decoder (target embedding = output) or none"
    )
    initialization: Initialization = option(
        Initialization.random,
        "random; transformer: lexical, from counts of which pieces translate each other; rnn: as in "
        "bahdanau2015, luong2015",
    )
    dropout: float = option(
        0.1,
        "dropout on embeddings and every residual branch; rnn: on all but recurrent connections",
        ge=0,
        lt=1,
    )
    attention_dropout: float = option(0.0, "dropout on attention weights", ge=0, lt=1)
    activation_dropout: float = option(0.0, "transformer: dropout inside the feed-forward layers", ge=0, lt=1)
    rnn: RnnConfig = option(RnnConfig, "what only kind=rnn reads")


@dataclass
class AttentionConfig:
    """Which score function is used where, and what is around it."""

    score: ScoreKind = option(
        ScoreKind.scaled_dot, "score function of all places; bahdanau, luong, luong_dot … are understood too"
    )
    encoder: Optional[ScoreKind] = option(
        None, "score of the encoder's self-attention; null = attention.score"
    )
    decoder: Optional[ScoreKind] = option(
        None, "score of the decoder's masked self-attention; null = attention.score"
    )
    cross: Optional[ScoreKind] = option(None, "score of the cross-attention; null = attention.score")
    scope: ScopeKind = option(
        ScopeKind["global"],
        "what the cross-attention sees: global, local_m (window around the target's position) or local_p "
        "(around a predicted position)",
    )
    window: int = option(10, "local scopes reach this many source positions to each side", ge=1)
    hidden: Optional[int] = option(
        None,
        "inner size (d_a) of additive and concat; null = the size of a key (rnn: model.width)",
        ge=1,
        le=_LARGEST,
    )
    heads: Heads = option(
        Heads.concatenated,
        "concatenated and multiplied by W^O, or summed: each head as wide as the model, no W^O, no biases",
    )


@dataclass
class OptimizerConfig:
    """The update rule."""

    kind: OptimizerKind = option(
        OptimizerKind.adamw,
        "adamw, adam, muon (with adamw for embeddings, norms, biases), adadelta or sgd",
    )
    lr: float = option(1e-3, "peak learning rate (for schedule=noam: a factor on the paper's formula)", gt=0)
    beta1: float = option(0.9, "decay of the first moment", ge=0, lt=1)
    beta2: float = option(0.98, "decay of the second moment", ge=0, lt=1)
    rho: float = option(0.95, "adadelta: decay of both averages", ge=0, lt=1)
    eps: float = option(1e-9, "added to the root of the second moment (adadelta: inside the roots)", gt=0)
    weight_decay: float = option(0.0, "decoupled, L2 for adam; never on biases, norms", ge=0)
    matrix_lr: float = option(
        0.004, "muon: peak rate of the layers' matrices, the size of an update's entries", gt=0
    )
    momentum: float = option(0.95, "muon: decay of the matrices' momentum", ge=0, lt=1)
    newton_schulz: int = option(5, "muon: iterations that make an update orthogonal", ge=1, le=20)


@dataclass
class ScheduleConfig:
    """The learning rate over time."""

    kind: ScheduleKind = option(
        ScheduleKind.inverse_sqrt, "constant, linear, cosine, inverse_sqrt, noam or halving"
    )
    warmup_steps: int = option(400, "updates of linear warm-up from zero", ge=0)
    final_ratio: float = option(0.0, "linear, cosine: last rate as a share of the peak", ge=0, le=1)
    halve_after_epochs: int = option(
        5, "halving: epochs at the full rate, which is halved then and with every further epoch", ge=0
    )


@dataclass
class TrainingConfig:
    """The loop: budgets, batches, validation, checkpoints."""

    max_steps: Optional[int] = option(None, "stop after this many updates", ge=1)
    max_epochs: Optional[int] = option(None, "stop after this many passes over the data", ge=1)
    max_tokens: Optional[int] = option(
        None, "stop after this many target tokens of all batches, padding not counted", ge=1
    )
    max_minutes: Optional[float] = option(
        None, "stop after this much time in the loop, the last validation included", gt=0
    )
    batch_tokens: int = option(
        4096, "target tokens per update and process, padding included, before accumulation", ge=1
    )
    batch_sentences: Optional[int] = option(
        None, "no more pairs than this in a batch; null = batch_tokens alone decides", ge=1
    )
    accumulate: int = option(1, "micro-batches summed into one update", ge=1)
    gradient_per: GradientPer = option(
        GradientPer.token, "the loss of an update is a mean over target tokens or over sentences"
    )
    label_smoothing: float = option(0.1, "probability mass spread over the whole vocabulary", ge=0, lt=1)
    subword_dropout: float = option(
        0.0, "probability that a piece is read as those it is made of, anew in each epoch", ge=0, lt=1
    )
    clip_norm: float = option(1.0, "gradients are scaled down to this norm; 0 = off", ge=0)
    precision: Precision = option(
        Precision.auto,
        "auto (bf16 where the hardware multiplies it fast, else fp32), fp32, bf16 or fp16 (CUDA only)",
    )
    compile: bool = option(False, "torch.compile the encoder and decoder (needs a C++ compiler on CPU)")
    ema_decay: float = option(
        0.0, "validate and keep an exponential average of the weights; 0 = off", ge=0, lt=1
    )
    average_last: int = option(
        1, "average the weights of this many last checkpoints at the end; 1 = off", ge=1
    )
    validate_every_steps: Optional[int] = option(
        None, "validate after this many updates; null = see validate_every_epochs", ge=1
    )
    validate_every_epochs: float = option(1.0, "validate after this many epochs (fractions too)", gt=0)
    valid_metric: ValidMetric = option(
        ValidMetric.bleu, "bleu (higher is better) or loss (lower is better) picks the best"
    )
    valid_beam: int = option(1, "beam of the validation decoding; 1 = greedy", ge=1, le=_MOST)
    valid_max_sentences: Optional[int] = option(
        None, "decode only the first N validation sentences; null = all", ge=1
    )
    patience: Optional[int] = option(None, "stop after this many validations without a better metric", ge=1)
    save_every_steps: Optional[int] = option(
        None, "save after this many updates besides at each validation", ge=1
    )
    keep_last: int = option(2, "checkpoints kept besides the best", ge=1)
    log_every_steps: int = option(50, "updates between log lines and metric points", ge=1)
    prefetch_batches: int = option(8, "batches made ahead in the background; 0 = none", ge=0, le=_MOST)
    threads: Optional[int] = option(None, "CPU threads of PyTorch; null = as many as cores", ge=1, le=_MOST)
    shard: Shard = option(
        Shard.none,
        "torchrun: none (each process has the whole model) or fsdp (its part of weights, gradients, moments)",
    )
    timeout_seconds: int = option(
        600, "torchrun: give up when another process does not answer for so long", ge=1
    )
    samples: int = option(4, "validation sentences shown as translations and attention maps", ge=0)
    tensorboard: bool = option(True, "write TensorBoard events into the run folder")
    progress: bool = option(True, "show a progress bar on a terminal (log lines elsewhere)")


@dataclass
class DecodingConfig:
    """The search for a translation."""

    beam: int = option(5, "hypotheses kept per sentence; 1 = greedy", ge=1, le=_MOST)
    n_best: int = option(1, "translations returned per sentence; at most beam", ge=1)
    length_penalty: float = option(
        0.6, "alpha of the GNMT penalty ((5+length)/6)^alpha; 0 = plain log-probability", ge=0
    )
    max_length_ratio: float = option(
        1.5, "longest output = floor(ratio x source pieces) + max_length_extra", ge=0
    )
    max_length_extra: int = option(10, "see max_length_ratio", ge=0)
    no_repeat_ngram: int = option(0, "never produce an n-gram of this order twice; 0 = off", ge=0)
    batch_tokens: int = option(2048, "source tokens x beam decoded together", ge=1)


@dataclass
class DecodingOverrides:
    """Decoding options given to translate or evaluate; null keeps what the run was configured with."""

    beam: Optional[int] = option(None, "hypotheses kept per sentence; 1 = greedy", ge=1, le=_MOST)
    n_best: Optional[int] = option(None, "translations returned per sentence; at most beam", ge=1)
    length_penalty: Optional[float] = option(None, "alpha of the GNMT length penalty", ge=0)
    max_length_ratio: Optional[float] = option(
        None, "longest output = floor(ratio x source pieces) + max_length_extra", ge=0
    )
    max_length_extra: Optional[int] = option(None, "see max_length_ratio", ge=0)
    no_repeat_ngram: Optional[int] = option(
        None, "never produce an n-gram of this order twice; 0 = off", ge=0
    )
    batch_tokens: Optional[int] = option(None, "source tokens x beam decoded together", ge=1)


@dataclass
class TrainConfig:
    """`python -m mt.train` and `python -m mt.prepare`."""

    data: DataConfig = option(DataConfig, "the corpus")
    tokenizer: TokenizerConfig = option(TokenizerConfig, "text to pieces")
    model: ModelConfig = option(ModelConfig, "the encoder–decoder")
    attention: AttentionConfig = option(AttentionConfig, "score functions, scope, heads")
    optimizer: OptimizerConfig = option(OptimizerConfig, "the update rule")
    schedule: ScheduleConfig = option(ScheduleConfig, "the learning rate over time")
    training: TrainingConfig = option(TrainingConfig, "the loop")
    decoding: DecodingConfig = option(DecodingConfig, "the search")
    seed: int = option(1, "start of all randomness: weights, batches, dropout", ge=0, lt=2**32)
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    runs: str = option("runs", "folder that holds run folders", path=True)
    run: Optional[str] = option(
        None, "this run's folder; null = a name made of corpus and configuration under runs", path=True
    )
    resume: Optional[str] = option(
        None, "go on with the run in this folder, with its own configuration", path=True
    )
    stop_on_failure: bool = option(False, "in a sweep (-m): start no further cell after one that failed")


@dataclass
class TranslateConfig:
    """`python -m mt.translate`."""

    run: Optional[str] = option(None, "run folder; null = the newest finished run under runs", path=True)
    runs: str = option("runs", "folder that holds run folders", path=True)
    checkpoint: Optional[str] = option(
        None, "a checkpoint folder of the run; null = the run's final model", path=True
    )
    tokenizer_folder: Optional[str] = option(
        None, "another tokenizer folder; refused unless it is the run's own", path=True
    )
    input: Optional[str] = option(
        None, "text file, one sentence a line; null or - = standard input", path=True
    )
    output: Optional[str] = option(None, "file to write; null or - = standard output", path=True)
    format: OutputFormat = option(
        OutputFormat.text, "text (one line a sentence) or jsonl (n-best, scores, flags)"
    )
    report: Optional[str] = option(
        None, "also write counts (cut, unknown, changed digits …) to this JSON file", path=True
    )
    heatmap: list[str] = option(
        [], "also draw what the text after -- looked at, into these files (.png, .html)", path=True
    )
    alignments: list[str] = option(
        [],
        "also write what every line looked at, into these files: word links 0-0 2-1, source-target, one "
        "line a sentence (.pharaoh, .align, .txt), or words, pieces and weights (.jsonl, .json, .npz)",
        path=True,
    )
    layer: str = option(
        "mean", "decoder layer whose cross-attention alignments and a heatmap.png show: 1, 2, …, mean or all"
    )
    head: str = option("mean", "and the head: 1, 2, …, mean or all (all: weights only)")
    show_unknown: bool = option(False, "write the unknown symbol instead of leaving it out")
    invalid_utf8: InvalidUtf8 = option(
        InvalidUtf8.error, "error stops at bytes that are not UTF-8; replace puts U+FFFD"
    )
    decoding: DecodingOverrides = option(DecodingOverrides, "the search")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    threads: Optional[int] = option(None, "CPU threads of PyTorch; null = as many as cores", ge=1, le=_MOST)


@dataclass
class EvaluateConfig:
    """`python -m mt.evaluate`."""

    run: Optional[str] = option(
        None, "run folder; null = the newest finished run under runs (unless hypothesis is given)", path=True
    )
    runs: str = option("runs", "folder that holds run folders", path=True)
    checkpoint: Optional[str] = option(
        None, "a checkpoint folder of the run; null = the run's final model", path=True
    )
    test_sets: Optional[list[str]] = option(
        None, "named test sets of the run's data; null = all that can be found"
    )
    data_root: Optional[str] = option(None, "folder of the corpus if it moved since training", path=True)
    source: Optional[str] = option(
        None, "text file to translate and score instead of named test sets", path=True
    )
    reference: list[str] = option([], "one or more reference files for source or hypothesis", path=True)
    hypothesis: Optional[str] = option(
        None, "finished translations to score; needs reference, no run", path=True
    )
    alignments: Optional[str] = option(
        None,
        "gold word alignment of the test set and its first reference, for the alignment error rate: Pharaoh "
        "(0-0 1?2, source-target, ? or p possible) or NAACL format, words counted at spaces",
        path=True,
    )
    output: Optional[str] = option(None, "JSON file for the scores", path=True)
    translations: Optional[str] = option(
        None, "folder for the translations that were scored, one file per test set", path=True
    )
    invalid_utf8: InvalidUtf8 = option(
        InvalidUtf8.error, "error stops at bytes that are not UTF-8; replace puts U+FFFD"
    )
    lowercase: bool = option(False, "score without case (the signature says so)")
    decoding: DecodingOverrides = option(DecodingOverrides, "the search")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    threads: Optional[int] = option(None, "CPU threads of PyTorch; null = as many as cores", ge=1, le=_MOST)


@dataclass
class CompareConfig:
    """`python -m mt.compare`."""

    run: list[str] = option([], "run folders to compare (words without = mean the same)", path=True)
    sweep_folder: Optional[str] = option(
        None, "folder of a sweep: compare all of its cells (sweep=DIR means the same)", path=True
    )
    baseline: Optional[str] = option(
        None, "variant that the others are tested against, by name or run folder; null = the first"
    )
    test_set: Optional[str] = option(
        None, "named test set of the runs' data; null = the first that can be found, else the validation set"
    )
    data_root: Optional[str] = option(None, "folder of the corpus if it moved since training", path=True)
    source: Optional[str] = option(None, "text file to translate instead of a named test set", path=True)
    reference: list[str] = option([], "one or more reference files for source", path=True)
    alignments: Optional[str] = option(
        None,
        "gold word alignment of the test set, for the alignment error rate; see mt.evaluate --help",
        path=True,
    )
    format: TableFormat = option(TableFormat.text, "text, markdown, csv, json or latex (booktabs)")
    output: Optional[str] = option(None, "file for the table; null or - = standard output", path=True)
    report: Optional[str] = option(
        None, "also write everything, with pictures, into this one HTML file", path=True
    )
    examples: int = option(6, "test sentences whose translations the report shows side by side", ge=0)
    maps: int = option(3, "test sentences whose attention the report shows side by side", ge=0)
    min_seeds: int = option(3, "variants with fewer finished seeds than this are marked", ge=1)
    bootstrap_samples: int = option(1000, "resamples of the paired bootstrap", ge=100)
    randomization_trials: int = option(10000, "trials of the approximate randomization", ge=100)
    invalid_utf8: InvalidUtf8 = option(
        InvalidUtf8.error, "error stops at bytes that are not UTF-8; replace puts U+FFFD"
    )
    lowercase: bool = option(False, "score without case (the signature says so)")
    decoding: DecodingOverrides = option(DecodingOverrides, "the search")
    device: str = option("auto", "auto, cpu, cuda or cuda:N")
    threads: Optional[int] = option(None, "CPU threads of PyTorch; null = as many as cores", ge=1, le=_MOST)
