"""A run's config as types. The task defines the section `task`, the architecture `model`."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from tasks.config.architecture import Architecture
from tasks.config.schema import Problem, Section, given, whole


class TaskSection(Section):
    """The keys of every task. A task adds its own."""

    name: str


class RowsSection(Section):
    """The keys of batches that have whole rows."""

    batch_tokens: Annotated[int, whole(1, 2**31, 32_768)]
    sequence_length: Annotated[int, whole(2, 65_536, 256)]

    def problems(self, path: str = "") -> Iterator[Problem]:
        yield from super().problems(path)
        tokens, length = self.batch_tokens, self.sequence_length
        if tokens % length:
            key, expected = (
                f"{path}.batch_tokens",
                f"a multiple of {path}.sequence_length={length}",
            )
            remedy = f"give it as {key}={max(tokens // length, 1) * length}"
            yield Problem(key, tokens, expected, remedy)


class TextSection(TaskSection, RowsSection):
    """The keys of every task on text."""


class WordPieceSection(TextSection):
    """The keys of every task that trains a WordPiece tokenizer, as BERT's."""

    # Five marks and two letters at least; an id takes two bytes on disk.
    vocabulary_size: Annotated[int, whole(7, 65_535, 30_522)]
    tokenizer_lines: Annotated[int, whole(1, 10**9, 1_000_000)]


class HubSection(Section):
    """Arguments of datasets.load_dataset."""

    path: Annotated[
        str | None, given("the id of a data set on the hub, or null", "dvruette/lm1b")
    ]
    name: Annotated[
        str | None, given("the name of a configuration of it, or null", None)
    ]
    revision: Annotated[str | None, given("a commit of it, or null", None)]


class DataSection(Section):
    """The source of the text."""

    source: Literal["sample", "local", "hub"]
    root: Annotated[str | None, given("a folder, or null", "~/lm1b")]
    hub: HubSection
    sentences: Annotated[int | None, whole(500, 10**7, 40_000, null=True)]
    competitors: Annotated[int | None, whole(4, 64, 12, null=True)] = None
    directions: Annotated[
        int | None, given("0, a whole number to 200, or null", 128, ge=0, le=200)
    ] = None
    digest: Annotated[
        str | None, given("the digest of the text when planned, or null", None)
    ]

    def problems(self, path: str = "") -> Iterator[Problem]:
        needed = {
            ("sample", "sentences"): (self.sentences, "a number of sentences", "40000"),
            ("sample", "competitors"): (self.competitors, "a number of names", "12"),
            ("sample", "directions"): (self.directions, "a number of families", "128"),
            ("local", "root"): (self.root, "the folder that holds the text", "FOLDER"),
            ("hub", "hub.path"): (
                self.hub.path,
                "the id of a data set",
                "dvruette/lm1b",
            ),
        }
        for (source, name), (value, expected, example) in needed.items():
            if source == self.source and value is None:
                key, why = f"{path}.{name}", f"{expected}, since {path}.source={source}"
                yield Problem(key, "null", why, f"give it as {key}={example}")
        if self.directions and self.competitors and self.directions <= self.competitors:
            key, least = f"{path}.directions", f"{path}.competitors={self.competitors}"
            expected = f"more than {least}, since each competitor is of another family"
            remedy = f"give it as {key}=128, or 0 to plant nothing"
            yield Problem(key, str(self.directions), expected, remedy)


ENDS_AT_0 = ("linear", "cosine", "bert")
"""Schedules that end at a learning rate of 0, so that the warm-up has to end before."""


class OptimizerSection(Section):
    """An optimizer and the schedule of its learning rate."""

    # For older records.
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
    """The length of training, its precision, and the devices it runs on."""

    steps: Annotated[int, whole(0, 10**9, 1000)]
    precision: Literal["32-true", "64-true", "bf16-mixed"]
    compile: Annotated[bool, given("true or false", False)]
    # For older records.
    cuda_graph: Annotated[bool, given("true or false", True)] = True
    accelerator: Literal["auto", "cpu", "gpu"]
    devices: Annotated[int, whole(1, 1024, 1)]
    num_nodes: Annotated[int, whole(1, 1024, 1)]
    threads: Annotated[int, whole(1, 1024, 1)]
    micro_batches: Annotated[
        Annotated[int, Field(ge=1, le=2**20)] | Literal["auto"],
        given("auto, or a whole number from 1 to 1048576", 4),
    ] = 1  # for older records
    log_every: Annotated[int, whole(1, 10**9, 50)]
    validate_every: Annotated[int, whole(0, 10**9, 1000)]
    checkpoint_every: Annotated[int, whole(0, 10**9, 1000)]


class LoggerSection(Section):
    """The logger that receives a copy of the metrics."""

    name: Literal["none", "wandb"]
    mode: Literal["offline", "online", "disabled"]
    project: Annotated[
        str,
        given(
            "a name of at most 128 letters, without / \\ # ? % :",  # W&B's rule
            "headroom",
            pattern=r"^[^/\\#?%:]{1,128}$",
        ),
    ]
    entity: Annotated[str | None, given("a name, or null", None)]


class RunConfig(Section):
    """Everything that describes one run."""

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
            end = f"trainer.steps={steps}, where the schedule {schedule} reaches 0"
            remedy = f"give it as optimizer.warmup_steps={steps // 10}"
            yield Problem("optimizer.warmup_steps", warmup, f"fewer than {end}", remedy)
