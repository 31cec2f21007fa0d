"""Import of a model that Hugging Face `transformers` saved. This is the inverse of the export.

The import writes a finished run, which can be the parent of other runs. The run's id depends on the
config, the weights and the tokenizer of the model, but not on the path of its folder.
"""

import hashlib
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from typing_extensions import TypedDict

from models.bert_heads import PretrainingModel
from sweeper.store.errors import UserError, invalid_value, sanitize, spelled
from sweeper.store.files import child, make_directory, read_object
from sweeper.store.identity import run_id
from sweeper.store.records import Record
from sweeper.store.runs import RunStore
from tasks.architectures.decoder import DecoderSection
from tasks.architectures.encoder import EncoderSection
from tasks.checkpoint import WEIGHTS, differing, save, weights_digest
from tasks.export import decoder, encoder
from tasks.parse import checked
from tasks.text.tokenizer import LARGEST_VOCABULARY, TOKENIZER, save_tokenizer

ENCODERS = ("BertForPreTraining", "BertForMaskedLM")
DECODERS = ("MistralForCausalLM", "Qwen3ForCausalLM", "DeepseekV3ForCausalLM")

# Ignore these keys of config.json, because they change no output of the models that we import:
# - Most of them are about names, storage, training or generation, or follow from other sizes.
# - A sliding window matters only in rows that are longer than it, and the task rejects such rows.
# - Keys of expert layers change nothing in a model without such layers.
# - Some keys of published BERTs, such as pooler_type, have no effect in any class of
#   `transformers`.
IRRELEVANT = frozenset(
    """
    architectures model_type transformers_version _name_or_path dtype torch_dtype use_cache
    bos_token_id eos_token_id pad_token_id id2label label2id classifier_dropout attention_dropout
    hidden_dropout_prob attention_probs_dropout_prob initializer_range gradient_checkpointing
    sliding_window use_sliding_window max_window_layers layer_types
    pretraining_tp qk_head_dim num_nextn_predict_layers output_past directionality
    pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type
    n_routed_experts n_shared_experts num_experts_per_tok n_group topk_group norm_topk_prob
    moe_intermediate_size routed_scaling_factor output_router_logits
    """.split()
)
# config.json may lack these keys, because some classes or versions of `transformers` do not write
# them.
OPTIONAL = frozenset(
    "head_dim rope_theta rope_parameters tie_word_embeddings attention_bias".split()
)
# Keys that the export does not write, with the only value of each that our models support.
FIXED: dict[str, Any] = {
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,  # for encoders only; the export of a decoder writes this key
    "position_embedding_type": "absolute",
    "rope_scaling": None,
}
# An encoder may lack tensors with these prefixes, since fine-tuning creates new output layers.
HEADS = ("bert.pooler.", "cls.")
# Skip tensors whose names have these suffixes, because their values follow from the config or from
# another tensor.
DERIVED = (
    "position_ids",
    "inv_freq",
    "predictions.decoder.weight",
    "predictions.decoder.bias",
)


class _Config(TypedDict, total=False):
    """The types of keys of config.json that the schema of the section `model` does not check."""

    architectures: list[str] | None
    vocab_size: int
    rope_parameters: dict[str, Any] | None
    sliding_window: int | None


class _Token(TypedDict):
    content: str


class _Marks(TypedDict, total=False):
    """The types of the keys of tokenizer_config.json that the import uses."""

    bos_token: str | _Token | None
    eos_token: str | _Token | None


def import_folder(folder: Path, outputs: Path) -> str:
    """Import the model that `transformers` saved in `folder` as a finished run. Return its id.

    If the same model was imported before, return the id of the existing run.

    Raises:
        UserError: our models do not support the class, an option or a tensor of the saved model, or
            a file is missing or unreadable. The message names the folder.
    """
    try:
        return _import(folder, outputs)
    except UserError as error:
        raise UserError(f"parent={folder}: {error}") from error


def _import(folder: Path, outputs: Path) -> str:
    config = _object(folder / "config.json", _Config)
    [name, *_] = config.get("architectures") or ["no class"]
    if name not in ENCODERS + DECODERS:
        expected = f"one of {', '.join(ENCODERS + DECODERS)}"
        raise invalid_value("architectures", name, expected, "choose another model")
    tokenizer = _read(folder / "tokenizer.json", Tokenizer.from_file)
    # Remove settings for padding and truncation, which the file may contain. Our rows use neither.
    tokenizer.no_padding()
    tokenizer.no_truncation()

    smallest = max(tokenizer.get_vocab().values(), default=-1) + 1
    vocabulary: Any = config.get("vocab_size")
    if vocabulary not in range(smallest, LARGEST_VOCABULARY + 1):
        expected = (
            f"at least {smallest}, the tokenizer's size, and at most {LARGEST_VOCABULARY}, since "
            "Headroom stores a token id in two bytes"
        )
        remedy = (
            "save the tokenizer that belongs to these weights, or choose another model"
        )
        raise invalid_value("vocab_size", vocabulary, expected, remedy)

    model, is_encoder = _model(name, config), name in ENCODERS
    architecture = EncoderSection if is_encoder else DecoderSection
    section: Any = checked(architecture.schema_of(model), model, "model")
    task: dict[str, Any]
    with torch.device("meta"):
        try:
            network = section.build(vocabulary)
        except ValueError as error:  # the attention does not support these sizes
            raise UserError(f"config.json: {error}.") from error
        if is_encoder:
            own = PretrainingModel(network).state_dict()
            exported = encoder.encoder_config(section, "pretraining", own)
            export, task = encoder.encoder_weights, {"name": "pretraining"}
        else:
            own = network.state_dict()
            length: Any = config.get("max_position_embeddings")
            marks = _marks(folder, config, tokenizer)
            exported = decoder.decoder_config(section, vocabulary, length)
            # The key `longest` makes the task reject rows that are longer than the sliding window,
            # because our attention has no such window.
            longest = config.get("sliding_window")
            export = decoder.decoder_weights
            task = {"name": "lm1b", "marks": marks, "longest": longest}
    _check_options(config, exported)
    weights = _under_our_names(
        _weights(folder), own, lambda ours: export(exported, ours)
    )

    content = f"{weights_digest(weights)} {tokenizer.to_str()}"
    digest = hashlib.sha256(content.encode()).hexdigest()
    task |= {"tokenizer": f"published-{digest[:16]}", "vocabulary_size": vocabulary}
    model["head_size"] = section.resolved_head_size
    about = {"seed": 0, "trainer": {"steps": 0}, "parent": None}
    recorded = {"task": task, "model": model, **about}

    data = child(outputs / "data", task["tokenizer"])
    make_directory(data)
    save_tokenizer(tokenizer, data / TOKENIZER)
    record = Record(run_id(recorded), recorded)
    run = RunStore(outputs).freeze(record)
    if run.result() is None:
        # Several processes may import this folder at the same time. Each claims its own attempt,
        # and the first to finish publishes the result.
        attempt = run.claim({})
        save(weights, attempt.checkpoint_dir / WEIGHTS, run.id)
        result = {"metrics": {}, "steps": 0, "weights_sha256": weights_digest(weights)}
        run.publish_result(attempt, result)
    return run.id


def _model(name: str, config: dict[str, Any]) -> dict[str, Any]:
    """Convert the content of config.json to our config section `model`.

    Keys that are not converted are ignored here. `_check_options` checks them.

    Args:
        name: the class of the saved model, such as "MistralForCausalLM".
        config: the content of config.json.
    """

    def given(keys: Mapping[str, str]) -> dict[str, Any]:
        return {ours: config.get(theirs) for ours, theirs in keys.items()}

    # Any dropout will do, because a run that starts from this model sets its own.
    model: dict[str, Any] = {"dropout": 0.0}
    if name in ENCODERS:
        multi_head = {"name": "multi_head", "glorot": "matrix", "qk_norm": False}
        fixed = {"name": "encoder", "activation": "gelu", "tie_embeddings": True}
        fixed |= {"head_size": None, "attention": multi_head}
        return model | given(encoder.KEYS) | fixed

    # Version 5 of `transformers` writes rope_theta into the section rope_parameters.
    rotation = config.get("rope_parameters") or {}
    config = {"tie_word_embeddings": True, **config, **rotation}
    model |= decoder.NEEDED | given(decoder.KEYS | {"head_size": "head_dim"})
    if "Deepseek" in name:
        latent = given(decoder.LATENT_KEYS | {"value_size": "v_head_dim"})
        model["head_size"] = config.get("qk_nope_head_dim")
        attention = {"name": "latent", **latent}
    else:
        attention = given({"key_value_heads": "num_key_value_heads"})
        attention |= {"name": "grouped_query", "qk_norm": "Qwen3" in name}
    return model | {"name": "decoder", "attention": attention}


def _check_options(config: dict[str, Any], exported: dict[str, Any]) -> None:
    """Raise UserError if config.json lacks a key, or our model does not support a key or value.

    Args:
        config: the config.json of the saved model.
        exported: the config.json that the export of our model would write.
    """
    # DeepseekV3 also writes the number of rotated dimensions to head_dim.
    rotated = {"head_dim": config.get("qk_rope_head_dim")}
    wanted = FIXED | rotated | exported
    absent = exported.keys() - IRRELEVANT - OPTIONAL - config.keys()
    for key, value in (dict.fromkeys(absent, "(missing)") | config).items():
        if key in IRRELEVANT or (key in wanted and wanted[key] == value):
            continue
        expected = "no such key, since Headroom's models do not support it"
        if key in wanted:
            expected = f"{spelled(wanted[key])}, since Headroom's model supports no other value"
        remedy = "choose another model, or correct config.json if it is wrong"
        raise invalid_value(key, spelled(value), expected, remedy)


def _object(path: Path, schema: Any) -> dict[str, Any]:
    # Resolve links, which `read_object` rejects. The cache of huggingface_hub consists of links.
    return read_object(path.resolve(), schema=schema) or {}


def _read(path: Path, read: Callable[[str], Any]) -> Any:
    if not path.is_file():
        remedy = "save the model and its tokenizer in this folder with save_pretrained"
        raise UserError(f"{path.name} is missing; {remedy}.")
    try:
        return read(str(path))
    except Exception as error:  # `tokenizers` raises no narrower class
        why = f"{path.name} cannot be read ({sanitize(error)})"
        raise UserError(f"{why}; download or save it again.") from error


def _weights(folder: Path) -> dict[str, Tensor]:
    """Return the tensors in model.safetensors, except those with a suffix in DERIVED.

    Old models call the weight and the bias of a LayerNorm gamma and beta. This function renames
    them.
    """
    found = _read(folder / "model.safetensors", load_file)
    renamed = {
        name.replace(".gamma", ".weight").replace(".beta", ".bias"): tensor
        for name, tensor in found.items()
    }
    return {name: one for name, one in renamed.items() if not name.endswith(DERIVED)}


def _under_our_names(
    theirs: Mapping[str, Tensor],
    own: Mapping[str, Tensor],
    export: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]],
) -> dict[str, Tensor]:
    """Convert weights from the names of `transformers` to our names, in single precision.

    This inverts `export`, which only renames, splits and joins tensors. To do so, the function
    exports the numbers 0, 1, 2, ... in place of our weights. The exported numbers are then the
    positions of `theirs` among our weights.

    Args:
        theirs: the weights under the names of `transformers`.
        own: tensors with our names and shapes.
        export: the function that converts our weights to the names of `transformers`.

    Raises:
        UserError: a tensor is missing or unknown, has the wrong shape, or has numbers that are not
            finite.
    """
    sizes = [like.numel() for like in own.values()]
    numbers = zip(own.items(), torch.arange(sum(sizes)).split(sizes), strict=True)
    places = export({name: part.view(like.shape) for (name, like), part in numbers})

    for name, expected, found in differing(places, theirs):
        if found or not name.startswith(HEADS):
            what = f"the shape {expected}" if expected else "no such tensor"
            remedy = "save the model again, with its own config.json"
            raise invalid_value(name, found or "(missing)", what, remedy)

    weights = torch.full((sum(sizes),), math.nan)
    for name, tensor in theirs.items():
        # Reject integers. They are quantised weights, whose scales we do not read.
        if not (tensor.is_floating_point() and tensor.float().isfinite().all()):
            wanted = "finite floating-point numbers"
            value = "NaN or inf" if tensor.is_floating_point() else tensor.dtype
            raise invalid_value(name, value, wanted, "choose other weights")
        weights[places[name]] = tensor.float()
    parts = zip(own.items(), weights.split(sizes), strict=True)
    return {
        name: part.view(like.shape).clone()
        for (name, like), part in parts
        if not part.isnan().any()
    }


def _marks(
    folder: Path, config: Mapping[str, Any], tokenizer: Tokenizer
) -> tuple[int, int]:
    """Return the ids of the tokens before and after a text.

    If the tokenizer has no token for the beginning of a text, use the end token for both.
    """
    about = _object(folder / "tokenizer_config.json", _Marks)
    known = {*tokenizer.get_vocab().values()}

    def id_of(mark: str) -> Any:
        named = about.get(f"{mark}_token")
        token = named.get("content") if isinstance(named, dict) else named
        return tokenizer.token_to_id(token) if token else config.get(f"{mark}_token_id")

    first, last = id_of("bos"), id_of("eos")
    if last not in known:
        expected = "an end-of-text token that the tokenizer has"
        remedy = "set eos_token in tokenizer_config.json"
        raise invalid_value("eos_token", spelled(last), expected, remedy)
    return first if first in known else last, last
