"""The `huggingface` architecture: any causal model of transformers that is built from its config.

The extra `huggingface` installs transformers. A model starts from fresh weights.
"""

import difflib
import importlib
import inspect
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Literal

from torch import Tensor, nn

from models.language_model import LanguageModel
from sweeper.store.errors import invalid_value, sanitize
from tasks.config.architecture import Architecture
from tasks.config.schema import Problem, given, spelled, whole

# What our keys are called in the configs of transformers. A class knows some of these names.
NAMES = {
    "layers": ("num_hidden_layers",),
    "embedding_size": ("hidden_size",),
    "heads": ("num_attention_heads",),
    "head_size": ("head_dim", "qk_nope_head_dim", "v_head_dim"),
    "feedforward_size": ("intermediate_size", "ffn_dim", "n_inner"),
    "activation": ("hidden_act", "hidden_activation", "activation_function"),
    "tie_embeddings": ("tie_word_embeddings",),
    "dropout": (
        *("attention_dropout", "dropout", "hidden_dropout"),
        *("attn_pdrop", "embd_pdrop", "resid_pdrop"),
    ),
}
OURS = {name: key for key, names in NAMES.items() for name in names}
# Without these tokens, which may lie beyond our vocabulary. A padding token would never learn.
NO_TOKENS = dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"))


class HuggingFaceSection(Architecture):
    """The keys that most classes of transformers have, and `options` for all other keys."""

    counted_on: ClassVar[str] = "cpu"  # some classes branch on values, or need autocast
    type: str
    layers: Annotated[int, whole(1, 1024, 6)]
    feedforward_size: Annotated[int | None, whole(1, 2**22, 1024, null=True)]
    activation: Literal["relu", "gelu", "silu"] | None
    tie_embeddings: Annotated[bool, given("true or false", True)]
    dropout: Annotated[float, given("a number at least 0 and below 1", 0.1, ge=0, lt=1)]
    options: Annotated[dict[str, Any], given("keys of the config of model.type", {})]

    @property
    def called(self) -> tuple[str, str]:
        return "model.type", self.type

    def problems(self, path: str = "") -> Iterator[Problem]:
        yield from super().problems(path)
        types = _library("models.auto.modeling_auto").MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
        if self.one_head_size is None:
            key, remedy = f"{path}.head_size", "give one size for all heads"
            yield Problem(key, self.head_size, "one size", remedy)
        elif self.type not in types:
            expected = "a causal model of the installed version of transformers"
            remedy = _nearest(f"{path}.type=", self.type, types)
            yield Problem(f"{path}.type", self.type, expected, remedy)
        else:
            yield from self._unknown(path)

    def _unknown(self, path: str) -> Iterator[Problem]:
        """Yield the options and the keys of ours that the config of `type` does not know."""
        known, whose = self._known(), f"the config of model.type={self.type}"
        for name, value in self.options.items():
            if name not in known or name in OURS:
                free = [f"options.{other}" for other in known - OURS.keys()]
                remedy = _nearest(
                    f"{path}.", OURS.get(name, f"options.{name}"), [*NAMES, *free]
                )
                expected = f"a key of {whose} that no key of ours sets"
                yield Problem(
                    f"{path}.options.{name}", spelled(value), expected, remedy
                )
        implied = {"head_size": self.embedding_size / self.heads, "dropout": 0}
        for key, names in NAMES.items():
            value, only = getattr(self, key), implied.get(key)
            if value not in (None, only) and known.isdisjoint(names):
                expected = f"{spelled(only)}, since {whose} has no key for it"
                remedy = f"give it as {path}.{key}={spelled(only)}"
                yield Problem(f"{path}.{key}", spelled(value), expected, remedy)

    def _known(self) -> set[str]:
        """Return the keys of the config of `type`, without the second names of some keys."""
        config, base = _library().CONFIG_MAPPING[self.type], _library().PretrainedConfig
        taken = [inspect.signature(one).parameters for one in (config, base)]
        second = config.attribute_map
        return {*second}.union(*taken).difference(second.values(), ("kwargs",))

    def build(self, vocabulary_size: int) -> LanguageModel:
        """Return the model.

        Raises:
            UserError: transformers refuses the sizes or the options.
        """
        values = dict(self) | {"head_size": self.resolved_head_size}
        known = self._known()
        settings = {name: values[key] for name, key in OURS.items() if name in known}
        settings |= {"vocab_size": vocabulary_size, "num_key_value_heads": self.heads}
        settings = {k: v for k, v in settings.items() if v is not None and k in known}
        library = _library()
        try:
            config = library.CONFIG_MAPPING[self.type](
                **settings | NO_TOKENS | self.options
            )
            model = library.AutoModelForCausalLM.from_config(config)
        except Exception as error:  # each class checks its config in its own way
            words = sanitize(" ".join(f"{type(error).__name__}: {error}".split()))
            expected = f"sizes and options that it accepts, but it raised {words}"
            raise invalid_value(*self.called, expected, "change them") from error
        return CausalModel(model)


class CausalModel(LanguageModel):
    """A causal model of transformers as one of ours."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, tokens_BT: Tensor, segments_BT: Tensor, positions_BT: Tensor
    ) -> Tensor:
        decoder = self.model.get_decoder()
        if decoder is self.model:  # as older versions answer for some classes
            decoder = self.model.base_model
        hidden_BTD: Tensor = self._called(decoder, tokens_BT, positions_BT)[0]
        return hidden_BTD

    def own_logits(self, *inputs: Tensor) -> Tensor:
        tokens_BT, _, positions_BT = inputs
        logits_BTV: Tensor = self._called(self.model, tokens_BT, positions_BT)[0]
        return logits_BTV

    def softmax_layer(self) -> tuple[Tensor, Tensor | None]:
        head = self.model.get_output_embeddings()
        return head.weight, head.bias

    def _called(self, model: nn.Module, tokens_BT: Tensor, positions_BT: Tensor) -> Any:
        # transformers keeps packed sentences apart where positions restart, if there is neither a
        # mask nor a cache. Some classes take no positions.
        given = {"position_ids": positions_BT, "use_cache": False}
        taken = inspect.signature(model.forward).parameters
        return model(tokens_BT, **{k: v for k, v in given.items() if k in taken})


def _library(module: str = "") -> Any:
    try:
        return importlib.import_module(f"transformers.{module}".rstrip("."))
    except ModuleNotFoundError as error:
        remedy = 'install it: pip install "headroom-attention[huggingface]"'
        expected = f"the package transformers, which is not installed ({error})"
        raise invalid_value("model", "huggingface", expected, remedy) from None


def _nearest(prefix: str, name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    return (
        f"write {prefix}{near[0]}" if near else "leave it out, or see its documentation"
    )
