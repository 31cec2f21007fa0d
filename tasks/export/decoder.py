"""Conversion of a decoder's config and weights to Hugging Face's Mistral, Qwen3 or DeepseekV3.

Llama computes the same as Mistral. The export does not use Llama, because its class rejects an
embedding size that is not divisible by the number of heads.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from sweeper.store.errors import spelled
from tasks.architectures.decoder import DecoderSection
from tasks.export.encoder import SIZES, unsupported
from tasks.text.tokenizer import END, PAD

# The values of the section `model` that Mistral, Qwen3 and DeepseekV3 require. The paper's decoder
# has other values, so it cannot be exported.
NEEDED = {
    "position_encoding": "rotary",
    "rotary_size": None,
    "normalisation": "rms",
    "feedforward": "gated",
    "biases": False,
    "scale_embeddings": False,
}
# The names of our keys in config.json.
KEYS = {
    **SIZES,
    "tie_embeddings": "tie_word_embeddings",
    # Versions of `transformers` before 5 read rope_theta instead of rope_parameters.
    "rotary_base": "rope_theta",
}
LATENT_KEYS = {
    "rotary_size": "qk_rope_head_dim",
    "latent_size": "kv_lora_rank",
    "query_latent_size": "q_lora_rank",
}
VARIANTS = ("multi_head", "grouped_query", "latent")


def decoder_config(
    section: DecoderSection,
    vocabulary: int,
    length: int,
    marks: Sequence[int] = (PAD, END),
) -> dict[str, Any]:
    """Return the content of config.json for an exported decoder.

    Args:
        section: the section `model` of the run.
        vocabulary: the number of tokens in the vocabulary.
        length: the largest number of tokens in a sequence.
        marks: the ids of the tokens that come before and after a sentence in training.

    Raises:
        UserError: none of the three classes can compute the model. The message names the
            unsupported key of `section`.
    """
    for key, needed in NEEDED.items():
        if (value := getattr(section, key)) != needed:
            raise unsupported(
                f"model.{key}", value, f"{spelled(needed)}, as in model=today"
            )
    if (head_size := section.one_head_size) is None or section.uneven:
        raise unsupported(
            "model.head_size", section.head_size, "one size for all heads"
        )
    attention: Any = section.attention
    if attention.name not in VARIANTS:
        raise unsupported(
            "model.attention.name", attention.name, f"one of {', '.join(VARIANTS)}"
        )
    config = {
        "vocab_size": vocabulary,
        **{name: getattr(section, key) for key, name in KEYS.items()},
        "max_position_embeddings": length,
        "rms_norm_eps": 1.0e-6,
        "rope_parameters": {"rope_type": "default", "rope_theta": section.rotary_base},
        "attention_bias": False,
        "bos_token_id": marks[0],
        "eos_token_id": marks[1],
        "pad_token_id": None,
        "dtype": "float32",
    }
    if attention.name == "latent":
        return config | {
            "architectures": ["DeepseekV3ForCausalLM"],
            "model_type": "deepseek_v3",
            "num_key_value_heads": section.heads,
            **{name: getattr(attention, key) for key, name in LATENT_KEYS.items()},
            "qk_nope_head_dim": head_size,
            "v_head_dim": attention.value_size or head_size,
            "rope_interleave": False,
            # The number of dense layers at the bottom. It is the number of all layers, so that no
            # layer has experts.
            "first_k_dense_replace": section.layers,
        }
    name, kind = ("Qwen3", "qwen3") if attention.qk_norm else ("Mistral", "mistral")
    return config | {
        "architectures": [f"{name}ForCausalLM"],
        "model_type": kind,
        "num_key_value_heads": getattr(attention, "key_value_heads", section.heads),
        "head_dim": head_size,
        "sliding_window": None,
    }


def decoder_weights(
    config: Mapping[str, Any], weights: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Convert the weights of a decoder to their Hugging Face names, and return them.

    This also works for gradients and other tensors with the shapes of the weights.

    Args:
        config: the content of config.json.
        weights: the weights, under their names in the decoder's `state_dict`.
    """
    found = {
        "model.embed_tokens.weight": weights["embedding.weight"],
        "model.norm.weight": weights["final_norm.weight"],
    }
    if "softmax.weight" in weights:
        found["lm_head.weight"] = weights["softmax.weight"]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"blocks.{layer}."
        own = {
            name.removeprefix(prefix): value
            for name, value in weights.items()
            if name.startswith(prefix)
        }
        gate, up = own["feed_forward.expand.weight"].chunk(2)
        layers = {
            "input_layernorm": own["attention_norm.weight"],
            "post_attention_layernorm": own["feed_forward_norm.weight"],
            "mlp.gate_proj": gate,
            "mlp.up_proj": up,
            "mlp.down_proj": own["feed_forward.contract.weight"],
            "self_attn.o_proj": own["attention.output.weight"],
        }
        attention = _latent if "attention.shared.weight" in own else _heads
        layers |= attention(config, own)
        found |= {
            f"model.layers.{layer}.{name}.weight": one for name, one in layers.items()
        }
    return found


def _heads(config: Mapping[str, Any], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    heads, shared = config["num_attention_heads"], config["num_key_value_heads"]
    sizes = [config["head_dim"] * number for number in (heads, shared, shared)]
    names = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
    found = dict(
        zip(names, torch.split(own["attention.qkv.weight"], sizes), strict=True)
    )
    if "attention.norm.query" in own:
        found["self_attn.q_norm"] = own["attention.norm.query"]
        found["self_attn.k_norm"] = own["attention.norm.key"]
    return found


def _latent(config: Mapping[str, Any], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    # Hugging Face has one matrix for keys and values, in which each head's key projection comes
    # before its value projection.
    heads = (config["num_attention_heads"], -1)
    parts = [
        own[f"attention.{name}.weight"].unflatten(0, heads) for name in ("key", "value")
    ]
    found = {
        "self_attn.kv_a_proj_with_mqa": own["attention.shared.weight"],
        "self_attn.kv_a_layernorm": own["attention.latent_norm.weight"],
        "self_attn.kv_b_proj": torch.cat(parts, 1).flatten(0, 1),
    }
    if config["q_lora_rank"] is None:
        return found | {"self_attn.q_proj": own["attention.query.weight"]}
    return found | {
        "self_attn.q_a_proj": own["attention.query_latent.0.weight"],
        "self_attn.q_a_layernorm": own["attention.query_latent.1.weight"],
        "self_attn.q_b_proj": own["attention.query.weight"],
    }
