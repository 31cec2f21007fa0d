"""Import of a folder that Hugging Face `transformers` saved: the inverse of the export.

The import writes a finished run, from which others start as from any other run. The run's id has
the digest of the weights and of the tokenizer. So it does not depend on where the folder is.

Shapes: N numbers of all weights.
"""

import hashlib
import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from models.bert_heads import PretrainingModel
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.files import child, make_directory, read_object
from sweeper.store.identity import run_id
from sweeper.store.records import Record
from sweeper.store.runs import RunStore
from tasks.architectures.decoder import DecoderSection
from tasks.architectures.encoder import EncoderSection
from tasks.checkpoint import WEIGHTS, save, weights_digest
from tasks.config.architecture import Architecture
from tasks.config.schema import Section, extended, spelled, whole
from tasks.export.decoder import NEEDED, decoder_config, decoder_weights
from tasks.export.encoder import encoder_config, encoder_weights
from tasks.parse import checked
from tasks.text.tokenizer import LARGEST_VOCABULARY, TOKENIZER, save_tokenizer

ENCODERS = ("BertForPreTraining", "BertForMaskedLM")
DECODERS = ("MistralForCausalLM", "Qwen3ForCausalLM", "DeepseekV3ForCausalLM")

# The keys of config.json that change no output of the model: names, storage, training, generation,
# sizes that follow from others, and experts, which a model without such layers does not have.
IRRELEVANT = frozenset(
    """
    architectures model_type transformers_version _name_or_path dtype torch_dtype use_cache
    bos_token_id eos_token_id pad_token_id id2label label2id classifier_dropout attention_dropout
    hidden_dropout_prob attention_probs_dropout_prob initializer_range gradient_checkpointing
    max_window_layers pretraining_tp qk_head_dim num_nextn_predict_layers
    n_routed_experts n_shared_experts num_experts_per_tok n_group topk_group norm_topk_prob
    moe_intermediate_size routed_scaling_factor output_router_logits
    """.split()
)
# These keys are missing in the configs of some versions and classes. The others must be there.
OPTIONAL = frozenset(
    "head_dim rope_theta rope_parameters tie_word_embeddings attention_bias".split()
)
# These keys must have the values with which our models compute the same.
FIXED = {
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,  # of encoders; decoders map it
    "position_embedding_type": "absolute",
    "rope_scaling": None,
    "use_sliding_window": False,
}
# The output layers of an encoder may be missing, since fine-tuning makes new ones.
HEADS = ("bert.pooler.", "cls.")


class PublishedModel(Section):
    """The keys of a run that are known of a published model."""

    vocabulary_size: Annotated[int, whole(1, LARGEST_VOCABULARY, 30_522)]
    model: Architecture


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
    config = read_object(folder / "config.json") or {}
    [name, *_] = config.get("architectures") or ["no class"]
    if name not in ENCODERS + DECODERS:
        expected = f"one of {', '.join(ENCODERS + DECODERS)}"
        raise invalid_value("architectures", name, expected, "choose another model")

    is_encoder = name in ENCODERS
    model = _encoder_model(config) if is_encoder else _decoder_model(name, config)
    schema = (EncoderSection if is_encoder else DecoderSection).schema_of(model)
    values = {"vocabulary_size": config.get("vocab_size"), "model": model}
    published = checked(extended(PublishedModel, model=schema), values)
    section, vocabulary = published.model, published.vocabulary_size

    with torch.device("meta"):
        network = section.build(vocabulary)
        own = (PretrainingModel(network) if is_encoder else network).state_dict()
    if is_encoder:
        exported = encoder_config(section, "pretraining", own)
        export = partial(encoder_weights, exported)
    else:
        length = config.get("max_position_embeddings")
        exported = decoder_config(section, vocabulary, length)
        export = partial(decoder_weights, exported)
    # A window matters only to rows that are longer, which the task refuses.
    longest = config.get("sliding_window")
    if "sliding_window" in exported:
        exported["sliding_window"] = longest
    _check_options(config, exported, section.layers)
    weights = _inverted(export, own, _read_weights(folder))

    tokenizer = _tokenizer(folder, vocabulary)
    task: dict[str, Any] = {"name": "pretraining", "vocabulary_size": vocabulary}
    if not is_encoder:
        marks = _marks(folder, config, tokenizer)
        task |= {"name": "lm1b", "marks": marks, "longest": longest}
    content = f"{weights_digest(weights)} {tokenizer.to_str()}"
    digest = hashlib.sha256(content.encode()).hexdigest()
    task["tokenizer"] = f"published-{digest[:16]}"
    head_size = {"head_size": section.resolved_head_size}
    recorded = {
        **{"seed": 0, "task": task, "trainer": {"steps": 0}, "parent": None},
        "model": section.model_copy(update=head_size).model_dump(),
    }

    data = child(outputs / "data", task["tokenizer"])
    if not (data / TOKENIZER).is_file():
        make_directory(data)
        save_tokenizer(tokenizer, data / TOKENIZER)
    record = Record(run_id(recorded), recorded)
    if RunStore(outputs).run(record.id).result() is None:
        _write_run(record, weights, outputs)
    return record.id


def _sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "layers": config.get("num_hidden_layers"),
        "embedding_size": config.get("hidden_size"),
        "heads": config.get("num_attention_heads"),
        "feedforward_size": config.get("intermediate_size"),
        "dropout": 0.0,  # a run sets its own
    }


def _encoder_model(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section `model` of an encoder. `_check_options` compares all other keys."""
    return _sizes(config) | {
        "name": "encoder",
        "head_size": None,
        "activation": "gelu",
        "tie_embeddings": True,
        "positions": config.get("max_position_embeddings"),
        "initializer_range": config.get("initializer_range"),
        "attention": {"name": "multi_head", "qk_norm": False, "glorot": "matrix"},
    }


def _decoder_model(name: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section `model` of a decoder. `_check_options` compares all other keys."""
    rotation = config.get("rope_parameters") or config
    model = _sizes(config) | {
        **NEEDED,
        "name": "decoder",
        "activation": config.get("hidden_act"),
        "tie_embeddings": config.get("tie_word_embeddings", True),
        "rotary_base": rotation.get("rope_theta"),
    }
    if name == "DeepseekV3ForCausalLM":
        attention = {
            "name": "latent",
            "latent_size": config.get("kv_lora_rank"),
            "query_latent_size": config.get("q_lora_rank"),
            "rotary_size": config.get("qk_rope_head_dim"),
            "value_size": config.get("v_head_dim"),
        }
        return model | {
            "head_size": config.get("qk_nope_head_dim"),
            "attention": attention,
        }

    shared, qk_norm = config.get("num_key_value_heads"), name == "Qwen3ForCausalLM"
    attention = {"name": "multi_head", "qk_norm": qk_norm, "glorot": "matrix"}
    if shared != model["heads"]:
        attention = {"name": "grouped_query", "qk_norm": qk_norm}
        attention["key_value_heads"] = shared
    return model | {"head_size": config.get("head_dim"), "attention": attention}


def _check_options(
    config: Mapping[str, Any], exported: Mapping[str, Any], layers: int
) -> None:
    """Raise UserError for a key of config.json that the model of ours does not have.

    Args:
        exported: the config.json that the export of this model would write.
    """
    remedy = "choose another model, or remove the key if it changes no output"
    derived = {
        "layer_types": ["full_attention"] * layers,
        "head_dim": config.get("qk_rope_head_dim"),  # of DeepseekV3
    }
    wanted = FIXED | derived | exported
    for key in exported.keys() - IRRELEVANT - OPTIONAL - config.keys():
        raise invalid_value(key, "(missing)", spelled(wanted[key]), "save it again")
    for key, value in config.items():
        # Layers up to this one have no experts.
        dense = key == "first_k_dense_replace" and isinstance(value, int)
        given = min(value, layers) if dense else value
        if key in IRRELEVANT or (key in wanted and wanted[key] == given):
            continue
        expected = "no such key, since no model of ours has it"
        if key in wanted:
            expected = f"{spelled(wanted[key])}, the only value that our model computes"
        raise invalid_value(key, spelled(value), expected, remedy)


def _read_weights(folder: Path) -> dict[str, Tensor]:
    names = ("model.safetensors", "model-*-of-*.safetensors")
    paths = [path for name in names for path in sorted(folder.glob(name))]
    if not paths:
        expected = "the file model.safetensors, which save_pretrained writes"
        raise invalid_value("weights", "(missing)", expected, "save the model again")
    found: dict[str, Tensor] = {}
    for path in paths:
        try:
            found |= load_file(path)
        except SafetensorError as error:
            remedy = "download or save it again"
            expected = f"a readable file ({sanitize(error)})"
            raise invalid_value("weights", path.name, expected, remedy) from error

    # Old checkpoints of BERT have other names for scales, and buffers that follow from the config.
    renamed = {
        name.replace(".gamma", ".weight").replace(".beta", ".bias"): tensor
        for name, tensor in found.items()
    }
    buffers = ("position_ids", "inv_freq")
    return {
        name: tensor for name, tensor in renamed.items() if not name.endswith(buffers)
    }


def _inverted(
    export: Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]],
    own: Mapping[str, Tensor],
    theirs: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """Return the weights `theirs` under our names, in single precision.

    The export only renames, splits and joins tensors. So the export of tensors that hold the
    numbers 0 to N - 1 tells where each number of `theirs` belongs.

    Args:
        export: the function that returns our weights under the names of transformers.
        own: tensors with our names and shapes.

    Raises:
        UserError: a tensor is missing, unknown or of another shape.
    """
    ends = [*itertools.accumulate(tensor.numel() for tensor in own.values())]
    size = ends[-1]
    order_N = torch.arange(size, dtype=torch.int32 if size < 2**31 else torch.int64)
    parts = zip(own.items(), order_N.tensor_split(ends[:-1]), strict=True)
    places = export({name: part.view(like.shape) for (name, like), part in parts})

    for name, tensor in theirs.items():
        shape = tuple(tensor.shape)
        expected = tuple(places[name].shape) if name in places else "no such tensor"
        if shape != expected:
            what = f"{expected}, as the sizes in config.json give it"
            raise invalid_value(name, shape, what, "save the model again")

    weights_N, filled_N = torch.empty(size), torch.zeros(size, dtype=torch.bool)
    for name, tensor in theirs.items():
        place = places[name].flatten()
        weights_N[place], filled_N[place] = tensor.float().flatten(), True
    for name, place in places.items():
        if not name.startswith(HEADS) and not filled_N[place.flatten()].all():
            expected = f"a tensor of shape {tuple(place.shape)}"
            raise invalid_value(name, "(missing)", expected, "save the model again")

    found = {}
    filled = filled_N.tensor_split(ends[:-1])
    for (name, like), part, is_there in zip(
        own.items(), weights_N.tensor_split(ends[:-1]), filled, strict=True
    ):
        if is_there.all():
            found[name] = part.view(like.shape).clone()
    return found


def _tokenizer(folder: Path, vocabulary: int) -> Tokenizer:
    path = folder / "tokenizer.json"
    if not path.is_file():
        expected = "this file, since the tokenizer belongs to the weights"
        remedy = "save it there: AutoTokenizer.from_pretrained(NAME).save_pretrained(DIR)"
        raise invalid_value("tokenizer.json", "(missing)", expected, remedy)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no narrower class
        expected = f"a tokenizer ({sanitize(error)})"
        raise invalid_value(path.name, "(unreadable)", expected, "save it again") from None
    # Files may keep the settings of the last call. Rows have lengths of their own.
    tokenizer.no_padding()
    tokenizer.no_truncation()
    largest = max(tokenizer.get_vocab().values(), default=0)
    if largest >= vocabulary:
        expected = f"less than vocab_size={vocabulary} of config.json"
        remedy = "save the tokenizer of these weights"
        raise invalid_value("largest id of tokenizer.json", largest, expected, remedy)
    return tokenizer


def _marks(
    folder: Path, config: Mapping[str, Any], tokenizer: Tokenizer
) -> tuple[int, int]:
    """Return the ids of the tokens before and after a text.

    A tokenizer without a first token has the last one before a text, too.
    """
    about = read_object(folder / "tokenizer_config.json") or {}
    found = []
    for mark in ("bos", "eos"):
        named = about.get(f"{mark}_token")
        piece = named.get("content") if isinstance(named, dict) else named
        id = tokenizer.token_to_id(piece) if piece else config.get(f"{mark}_token_id")
        found.append(id)
    first, last = found
    first = last if first is None else first
    for id in (first, last):
        if type(id) is not int or not 0 <= id < config["vocab_size"]:
            expected = "one token of the tokenizer, which ends a text"
            remedy = "name it in tokenizer_config.json"
            raise invalid_value("eos_token", spelled(id), expected, remedy)
    return first, last


def _write_run(record: Record, weights: Mapping[str, Tensor], outputs: Path) -> None:
    """Write a finished run. Other processes see all of it or nothing."""
    runs = outputs / "runs"
    make_directory(runs)
    with TemporaryDirectory(prefix=".import.", dir=outputs) as made:
        run = RunStore(Path(made)).freeze(record)
        attempt = run.claim({})
        save(weights, attempt.checkpoint_dir / WEIGHTS, run.id)
        result = {"metrics": {}, "steps": 0, "weights_sha256": weights_digest(weights)}
        run.publish_result(attempt, result)
        # Another process may have imported the same folder in the meantime.
        with suppress(OSError):
            run.path.rename(runs / run.id)
