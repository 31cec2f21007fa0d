"""Access to a run from Python: its config, its metrics and its trained model.

Shapes: B rows, H heads, T positions.
"""

from __future__ import annotations

import copy
import difflib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.store import runs as store
from sweeper.store.errors import invalid_value
from sweeper.store.identity import leaves
from sweeper.store.plans import planned, run_of_words

# At run time, functions import these libraries, so that `headroom --help` is fast.
if TYPE_CHECKING:
    from pandas import DataFrame
    from tokenizers import Tokenizer
    from torch import Tensor, nn

    from models.head_sizes import HeadSize
    from tasks.batch import Batch
    from tasks.config.sections import RunConfig
    from tasks.data import TaskData
    from tasks.module import TaskModule

# `Run.attention` returns the weights on this many rows by default. The rank and entropy of heads
# are measured on the same number of rows (MEASURED_ROWS in tasks/lm1b/heads.py).
MAPPED_ROWS = 4


def run(id: str, *, outputs: str | Path = "outputs") -> Run:
    """Return the run with this id or name.

    Args:
        id: the run's id, as in the column `run` of a table, or the name that the command `status`
            prints for the run, such as "fig1/fixed heads=8 seed=0".
        outputs: the outputs folder.

    Raises:
        UserError: there is no such run.
    """
    if "/" in id:
        id = run_of_words(Path(outputs), id)
    found = store.RunStore(Path(outputs)).run(id)
    if not (found.path / "run.json").is_file():
        expected = f"the id of a run that was planned in {outputs}"
        remedy = "headroom.runs() lists the runs"
        raise invalid_value("run", id, expected, remedy)
    return Run(found)


def runs(
    experiment: str | None = None,
    where: Mapping[str, Any] | None = None,
    *,
    outputs: str | Path = "outputs",
) -> list[Run]:
    """Return the runs of an experiment that match `where`, sorted by id.

    Args:
        experiment: the name of the experiment. None means all experiments.
        where: the wanted value of each config key, such as `{"model.heads": [4, 8], "seed": 0}`. A
            list, a set or a column of a table means that any of its elements matches.
        outputs: the outputs folder.

    Raises:
        UserError: the experiment was never planned in `outputs`, or no run has these values.
    """
    if experiment is None:
        ids = store.RunStore(Path(outputs)).ids()
    else:
        points = planned(Path(outputs), [experiment])[experiment]["points"]
        ids = sorted(
            {point["run"] for point in points if point["experiment"] == experiment}
        )
    if not ids:
        remedy = "start with headroom.sweep([...])"
        raise invalid_value("outputs", outputs, "a folder with runs", remedy)

    found = [run(id, outputs=outputs) for id in ids]
    settings = {one.id: leaves(one.config) for one in found}

    for key, wanted in (where or {}).items():
        known = sorted(set().union(*settings.values()))
        if key not in known:
            near = [one for one in known if one.endswith(f".{key}")]
            near = near or difflib.get_close_matches(key, known, n=1)
            remedy = (
                f"did you mean {near[0]}?"
                if near
                else "the columns of table() list all keys"
            )
            raise invalid_value("where", key, "a key of a config", remedy)
        one_value = isinstance(wanted, str) or not isinstance(wanted, Iterable)
        values = [wanted] if one_value else list(wanted)
        there = sorted({repr(settings[one.id].get(key)) for one in found})
        found = [one for one in found if settings[one.id].get(key) in values]
        if not found:
            expected = f"a value that one of these runs has ({', '.join(there[:20])})"
            raise invalid_value("where", f"{key}={wanted}", expected, "choose one")
    return found


class Run:
    """A run in an outputs folder. Its methods load its data, its metrics and its trained model.

    Attributes:
        id: the id of the run.
        path: the directory of the run.
        config: the nested config of the run, as planned.
    """

    def __init__(self, found: store.Run) -> None:
        self._run = found
        self.id, self.path = found.id, found.path
        self.config: dict[str, Any] = found.record().config

    def __repr__(self) -> str:
        return f"<run {self.id}: {self.state}>"

    @property
    def state(self) -> str:
        """The state of the run: "new", "running", "interrupted", "failed" or "done"."""
        return str(self._run.status().state)

    @property
    def checkpoint(self) -> Path:
        """The path of the final checkpoint. `torch.load(..., weights_only=True)` can read it."""
        from tasks.checkpoint import final_checkpoint

        return final_checkpoint(self._run, "run")[0]

    def data(self, changes: Mapping[str, Any] | None = None) -> TaskData:
        """Return the run's data, a `LightningDataModule` that is prepared and set up.

        Args:
            changes: new values of config keys, such as `{"trainer.steps": 500}`.
        """
        from tasks.parse import data_of

        data = data_of(self._config_with(changes), self._run.outputs)
        data.prepare_data()
        data.setup("fit")
        return data

    def module(self, changes: Mapping[str, Any] | None = None) -> TaskModule:
        """Return the run's task, a `LightningModule` that `pl.Trainer` can fit and test.

        If the run is finished, the module has the trained weights. Otherwise, it has the random
        weights with which training starts. If such a run has a parent, the module loads the
        parent's weights when `pl.Trainer` begins to fit it.

        Args:
            changes: new values of config keys, such as `{"trainer.steps": 500}`.

        Raises:
            UserError: a change is invalid, or the file of the final weights is damaged.
        """
        from tasks.checkpoint import final_weights
        from tasks.parse import module_of

        module = module_of(self._config_with(changes), self.data(changes))
        if self._run.result() is not None:
            weights = final_weights(self._run, "run")
            try:
                module.model.load_state_dict(weights)
            except RuntimeError as error:
                expected = "changes that keep the shapes of the trained weights"
                remedy = "leave out the sizes of the model"
                raise invalid_value("changes", changes, expected, remedy) from error
            module.parent = None
        return module

    def _config_with(self, changes: Mapping[str, Any] | None) -> RunConfig:
        """Return the parsed config with these changes. Raise UserError if one is invalid."""
        from tasks.parse import parse, recorded_config

        if not changes:
            return recorded_config(self._run)
        from sweeper.plan.compose import set_value

        config = copy.deepcopy(self.config)
        for key, value in changes.items():
            set_value(key, value, config)
        return parse(config)

    def metrics(self) -> dict[str, float | None]:
        """Return the final metrics by name. Raise UserError if the run is not done."""
        result = self._run.result()
        if result is None:
            expected = f"a run that is done, not {self.state}"
            raise invalid_value("run", self.id, expected, "train it first")
        return {**result.metrics}

    def history(self) -> DataFrame:
        """Return the training curve, with a row for each logged step."""
        import pandas as pd

        return pd.DataFrame(self._run.history())

    def model(self) -> nn.Module:
        """Return the trained model, on the CPU and in evaluation mode.

        `run.module()(batch)` calls it with the right arguments.

        Raises:
            UserError: the run is not done, or the file of its final weights is damaged.
        """
        self.metrics()  # raises UserError unless the run is done
        model: nn.Module = self.module().model
        return model.eval()

    def tokenizer(self) -> Tokenizer:
        """Return the run's tokenizer. Raise UserError if its task does not train on text."""
        from tasks.export.folder import tokenizer_of
        from tasks.parse import recorded_config
        from tasks.text.tokenizer import load_tokenizer

        return load_tokenizer(tokenizer_of(self._run, recorded_config(self._run)))

    def export(self, folder: str | Path) -> list[Path]:
        """Write the trained model to a new folder that Hugging Face's `transformers` can load.

        Return the written files.

        Raises:
            UserError: the run is not done, or `transformers` has no class for such a model.
        """
        from tasks.export.folder import export

        return export(self._run, Path(folder))

    def batch(self, split: str = "test", rows: int | None = None) -> Batch:
        """Return the first batch of a split, a dict of tensors of shape (B, ...).

        Args:
            split: "train", "validation" or "test".
            rows: the number of rows to return. None means all. `task=representation` always
                returns all rows, since each row of its batch belongs to one attention head.

        Raises:
            UserError: there is no such split.
        """
        _check_split(split, ("train", "validation", "test"))
        data = self.data()
        batch = data.batch(1) if split == "train" else next(data.batches(split))
        rows = rows if data.separable else None
        return {name: tensor[:rows] for name, tensor in batch.items()}

    def attention(self, batch: Batch | None = None) -> list[Tensor]:
        """Return the attention weights of each layer, of shape (B, H, T queries, T keys).

        The heads are in the order of `model.head_size`.

        Args:
            batch: the inputs. The default is the first four rows of the test split.

        Raises:
            UserError: the run is not done, or its heads do not call scaled_dot_product_attention.
        """
        import torch

        from models.attention_map import attention_weights

        self.metrics()  # raises UserError unless the run is done
        module, rows = self.module().eval(), batch or self.batch(rows=MAPPED_ROWS)
        with torch.inference_mode():
            parts = attention_weights(lambda: module(rows))
        section = module.config.model
        sizes = (
            getattr(section, "layers", 1),
            section.heads,
            section.resolved_head_size,
        )
        layers = heads_by_layer(parts, *sizes)
        if not layers:
            expected = "a model whose heads call scaled_dot_product_attention"
            remedy = "choose a run with another attention variant, such as multi_head"
            raise invalid_value("run", self.id, expected, remedy)
        return layers

    def evaluate(
        self, model: nn.Module | None = None, split: str = "test"
    ) -> dict[str, float]:
        """Evaluate a model on a split in the same way as after training, and return the metrics.

        Args:
            model: a model with the same interface as the run's model, such as a copy of it with an
                attention head removed. The default is the run's model, which reproduces `metrics`
                up to rounding.
            split: "validation" or "test".

        Raises:
            UserError: there is no such split, or the run is not done and `model` is None.
        """
        from tasks.training.evaluate import evaluate
        from tasks.training.steps import fabric_for

        _check_split(split, ("validation", "test"))
        module = self.module()
        if model is None:
            self.metrics()  # raises UserError unless the run is done
        else:
            module.model = model
        trainer = module.config.trainer.model_copy(
            update={"devices": 1, "num_nodes": 1}
        )
        fabric_for(trainer, "cpu").setup_module(module)
        return evaluate(module, split)


def heads_by_layer(
    parts: Sequence[Tensor], layers: int, heads: int, head_size: HeadSize
) -> list[Tensor]:
    """Join attention weights into one tensor per layer, with the heads in the order of `head_size`.

    A layer with heads of several sizes computes the weights of each size separately, the smallest
    size first. If an attention variant computes several attention maps per head, the maps of a
    layer stay in the order of computation.

    Args:
        parts: the weights of each computation, of shape (B, heads, T, T), in order.
        layers: the number of layers.
        heads: the number of heads per layer.
        head_size: the size of all heads, or a list with an entry for each layer. An entry is the
            size of the layer's heads, or a list of their sizes.

    Returns:
        One tensor per layer, or [] if `parts` cannot be joined into `layers` tensors of equal size.
    """
    import torch

    found: list[Tensor] = []
    maps = sum(part.shape[1] for part in parts) // layers
    for part in parts:
        if found and found[-1].shape[1] < maps:
            found[-1] = torch.cat((found[-1], part), 1)
        else:
            found.append(part)

    if len(found) != layers or any(one.shape[1] != maps for one in found):
        return []
    if not isinstance(head_size, int) and maps == heads:
        for place, sizes in enumerate(head_size):
            if not isinstance(sizes, int):
                # The weights are sorted by head size. order_H[h] is the position of head h in this
                # order.
                order_H = torch.tensor(sizes).argsort(stable=True).argsort()
                found[place] = found[place].index_select(1, order_H)
    return found


def _check_split(split: str, known: Sequence[str]) -> None:
    if split not in known:
        raise invalid_value(
            "split", split, "one of " + ", ".join(known), "correct the name"
        )
