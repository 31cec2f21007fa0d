"""The folder of an exported run: weights, config, tokenizer and a model card."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import yaml
from tokenizers import Tokenizer

from sweeper.store.errors import UserError, invalid_value
from sweeper.store.files import child, make_directory, publish, publish_json
from sweeper.store.identity import leaves
from sweeper.store.records import Record, Result
from sweeper.store.runs import Run
from tasks.architectures.decoder import DecoderSection
from tasks.architectures.encoder import EncoderSection
from tasks.checkpoint import final_weights
from tasks.config.sections import RunConfig
from tasks.data import PreparedData
from tasks.export.decoder import decoder_config, decoder_weights
from tasks.export.encoder import ARCHITECTURES, encoder_config, encoder_weights
from tasks.mnli.dataset import LABELS
from tasks.parse import data_of, recorded_config
from tasks.text.tokenizer import BERT_MARKS, END, PAD

# The keys of the section `model` that the export converts to keys of Hugging Face, or that only
# training uses.
_MAPPED = frozenset(
    """
    name embedding_size heads head_size layers feedforward_size activation tie_embeddings dropout
    positions initializer_range position_encoding rotary_base rotary_size normalisation feedforward
    biases scale_embeddings attention.name attention.qk_norm attention.glorot
    attention.key_value_heads attention.latent_size attention.query_latent_size
    attention.rotary_size attention.value_size
    """.split()
)


def export(run: Run, folder: Path) -> list[Path]:
    """Export a finished run to `folder`, for Hugging Face. Return the paths of the new files.

    Raises:
        UserError: the run is not finished, no class of Hugging Face can compute its model, or the
            folder exists and is not empty.
    """
    is_empty = folder.is_dir() and not any(folder.iterdir())
    if folder.exists() and not is_empty:
        raise invalid_value("DIR", folder, "a new or empty folder", "choose another")
    weights, recorded = final_weights(run, "RUN"), recorded_config(run)
    section, name = recorded.model, recorded.task.name
    result = run.result()
    assert result is not None  # final_weights has checked this
    tokenizer = tokenizer_of(run, recorded).read_text("utf-8")
    if isinstance(section, DecoderSection):
        task: Any = recorded.task
        sizes = (task.vocabulary_size, task.sequence_length)
        config = decoder_config(section, *sizes, task.marks)
        tensors = decoder_weights(config, weights)
    elif isinstance(section, EncoderSection) and name in ARCHITECTURES:
        classes = result.data.get("labels", LABELS)
        config = encoder_config(section, name, weights, classes)
        tensors = encoder_weights(config, weights)
    else:
        expected = f"a decoder, or an encoder of the tasks {', '.join(ARCHITECTURES)}"
        raise invalid_value("RUN", run.id, expected, "export another run")
    check_mapped(section.model_dump())

    longest = config["max_position_embeddings"]
    make_directory(folder)
    # Clone, because safetensors rejects tensors that share memory, such as chunks of one tensor.
    own = {name: tensor.float().clone() for name, tensor in tensors.items()}
    content = safetensors.torch.save(own, {"format": "pt"})
    publish(folder / "model.safetensors", content)
    publish_json(folder / "config.json", config)
    publish(folder / "tokenizer.json", tokenizer)
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": longest}
    if isinstance(section, EncoderSection):
        # The list must include token_type_ids. Otherwise, both texts of a pair would get type 0.
        about["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
        about |= {f"{mark[1:-1].lower()}_token": mark for mark in BERT_MARKS}
    else:
        # The harness lm_eval needs the bos or the eos token, to predict the first token of a text
        # from it.
        marks = map(Tokenizer.from_str(tokenizer).id_to_token, task.marks)
        about |= zip(("bos_token", "eos_token"), marks, strict=True)
    publish_json(folder / "tokenizer_config.json", about)
    publish(
        folder / "README.md", _card(run.record(), result, config["architectures"][0])
    )
    return sorted(folder.iterdir())


def check_mapped(model: Mapping[str, Any]) -> None:
    """Raise UserError if the section `model` has a key that the export does not support."""
    for key, value in leaves(model).items():
        if key not in _MAPPED:
            expected = "a key that the export maps to Hugging Face"
            remedy = (
                "export a run of a built-in variant, or add the key to tasks/export"
            )
            raise invalid_value(f"model.{key}", value, expected, remedy)


def tokenizer_of(run: Run, config: RunConfig) -> Path:
    """Return the path of a run's tokenizer.

    Raises:
        UserError: the run's task has no text, or the file is missing.
    """
    data = data_of(config, run.outputs)
    if not isinstance(data, PreparedData):
        remedy = "choose a run of another task, such as lm1b"
        raise invalid_value("task", config.task.name, "a task on text", remedy)
    parents = getattr(config.task, "tokenizer", None)
    named = parents or data.folder_name()
    path = child(run.outputs / "data", named) / "tokenizer.json"
    if not path.is_file():
        whose = "the run's pre-training" if parents else "the run"
        command = f"`python -m tasks.prepare RUN`, where RUN is the folder of {whose}"
        raise UserError(
            f"{path} is missing; restore it, or write it again with {command}."
        )
    return path


def _card(record: Record, result: Result, architecture: str) -> str:
    """Return the model card of a run, with its metrics and config."""
    task = record.config["task"]
    metadata = yaml.safe_dump(_metadata(record, result), sort_keys=False)
    metrics = [f"| {name} | {value:.6g} |" for name, value in result.metrics.items()]
    config = [
        f"| {key} | {json.dumps(value)} |"
        for key, value in leaves(record.config).items()
        if value is not None
    ]
    rows = [_measured_rows(task)] if task["name"] == "lm1b" else []
    return _CARD.format(
        metadata=metadata,
        run=record.id,
        architecture=architecture,
        measured="\n".join([*metrics, *rows]),
        config="\n".join(config),
        weights=result.weights_sha256,
    )


_CARD = """\
---
{metadata}
---
# {run}

A small model that Headroom trained to compare sizes of attention heads.

```python
from transformers import {architecture}

model = {architecture}.from_pretrained("DIR")
```

## Measured

| metric | value |
| --- | --- |
{measured}

## Config

| key | value |
| --- | --- |
{config}

Weights: sha256 {weights}.
"""


def _measured_rows(task: Mapping[str, Any]) -> str:
    first, last = task.get("marks", (PAD, END))
    what, of = "A sentence", "it"
    if task.get("joined"):
        what, of = "A row of sentences", "each sentence"
    return (
        f"\n{what} is tested with token {first} before it and token {last} after {of}; the "
        "tokenizer does not add these tokens."
    )


# The names of our tasks on the Hugging Face hub.
_HUB_TASKS = {
    "lm1b": "text-generation",
    "pretraining": "fill-mask",
    "mnli": "text-classification",
    "squad": "question-answering",
}


def _metadata(record: Record, result: Result) -> dict[str, Any]:
    """Return the metadata at the top of a model card, in the format of the Hugging Face hub."""
    config, data = record.config, record.config["data"]
    hub = data["hub"]["path"] if data["source"] == "hub" else None
    measured = [
        {"type": name.removeprefix("test/"), "name": name, "value": value}
        for name, value in result.metrics.items()
    ]
    evaluation = {
        "task": {"type": _HUB_TASKS[config["task"]["name"]]},
        "dataset": {"name": hub or f"{data['source']} text", "type": hub or "text"},
        "metrics": measured,
    }
    return {
        "library_name": "transformers",
        "license": "unknown",
        "tags": ["headroom"],
        "datasets": [hub] if hub else [],
        "model-index": [{"name": record.id, "results": [evaluation]}],
    }
