"""Parsing of a run's config: typed sections and their task, or one sentence on the first error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from sweeper.store import registry
from sweeper.store.errors import invalid_value
from tasks.config.architecture import Architecture
from tasks.config.schema import extended, problem, spelled
from tasks.config.sections import RunConfig
from tasks.task import Task


def parse(config: Mapping[str, Any]) -> RunConfig:
    """Return the typed config of a run; UserError with the first error and the number of others."""
    task: type[Task] = registry.class_of(registry.TASKS, _name(config, "task"), "task.name", Task)
    name = _name(config, "model")
    architecture: type[Architecture] = registry.class_of(
        registry.ARCHITECTURES, name, "model.name", Architecture
    )
    if name not in task.architectures:
        known = ", ".join(task.architectures)
        expected = f"one of {known}, which task.name={_name(config, 'task')} trains"
        remedy = f"choose it as model={task.architectures[0]}"
        raise invalid_value("model.name", name, expected, remedy)
    schema = extended(RunConfig, task=task.Section, model=architecture.schema_of(config["model"]))
    try:
        run: RunConfig = schema.model_validate(dict(config))
    except ValidationError as error:
        problems = [problem(schema, one) for one in error.errors(include_url=False)]
    else:
        problems = list(run.problems())
        if not problems:
            return run
    first, more = problems[0], len(problems) - 1
    remedy = first.remedy + (f" (and {more} more: {problems[1].key}" if more else "")
    remedy += (", ..." if more > 1 else "") + (")" if more else "")
    raise invalid_value(first.key, first.value, first.expected, remedy)


def task_of(config: RunConfig) -> Task:
    """Return the task of a config."""
    return registry.class_of(registry.TASKS, config.task.name, "task.name", Task)(config)


def _name(config: Mapping[str, Any], section: str) -> Any:
    group = config.get(section)
    if not isinstance(group, Mapping):
        remedy = f"choose one of conf/{section}"
        raise invalid_value(section, spelled(group), "a group of keys", remedy)
    return group.get("name")
