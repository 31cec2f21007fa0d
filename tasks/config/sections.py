"""The sections of a run's config as pydantic classes.

Each task adds its own keys to the section `task`, and each architecture to the section `model`.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field

from tasks.config.architecture import Architecture
from tasks.config.schema import Flag, Problem, Section, given, whole


class TaskSection(Section):
    """The base class of the section `task`. Each task defines a subclass with its own keys."""

    name: str


class RowsSection(Section):
    """The keys for the batch size and the row length, for tasks with rows of equal length."""

    batch_tokens: Annotated[int, whole(1, 2**31, 32_768)]
    sequence_length: Annotated[int, whole(2, 65_536, 256)]

    def problems(self, path: str = "") -> Iterator[Problem]:
        yield from super().problems(path)
        tokens, length = self.batch_tokens, self.sequence_length
        if tokens % length:
            key = f"{path}.batch_tokens"
            expected = f"a multiple of {path}.sequence_length={length}"
            remedy = f"set {key}={max(tokens // length, 1) * length}"
            yield Problem(key, tokens, expected, remedy)


class TextSection(TaskSection, RowsSection):
    """The base class of the section `task` for tasks on text."""


class WordPieceSection(TextSection):
    """The base class of the section `task` for tasks with a WordPiece tokenizer, like BERT's."""

    # The smallest vocabulary has five special tokens and two letters. At the largest size, token
    # ids still fit into two bytes.
    vocabulary_size: Annotated[int, whole(7, 65_535, 30_522)]
    tokenizer_lines: Annotated[int, whole(1, 10**9, 1_000_000)]


class HubSection(Section):
    """The section `data.hub`: the arguments of `datasets.load_dataset`."""

    path: Annotated[
        str | None, given("the id of a dataset on the hub, or null", "dvruette/lm1b")
    ]
    name: Annotated[
        str | None,
        given("the name of one of the dataset's configurations, or null", None),
    ]
    revision: Annotated[
        str | None, given("a commit of the dataset's repository, or null", None)
    ]


_NEEDED: dict[str, dict[str, Any]] = {
    "sample": {"sentences": 40_000, "competitors": 12, "directions": 128},
    "local": {"root": "FOLDER"},
    "hub": {"hub.path": "dvruette/lm1b"},
}
"""The keys of the section `data` that each source of text needs, with an example of each value."""


class DataSection(Section):
    """The section `data`, which names the source of the text."""

    source: Literal["sample", "local", "hub"]
    root: Annotated[str | None, given("a folder, or null", "~/lm1b")]
    hub: HubSection
    sentences: Annotated[int | None, whole(500, 10**7, 40_000, null=True)]
    competitors: Annotated[int | None, whole(4, 64, 12, null=True)] = None
    directions: Annotated[
        int | None, given("a whole number from 0 to 200, or null", 128, ge=0, le=200)
    ] = None
    digest: Annotated[
        str | None,
        given("the digest of the text at the time of planning, or null", None),
    ]

    def problems(self, path: str = "") -> Iterator[Problem]:
        values = {**dict(self), "hub.path": self.hub.path}
        for name, example in _NEEDED[self.source].items():
            if values[name] is None:
                key = f"{path}.{name}"
                expected = f"a value, since {path}.source={self.source} needs one"
                yield Problem(key, "null", expected, f"set {key}={example}")
        if self.directions and self.competitors and self.directions <= self.competitors:
            key, least = f"{path}.directions", f"{path}.competitors={self.competitors}"
            expected = (
                f"a number of families above {least}, since competing names belong to different "
                "families"
            )
            remedy = f"set {key}=128, or {key}=0 for text that needs no large heads"
            yield Problem(key, str(self.directions), expected, remedy)


ENDS_AT_0 = ("linear", "cosine", "bert")
"""The schedules whose learning rate falls to 0. Their warm-up must end before the last step."""


class OptimizerSection(Section):
    """The section `optimizer`: an optimizer and the schedule of its learning rate."""

    # The default applies to older records, which lack this key.
    name: Annotated[str, given("the name of an optimizer", "adamw")] = "adamw"
    learning_rate: Annotated[
        float, given("a number above 0 and at most 100", 0.1, gt=0, le=100)
    ]
    schedule: Literal["rsqrt", "linear", "cosine", "bert", "constant"]
    warmup_steps: Annotated[int, whole(0, 10**9, 10_000)]
    betas: Annotated[
        list[Annotated[float, Field(ge=0, lt=1)]],
        given(
            "two numbers, each at least 0 and below 1",
            [0.9, 0.997],
            min_length=2,
            max_length=2,
        ),
    ]
    epsilon: Annotated[float, given("a number above 0 and at most 1", 1e-9, gt=0, le=1)]
    weight_decay: Annotated[float, given("a number from 0 to 100", 0.01, ge=0, le=100)]
    gradient_clip: Annotated[
        float | None, given("a number above 0, or null", 1.0, gt=0)
    ]


class TrainerSection(Section):
    """The section `trainer`: the length of training, its precision and its devices."""

    steps: Annotated[int, whole(0, 10**9, 1000)]
    precision: Literal["32-true", "64-true", "bf16-mixed"]
    compile: Annotated[bool, given("true or false", False)]
    # The default applies to older records, which lack this key.
    cuda_graph: Flag = True
    accelerator: Literal["auto", "cpu", "gpu"]
    devices: Annotated[int, whole(1, 1024, 1)]
    num_nodes: Annotated[int, whole(1, 1024, 1)]
    threads: Annotated[int, whole(1, 1024, 1)]
    # The default applies to older records, which lack this key.
    micro_batches: Annotated[
        Annotated[int, Field(ge=1, le=2**20)] | Literal["auto"],
        given("auto, or a whole number from 1 to 1048576", 4),
    ] = 1
    log_every: Annotated[int, whole(1, 10**9, 50)]
    validate_every: Annotated[int, whole(0, 10**9, 1000)]
    checkpoint_every: Annotated[int, whole(0, 10**9, 1000)]


class LoggerSection(Section):
    """The section `logger`: whether and how a copy of the metrics goes to Weights & Biases."""

    name: Literal["none", "wandb"]
    mode: Literal["offline", "online", "disabled"]
    project: Annotated[
        str,
        # W&B rejects names that do not match this pattern.
        given(
            "a name of at most 128 characters, without / \\ # ? % :",
            "headroom",
            pattern=r"^[^/\\#?%:]{1,128}$",
        ),
    ]
    entity: Annotated[
        str | None, given("the name of a W&B user or team, or null", None)
    ]


class RunConfig(Section):
    """The whole config of one run."""

    seed: Annotated[int, whole(0, 2**32 - 1, 0)]
    task: TaskSection
    data: DataSection
    model: Architecture
    optimizer: OptimizerSection
    trainer: TrainerSection
    logger: LoggerSection
    parent: Annotated[str | None, given("the id of a finished run, or null", None)]

    def problems(self, path: str = "") -> Iterator[Problem]:
        yield from super().problems(path)
        steps, warmup = self.trainer.steps, self.optimizer.warmup_steps
        schedule = self.optimizer.schedule
        if schedule in ENDS_AT_0 and warmup >= steps > 0:
            expected = (
                f"fewer than trainer.steps={steps}, since the schedule {schedule} falls to 0 after "
                "the warm-up"
            )
            remedy = f"set optimizer.warmup_steps={steps // 10}"
            yield Problem("optimizer.warmup_steps", warmup, expected, remedy)
