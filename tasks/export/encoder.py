"""Conversion of an encoder's config and weights to Hugging Face's BERT.

The weights include the output layers of the encoder's task.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from sweeper.store.errors import UserError, invalid_value, spelled
from tasks.architectures.encoder import EncoderSection
from tasks.mnli.dataset import LABELS

# The names of our keys in config.json.
SIZES = {
    "layers": "num_hidden_layers",
    "embedding_size": "hidden_size",
    "heads": "num_attention_heads",
    "feedforward_size": "intermediate_size",
    "activation": "hidden_act",
}
KEYS = {
    **SIZES,
    "positions": "max_position_embeddings",
    "initializer_range": "initializer_range",
}
ARCHITECTURES = {
    "pretraining": "BertForPreTraining",
    "mnli": "BertForSequenceClassification",
    "squad": "BertForQuestionAnswering",
}
_LAYER = {
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "feed_forward.expand": "intermediate.dense",
    "feed_forward.contract": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
_MODEL = {
    "encoder.embedding.tokens": "bert.embeddings.word_embeddings",
    "encoder.embedding.positions": "bert.embeddings.position_embeddings",
    "encoder.embedding.types": "bert.embeddings.token_type_embeddings",
    "encoder.embedding.norm": "bert.embeddings.LayerNorm",
    "pooler.dense": "bert.pooler.dense",
    "masked_tokens.dense": "cls.predictions.transform.dense",
    "masked_tokens.norm": "cls.predictions.transform.LayerNorm",
    "masked_tokens": "cls.predictions",
    "next_sentence": "cls.seq_relationship",
    "classes": "classifier",
    "ends": "qa_outputs",
}


def encoder_config(
    section: EncoderSection,
    task: str,
    weights: Mapping[str, Tensor],
    labels: Sequence[str] = LABELS,
) -> dict[str, Any]:
    """Return the content of config.json for an exported encoder.

    Args:
        section: the section `model` of the run.
        task: the name of the task.
        weights: the final weights of the run.
        labels: the names of MNLI's classes, in the order of the class numbers.

    Raises:
        UserError: Hugging Face's BERT cannot compute the model. The message names the unsupported
            key of `section`.
    """
    attention: Any = section.attention
    if attention.name != "multi_head":
        raise unsupported("model.attention.name", attention.name, "multi_head")
    if attention.qk_norm:
        raise unsupported("model.attention.qk_norm", True, "false")
    # The head that predicts masked tokens uses the encoder's activation in Hugging Face's BERT, but
    # always gelu in our model (MaskedTokenHead).
    if task == "pretraining" and section.activation != "gelu":
        raise unsupported("model.activation", section.activation, "gelu")
    size = section.one_head_size
    if size is None or section.uneven or size * section.heads != section.embedding_size:
        expected = f"null or {section.embedding_size / section.heads:g} (embedding_size / heads)"
        raise unsupported("model.head_size", section.head_size, expected)
    classes: dict[str, Any] = {}
    if "classes.bias" in weights:
        numbers = {label: number for number, label in enumerate(labels)}
        classes = {
            "label2id": numbers,
            "id2label": {n: label for label, n in numbers.items()},
        }
    return {
        "architectures": [ARCHITECTURES[task]],
        "model_type": "bert",
        "vocab_size": len(weights["encoder.embedding.tokens.weight"]),
        **{name: getattr(section, key) for key, name in KEYS.items()},
        "type_vocab_size": 2,
        "layer_norm_eps": 1.0e-12,
        "hidden_dropout_prob": section.dropout,
        "attention_probs_dropout_prob": section.dropout,
        "pad_token_id": 0,
        "dtype": "float32",
        **classes,
    }


def unsupported(key: str, value: Any, expected: str) -> UserError:
    """Return the UserError for a config key whose value Hugging Face's classes do not support.

    `expected` describes the values that they support.
    """
    expected += ", since Hugging Face's classes support no other value"
    return invalid_value(key, spelled(value), expected, "export a run with that value")


def encoder_weights(
    config: Mapping[str, Any], weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Convert the weights of an encoder to their Hugging Face names, and return them.

    Args:
        config: the content of config.json.
        weights: the weights, under their names in the `state_dict` of the run's model.
    """
    names, found = dict(_MODEL), dict[str, Tensor]()
    for layer in range(config["num_hidden_layers"]):
        ours, theirs = f"encoder.blocks.{layer}.", f"bert.encoder.layer.{layer}."
        names |= {ours + own: theirs + name for own, name in _LAYER.items()}
    for name, value in weights.items():
        place, _, kind = name.rpartition(".")
        if place in names:
            found[f"{names[place]}.{kind}"] = value
            continue
        block, _, _ = place.rpartition(".attention.qkv")
        prefix = (
            block.replace("encoder.blocks", "bert.encoder.layer") + ".attention.self."
        )
        for part, one in zip(("query", "key", "value"), value.chunk(3), strict=True):
            found[f"{prefix}{part}.{kind}"] = one
    # The softmax layer shares these tensors. Write them under a second name, as Hugging Face does.
    if "cls.predictions.bias" in found:
        found["cls.predictions.decoder.bias"] = found["cls.predictions.bias"]
        found["cls.predictions.decoder.weight"] = found[
            "bert.embeddings.word_embeddings.weight"
        ]
    return found
