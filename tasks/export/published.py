"""Import of a folder that Hugging Face `transformers` saved: the inverse of the export.

The import writes a finished run, from which others start as from any other run. The run's id has
the digest of the weights and of the tokenizer. So it does not depend on where the folder is.
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
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.files import child, make_directory, read_object
from sweeper.store.identity import run_id
from sweeper.store.records import Record
from sweeper.store.runs import RunStore
from tasks.architectures.decoder import DecoderSection
from tasks.architectures.encoder import EncoderSection
from tasks.checkpoint import WEIGHTS, differing, save, weights_digest
from tasks.config.schema import spelled
from tasks.export import decoder, encoder
from tasks.parse import checked
from tasks.text.tokenizer import LARGEST_VOCABULARY, TOKENIZER, save_tokenizer

ENCODERS = ("BertForPreTraining", "BertForMaskedLM")
DECODERS = ("MistralForCausalLM", "Qwen3ForCausalLM", "DeepseekV3ForCausalLM")

# The keys of config.json that change no output of the model: names, storage, training, generation,
# sizes that follow from others, windows, which rows may not exceed, experts, of which a model
# without such layers has none, and keys of published BERTs that no class reads, such as those of
# the pooler.
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
# Some classes and versions do not write these keys. The others must be there.
OPTIONAL = frozenset(
    "head_dim rope_theta rope_parameters tie_word_embeddings attention_bias".split()
)
# The values that our models need, of keys that the export does not write.
FIXED: dict[str, Any] = {
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,  # of encoders; the export writes it for decoders
    "position_embedding_type": "absolute",
    "rope_scaling": None,
}
# The output layers of an encoder may be missing, since fine-tuning makes new ones.
HEADS = ("bert.pooler.", "cls.")
# Tensors that follow from the config or from another tensor.
DERIVED = (
    "position_ids",
    "inv_freq",
    "predictions.decoder.weight",
    "predictions.decoder.bias",
)


class _Config(TypedDict, total=False):
    """The keys of config.json that no section of our config checks."""

    architectures: list[str] | None
    vocab_size: int
    rope_parameters: dict[str, Any] | None
    sliding_window: int | None


class _Token(TypedDict):
    content: str


class _Marks(TypedDict, total=False):
    """The keys of tokenizer_config.json that are read."""

    bos_token: str | _Token | None
    eos_token: str | _Token | None


def import_folder(folder: Path, outputs: Path) -> str:
    """Import a folder that transformers saved as a finished run. Return the run's id.

    A folder that was imported before gives the same id, and nothing is written.

    Raises:
        UserError: the folder has a class, an option or a tensor that no model of ours has, or a
            file is missing or unreadable. The message names the folder.
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
    # The file may keep the settings of an earlier call. Rows have lengths of their own.
    tokenizer.no_padding()
    tokenizer.no_truncation()

    pieces = max(tokenizer.get_vocab().values(), default=-1) + 1
    vocabulary: Any = config.get("vocab_size")
    if vocabulary not in range(pieces, LARGEST_VOCABULARY + 1):
        expected = f"{pieces}, the size of the tokenizer, to {LARGEST_VOCABULARY}"
        remedy = "save the tokenizer of these weights"
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
            # A window matters only to longer rows, which the task refuses.
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
        # Another process may import the same folder. Each has its own attempt; one is published.
        attempt = run.claim({})
        save(weights, attempt.checkpoint_dir / WEIGHTS, run.id)
        result = {"metrics": {}, "steps": 0, "weights_sha256": weights_digest(weights)}
        run.publish_result(attempt, result)
    return run.id


def _model(name: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return the section `model` for a class of transformers.

    `_check_options` compares the keys that are not read here.
    """

    def given(keys: Mapping[str, str]) -> dict[str, Any]:
        return {ours: config.get(theirs) for ours, theirs in keys.items()}

    model: dict[str, Any] = {"dropout": 0.0}  # a run sets its own
    if name in ENCODERS:
        multi_head = {"name": "multi_head", "glorot": "matrix", "qk_norm": False}
        fixed = {"name": "encoder", "activation": "gelu", "tie_embeddings": True}
        fixed |= {"head_size": None, "attention": multi_head}
        return model | given(encoder.KEYS) | fixed

    # Version 5 of transformers has the base of the rotations in a section.
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
    """Raise UserError for a key of config.json that our model does not have.

    Args:
        exported: the config.json that the export of our model would write.
    """
    rotated = {"head_dim": config.get("qk_rope_head_dim")}  # in DeepseekV3
    wanted = FIXED | rotated | exported
    absent = exported.keys() - IRRELEVANT - OPTIONAL - config.keys()
    for key, value in (dict.fromkeys(absent, "(missing)") | config).items():
        if key in IRRELEVANT or (key in wanted and wanted[key] == value):
            continue
        expected = "no such key, since no model of ours has it"
        if key in wanted:
            expected = f"{spelled(wanted[key])}, which our model computes"
        remedy = "choose another model, or correct config.json if it is wrong"
        raise invalid_value(key, spelled(value), expected, remedy)


def _object(path: Path, schema: Any) -> dict[str, Any]:
    # The cache of huggingface_hub consists of symbolic links.
    return read_object(path.resolve(), schema=schema) or {}


def _read(path: Path, read: Callable[[str], Any]) -> Any:
    if not path.is_file():
        remedy = "save the model and its tokenizer there with save_pretrained"
        raise invalid_value(path.name, "(missing)", "this file", remedy)
    try:
        return read(str(path))
    except Exception as error:  # the tokenizers library raises no narrower class
        expected = f"a readable file ({sanitize(error)})"
        remedy = "download or save it again"
        raise invalid_value(path.name, "(damaged)", expected, remedy) from error


def _weights(folder: Path) -> dict[str, Tensor]:
    """Return the tensors of a folder by their names in today's versions of transformers."""
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
    """Return weights under our names, in single precision.

    The export only renames, splits and joins tensors. So the export of consecutive numbers tells
    where each of the weights belongs.

    Args:
        theirs: the weights by their names in transformers.
        own: tensors with our names and shapes.
        export: the function that returns our weights under the names of transformers.

    Raises:
        UserError: a tensor is missing, unknown, of another shape, or not of finite numbers.
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
        # Integers are quantised weights, whose scales are elsewhere.
        if not (tensor.is_floating_point() and tensor.float().isfinite().all()):
            wanted = "finite floating-point numbers"
            raise invalid_value(name, tensor.dtype, wanted, "choose other weights")
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

    If a tokenizer has no first token, the last one is also before a text.
    """
    about = _object(folder / "tokenizer_config.json", _Marks)
    known = {*tokenizer.get_vocab().values()}

    def id_of(mark: str) -> Any:
        named = about.get(f"{mark}_token")
        piece = named.get("content") if isinstance(named, dict) else named
        return tokenizer.token_to_id(piece) if piece else config.get(f"{mark}_token_id")

    first, last = id_of("bos"), id_of("eos")
    if last not in known:
        expected = "the id of the token that ends a text"
        remedy = "name its eos_token in tokenizer_config.json"
        raise invalid_value("eos_token", spelled(last), expected, remedy)
    return first if first in known else last, last
