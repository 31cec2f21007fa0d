"""The `huggingface` architecture: any causal language model of Hugging Face's `transformers`.

The model is built from a config, with new weights. `pip install "headroom-attention[huggingface]"`
installs `transformers`.
"""

import difflib
import inspect
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from torch import Tensor, nn

from models.language_model import LanguageModel
from sweeper.store.errors import UserError, invalid_value, sanitize, spelled
from tasks.config.architecture import Architecture, Dropout, Layers
from tasks.config.schema import Flag, given, whole

try:
    import transformers
    from transformers.models.auto import modeling_auto
except ModuleNotFoundError as missing:
    raise UserError(
        f'model=huggingface: {missing}; install it: pip install "headroom-attention[huggingface]".'
    ) from None

# Our keys, and their possible names in the configs of `transformers`. Each config class has only
# some of the names.
NAMES = {
    "layers": ("num_hidden_layers",),
    "embedding_size": ("hidden_size",),
    "heads": ("num_attention_heads",),
    "head_size": ("head_dim", "qk_nope_head_dim", "v_head_dim"),
    "feedforward_size": ("intermediate_size", "ffn_dim", "n_inner"),
    "activation": ("hidden_act", "hidden_activation", "activation_function"),
    "tie_embeddings": ("tie_word_embeddings",),
    "dropout": (
        "attention_dropout",
        "dropout",
        "hidden_dropout",
        "attn_pdrop",
        "embd_pdrop",
        "resid_pdrop",
    ),
}
OURS = {name: key for key, names in NAMES.items() for name in names}
# The values that every config of `transformers` gets. The ids of special tokens are None, because
# the default ids may exceed our vocabulary.
ALWAYS = {
    **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id")),
    "use_cache": False,
}


class HuggingFaceSection(Architecture):
    """The section `model` for a model of `transformers`.

    The options that most config classes of `transformers` have in common are keys of this section.
    All other options of a config class are entries of `options`.
    """

    # Some models fail on the meta device, because they read values of tensors or need autocast.
    counted_on: ClassVar[str] = "cpu"
    type: str
    layers: Layers
    feedforward_size: Annotated[int | None, whole(1, 2**22, 1024, null=True)]
    activation: Literal["relu", "gelu", "silu"] | None
    tie_embeddings: Flag
    dropout: Dropout
    options: Annotated[dict[str, Any], given("keys of the config of model.type", {})]

    @property
    def called(self) -> tuple[str, str]:
        return "model.type", self.type

    def build(self, vocabulary_size: int) -> LanguageModel:
        """Return the model with fresh weights.

        Raises:
            UserError: `type` is unknown, or its config lacks a key or rejects a value.
        """
        types = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        if self.type not in types:
            expected = (
                "a causal model in the installed version of Hugging Face's transformers"
            )
            remedy = _nearest(self.type, {one: f"model.type={one}" for one in types})
            raise invalid_value(*self.called, expected, remedy)
        settings = {"vocab_size": vocabulary_size, **ALWAYS, **self._settings()}
        try:
            config = transformers.CONFIG_MAPPING[self.type](**settings)
            return CausalModel(transformers.AutoModelForCausalLM.from_config(config))
        except Exception as error:  # configs and models raise errors of many types
            words = sanitize(" ".join(f"{type(error).__name__}: {error}".split()))
            expected = f"sizes and options that this type accepts, but transformers raised {words}"
            remedy = "choose other sizes or options"
            raise invalid_value(*self.called, expected, remedy) from error

    def _settings(self) -> dict[str, Any]:
        """Return the arguments for the config class of `type`.

        They are the values of this section under the names that the class uses, and the entries of
        `options`.

        Raises:
            UserError: the class has no key for a value, or an entry of `options` is unknown or
                belongs to another key of this section.
        """
        config, base = (
            transformers.CONFIG_MAPPING[self.type],
            transformers.PretrainedConfig,
        )
        taken = [inspect.signature(one).parameters for one in (config, base)]
        known = {*config.attribute_map}.union(*taken)
        for name in self.options.keys() - known.difference(OURS):
            keys = {one: f"model.options.{one}" for one in known}
            remedy = _nearest(
                name, keys | {n: f"model.{key}" for n, key in OURS.items()}
            )
            expected = f"a key of {config.__name__} that no other key of `model` sets"
            value = spelled(self.options[name])
            raise invalid_value(f"model.options.{name}", value, expected, remedy)

        values = dict(self) | {"head_size": self.resolved_head_size}
        implied = {
            "heads": 1,
            "head_size": self.embedding_size // self.heads,
            "dropout": 0,
        }
        found = {"num_key_value_heads": self.heads}
        for key, names in NAMES.items():
            only = implied.get(key)
            if values[key] not in (None, only) and known.isdisjoint(names):
                expected = f"{spelled(only)}, since {config.__name__} has no key for it"
                remedy = f"set model.{key}={spelled(only)}"
                value = spelled(values[key])
                raise invalid_value(f"model.{key}", value, expected, remedy)
            found |= dict.fromkeys(names, values[key])
        ours = {k: v for k, v in found.items() if k in known and v is not None}
        return ours | self.options


def _nearest(name: str, known: Mapping[str, str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    documented = "choose one from the documentation of Hugging Face's transformers"
    return f"write {known[near[0]]}" if near else documented


class CausalModel(LanguageModel):
    """A causal model of `transformers` with the interface of `LanguageModel`."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens_BT: Tensor, segments_BT: Tensor, positions_BT: Tensor
    ) -> Tensor:
        return _first_output(self.model.base_model, tokens_BT, positions_BT)

    def own_logits(self, *inputs: Tensor) -> Tensor:
        tokens_BT, _, positions_BT = inputs
        return _first_output(self.model, tokens_BT, positions_BT)

    def softmax_layer(self) -> tuple[Tensor, Tensor | None]:
        head = self.model.get_output_embeddings()
        return head.weight, head.bias


def _first_output(model: nn.Module, tokens_BT: Tensor, positions_BT: Tensor) -> Tensor:
    # Pass position_ids to the classes that accept them. Without a mask and a cache, `transformers`
    # treats each restart of position_ids as the start of another packed sentence.
    places = {"position_ids": positions_BT}
    taken = inspect.signature(model.forward).parameters
    output: Tensor = model(
        tokens_BT, **places if places.keys() <= taken.keys() else {}
    )[0]
    return output
