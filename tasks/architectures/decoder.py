"""The `decoder` architecture, which builds models.transformer.Decoder from a config."""

import inspect
from collections.abc import Iterator
from typing import Annotated, Literal

from models.head_sizes import distinct_sizes
from models.transformer import Decoder
from sweeper.store.errors import spelled
from tasks.config.architecture import KEY, TransformerSection, variant
from tasks.config.schema import Flag, Problem, given

OPTIONS = {
    "position_encoding",
    "rotary_base",
    "rotary_size",
    "normalisation",
    "feedforward",
    "biases",
    "scale_embeddings",
    "tie_embeddings",
}


class DecoderSection(TransformerSection):
    """The section `model` of a decoder. It adds the options of modern decoders.

    The defaults apply to older records, which lack these keys.
    """

    position_encoding: Literal["sinusoidal", "rotary", "none"] = "sinusoidal"
    rotary_base: Annotated[float, given("a number above 1", 10_000.0, gt=1)] = 10_000.0
    rotary_size: Annotated[
        int | None,
        given("an even number of at least 2, or null", 16, ge=2, multiple_of=2),
    ] = None
    normalisation: Literal["layer", "rms"] = "layer"
    feedforward: Literal["plain", "gated"] = "plain"
    biases: Flag = True
    scale_embeddings: Flag = True

    def problems(self, path: str = "") -> Iterator[Problem]:
        yield from super().problems(path)
        encoding = f"{path}.position_encoding={self.position_encoding}"
        if self.position_encoding != "rotary":
            for key in ("rotary_base", "rotary_size"):
                value = getattr(self, key)
                default = type(self).model_fields[key].default
                if value != default:
                    expected = f"{spelled(default)}, since {encoding} ignores this key"
                    remedy = f"leave it out, or set {path}.position_encoding=rotary"
                    yield Problem(f"{path}.{key}", value, expected, remedy)
            return
        if not supports_rotary(variant(self.attention.name)):
            expected = f"a variant that supports {encoding}"
            remedy = f"choose model/attention=multi_head, or {path}.position_encoding=sinusoidal"
            yield Problem(KEY, self.attention.name, expected, remedy)
            return
        # Latent attention rotates only extra dimensions of each head, whose number is an option of
        # the variant. Other variants rotate dimensions of the head itself.
        own = getattr(self.attention, "rotary_size", None)
        key = f"{path}.head_size" if own is None else f"{path}.attention.rotary_size"
        sizes = distinct_sizes(self.resolved_head_size) if own is None else [own]
        if (least := self.rotary_size) and least > sizes[0]:
            expected = f"at most {key}={sizes[0]}"
            remedy = f"set {path}.rotary_size=null, which rotates whole heads"
            yield Problem(f"{path}.rotary_size", least, expected, remedy)
        elif odd := [size for size in sizes if size % 2 and not self.rotary_size]:
            expected = f"even sizes, since {encoding} rotates pairs of dimensions"
            even = [size + size % 2 for size in odd]
            remedy = f"set {key}={even[0]}, or set {path}.rotary_size"
            yield Problem(key, odd[0], expected, remedy)

    def build(self, vocabulary_size: int) -> Decoder:
        options = self.model_dump(include=OPTIONS)
        return Decoder(vocabulary_size=vocabulary_size, **options, **self.options())


def supports_rotary(attention: type) -> bool:
    """Return whether an attention class supports rotary positions."""
    return "rotation" in inspect.signature(attention.forward).parameters  # type: ignore[attr-defined]
