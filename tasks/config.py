"""A run's config as types: every key, its limits, and one sentence for whatever is wrong with it.

The sections of `task` and `model` belong to the task and the architecture that the config names.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import Field, ValidationError, create_model

from sweeper.store.errors import wrong
from tasks import complaints, registry
from tasks.architecture import Architecture
from tasks.schema import Problem, Section, given, spelled, whole
from tasks.task import Task, TaskSection


class HubSection(Section):
    """Arguments of datasets.load_dataset."""

    path: Annotated[str | None, given("the id of a data set on the hub, or null", "dvruette/lm1b")]
    name: Annotated[str | None, given("the name of a configuration of it, or null", None)]
    revision: Annotated[str | None, given("a commit of it, or null", None)]


class DataSection(Section):
    """Where the text comes from."""

    source: Annotated[
        Literal["sample", "local", "hub"], given("one of sample, local, hub", "sample")
    ]
    root: Annotated[str | None, given("a folder, or null", "~/lm1b")]
    hub: HubSection
    sentences: Annotated[
        int | None, given("a whole number from 1 to 100000000, or null", 40_000, ge=1, le=10**8)
    ]
    digest: Annotated[str | None, given("what the planner found the text to be, or null", None)]

    def problems(self, path: str) -> Iterator[Problem]:
        needed = {
            "sample": ("sentences", self.sentences, "a number of sentences", "40000"),
            "local": ("root", self.root, "the folder that holds the text", "FOLDER"),
            "hub": ("hub.path", self.hub.path, "the id of a data set", "dvruette/lm1b"),
        }
        key, value, expected, example = needed[self.source]
        if value is None:
            key = f"{path}.{key}"
            why = f"{expected}, since {path}.source={self.source}"
            yield Problem(key, "null", why, f"give it as {key}={example}")


class OptimizerSection(Section):
    """AdamW and its schedule."""

    learning_rate: Annotated[float, given("a number above 0 and at most 100", 0.1, gt=0, le=100)]
    schedule: Annotated[
        Literal["rsqrt", "linear", "constant"], given("one of rsqrt, linear, constant", "rsqrt")
    ]
    warmup_steps: Annotated[int, whole(0, 10**9, 10_000)]
    betas: Annotated[
        list[Annotated[float, Field(ge=0, lt=1)]],
        given("two numbers, each at least 0 and below 1", [0.9, 0.997], min_length=2, max_length=2),
    ]
    epsilon: Annotated[float, given("a number above 0 and at most 1", 1e-9, gt=0, le=1)]
    weight_decay: Annotated[float, given("a number from 0 to 100", 0.01, ge=0, le=100)]
    gradient_clip: Annotated[float | None, given("a number above 0, or null", 1.0, gt=0)]


class TrainerSection(Section):
    """How long and how a run is trained, and how it is executed."""

    steps: Annotated[int, whole(0, 10**9, 1000)]
    precision: Annotated[
        Literal["32-true", "64-true", "bf16-mixed"],
        given("one of 32-true, 64-true, bf16-mixed", "32-true"),
    ]
    compile: Annotated[bool, given("true or false", False)]
    accelerator: Annotated[Literal["auto", "cpu", "gpu"], given("one of auto, cpu, gpu", "auto")]
    devices: Annotated[int, whole(1, 1024, 1)]
    num_nodes: Annotated[int, whole(1, 1024, 1)]
    threads: Annotated[int, whole(1, 1024, 1)]
    log_every: Annotated[int, whole(1, 10**9, 50)]
    validate_every: Annotated[int, whole(0, 10**9, 1000)]
    checkpoint_every: Annotated[int, whole(0, 10**9, 1000)]


class LoggerSection(Section):
    """Where metrics are mirrored to."""

    name: Annotated[Literal["wandb", "none"], given("one of wandb, none", "none")]
    mode: Annotated[
        Literal["offline", "online", "disabled"],
        given("one of offline, online, disabled", "offline"),
    ]
    project: Annotated[str, given("a name", "headroom", min_length=1, max_length=128)]
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
        for key in type(self).model_fields:
            section = getattr(self, key)
            if isinstance(section, Section):
                yield from section.problems(key)
        steps, warmup = self.trainer.steps, self.optimizer.warmup_steps
        if self.optimizer.schedule == "linear" and warmup >= steps > 0:
            yield Problem(
                "optimizer.warmup_steps",
                warmup,
                f"fewer than trainer.steps={steps}, since the linear schedule ends there at 0",
                f"give it as optimizer.warmup_steps={steps // 10}",
            )


def parse(config: Mapping[str, Any]) -> RunConfig:
    """Return the typed config of a run.

    Raises:
        UserError: one sentence on the first thing that is wrong, and how many more there are.
    """
    schema = _schema(config)
    try:
        run = schema.model_validate(dict(config))
    except ValidationError as error:
        problems = [complaints.problem(schema, one) for one in error.errors(include_url=False)]
    else:
        problems = list(run.problems())
        if not problems:
            return run
    first, more = problems[0], len(problems) - 1
    remedy = first.remedy + (f" (and {more} more: {problems[1].key}" if more else "")
    remedy += (", ..." if more > 1 else "") + (")" if more else "")
    raise wrong(first.key, first.value, first.expected, remedy)


def _schema(config: Mapping[str, Any]) -> type[RunConfig]:
    """Return RunConfig with the sections of the task and the architecture that are named."""
    task = cast(type[Task], registry.find("task.name", _name(config, "task"), Task))
    found = registry.find("model.name", _name(config, "model"), Architecture)
    architecture = cast(type[Architecture], found)
    name = _name(config, "model")
    if name not in task.architectures:
        known = ", ".join(task.architectures)
        expected = f"one of {known}, which task.name={_name(config, 'task')} trains"
        raise wrong("model.name", name, expected, f"choose it as model={task.architectures[0]}")
    return _composed(task, architecture.schema_of(config["model"]))


@functools.cache
def _composed(task: type[Task], architecture: type[Architecture]) -> type[RunConfig]:
    sections: dict[str, Any] = {"task": (task.Section, ...), "model": (architecture, ...)}
    return create_model("RunConfig", __base__=RunConfig, **sections)


def _name(config: Mapping[str, Any], section: str) -> Any:
    group = config.get(section)
    if not isinstance(group, Mapping):
        raise wrong(section, spelled(group), "a group of keys", f"choose one of conf/{section}")
    return group.get("name")
