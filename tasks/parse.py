"""Functions that parse a run's config, and create the task's data and module from it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import ValidationError

from sweeper.store import registry
from sweeper.store.errors import invalid_value, spelled
from sweeper.store.runs import Run
from tasks.config.architecture import Architecture
from tasks.config.schema import Section, extended, problem
from tasks.config.sections import RunConfig
from tasks.data import TaskData
from tasks.module import TaskModule


def parse(config: Mapping[str, Any]) -> RunConfig:
    """Validate a run's config, and return it as a RunConfig.

    The sections `task` and `model` are instances of the classes that the config's task and
    architecture define.

    Raises:
        UserError: the config is invalid. The message names the keys of all errors.
    """
    task = module_class(_name(config, "task"))
    name = _name(config, "model")
    architecture: type[Architecture] = registry.class_of(
        registry.ARCHITECTURES, name, "model.name", Architecture
    )
    builds = get_type_hints(architecture.build).get("return", object)
    if name not in task.architectures and not issubclass(builds, task.models):
        models = [f"any that builds a {model.__name__}" for model in task.models]
        known = ", ".join([*task.architectures, *models])
        expected = f"an architecture of the task {_name(config, 'task')} ({known})"
        remedy = f"choose model={task.architectures[0]}"
        raise invalid_value("model.name", name, expected, remedy)

    schema = extended(
        RunConfig, task=task.Section, model=architecture.schema_of(config["model"])
    )
    run: RunConfig = checked(schema, config)
    registry.check(registry.OPTIMIZERS, run.optimizer.name, "optimizer.name")
    return run


def checked(schema: type[Section], config: Mapping[str, Any], path: str = "") -> Any:
    """Validate a config, and return it as an instance of `schema`.

    Args:
        path: the dotted key of the section that `config` contains, such as "model". By default,
            `config` is the whole config.

    Raises:
        UserError: the config is invalid. The message names the keys of all errors.
    """
    try:
        section = schema.model_validate(dict(config))
    except ValidationError as error:
        problems = [
            problem(schema, one, config) for one in error.errors(include_url=False)
        ]
    else:
        problems = list(section.problems(path))
        if not problems:
            return section

    # Keep one problem for each key. If a value fits no type of a union, pydantic reports a problem
    # for each of the types.
    first, *others = reversed({one.key: one for one in reversed(problems)}.values())
    remedy = first.remedy
    if others:
        remedy += f". Also correct {', '.join(other.key for other in others)}"
    raise invalid_value(first.key, first.value, first.expected, remedy)


def module_class(task: Any) -> type[TaskModule]:
    """Return the class of the task with this name.

    Raise UserError if the name is unknown, or if the class lacks an attribute or a method.
    """
    found: type[TaskModule] = registry.class_of(
        registry.TASKS, task, "task.name", TaskModule
    )
    attributes = ("Section", "Data", "architectures")
    absent = [name for name in attributes if not hasattr(found, name)]
    if absent := [*absent, *sorted(found.__abstractmethods__)]:
        expected = f"a TaskModule with all attributes and methods, but it lacks {', '.join(absent)}"
        raise invalid_value("task.name", task, expected, "add them to its class")
    return found


def data_of(config: RunConfig, outputs: Path | None = None) -> TaskData:
    """Return the data module of a config.

    `outputs` is the folder that contains all prepared data. It is not needed to plan a run.
    """
    return module_class(config.task.name).Data(config, outputs)


def module_of(config: RunConfig, data: TaskData | None = None) -> TaskModule:
    """Return the TaskModule of a config with newly initialised weights, on the default device.

    The default for `data` is the config's data module without an outputs folder.
    """
    return module_class(config.task.name)(config, data or data_of(config))


def recorded_config(run: Run) -> RunConfig:
    """Return the config in the record of a run.

    Raises:
        UserError: the config is invalid, a plugin that it uses is not installed, or the run was
            imported instead of trained.
    """
    config = run.record().config
    if "optimizer" not in config:
        expected = "a trained run, not weights that were imported from a folder"
        remedy = "use that folder, or a run whose parent is this run"
        raise invalid_value("run", run.id, expected, remedy)
    missing = {
        f"{kind.word} {name}"
        for kind, name in registry.named_by(config)
        if name not in registry.names(kind)
    }
    for attempt in run.attempts():
        for made in attempt.info().get("packages", []):
            if made["name"] in missing:
                package = f"{made['package']}=={made['version']}"
                expected = (
                    f"the package {package}, which defines the run's {made['name']}"
                )
                raise invalid_value("run", run.id, expected, "install that package")
    return parse(config)


def _name(config: Mapping[str, Any], section: str) -> Any:
    group = config.get(section)
    if not isinstance(group, Mapping):
        remedy = f"choose a file of conf/{section}"
        raise invalid_value(section, spelled(group), "a group of keys", remedy)
    return group.get("name")
