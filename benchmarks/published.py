"""Print heads and cache of published decoders: `python -m benchmarks.published`.

The cache is counted on attention layers of ours with their sizes, at two bytes a number.
"""

from typing import Any, NamedTuple

from benchmarks.measure import smoke, table

if __name__ == "__main__":
    smoke(__doc__)  # answers --help before torch is imported

import torch

from models.attention.grouped_query import GroupedQueryAttention
from models.attention.latent import LatentAttention

LITGPT = "[litgpt](https://github.com/Lightning-AI/litgpt), `litgpt/config.py` at 26857050"
GPT_OSS = "[gpt-oss](https://github.com/openai/gpt-oss), `gpt_oss/torch/model.py`"
DEEPSEEK = (
    "[DeepSeek-V3](https://github.com/deepseek-ai/DeepSeek-V3), "
    "`inference/configs/config_671B.json`"
)
MINICPM3 = "MiniCPM3-4B, `configuration_minicpm3.py`"


class Geometry(NamedTuple):
    """A decoder's sizes, as its source has them; a latent one has no key/value heads."""

    name: str
    layers: int
    embedding_size: int
    heads: int
    key_value_heads: int | None
    head_size: int
    source: str = LITGPT
    latent_size: int = 0
    rotary_size: int = 0

    def row(self) -> tuple[str, ...]:
        """Return the cells of the table."""
        sizes = (self.embedding_size, self.heads, self.head_size)
        with torch.device("meta"):
            if self.key_value_heads is None:
                layer: Any = LatentAttention(
                    *sizes, latent_size=self.latent_size, rotary_size=self.rotary_size
                )
            else:
                layer = GroupedQueryAttention(*sizes, key_value_heads=self.key_value_heads)
        width = self.heads * (self.head_size + self.rotary_size) / self.embedding_size
        cells = (
            self.name,
            self.embedding_size,
            self.layers,
            self.heads,
            self.key_value_heads or f"latent {self.latent_size}",
            f"{self.head_size} + {self.rotary_size}" if self.rotary_size else self.head_size,
            f"{width:.2f}",
            f"{2 * self.layers * layer.cached_numbers:,}",
            self.source,
        )
        return tuple(map(str, cells))


PUBLISHED = (
    Geometry("Llama 2 70B", 80, 8192, 64, 8, 128),
    Geometry("Llama 3 8B", 32, 4096, 32, 8, 128),
    Geometry("Llama 3.1 405B", 126, 16_384, 128, 8, 128),
    Geometry("Llama 3.2 1B", 16, 2048, 32, 8, 64),
    Geometry("Mistral Large 2407", 88, 12_288, 96, 8, 128),
    Geometry("SmolLM2 135M", 30, 576, 9, 3, 64),
    Geometry("Qwen2.5 0.5B", 24, 896, 14, 2, 64),
    Geometry("Qwen2.5 7B", 28, 3584, 28, 4, 128),
    Geometry("Qwen3 0.6B", 28, 1024, 16, 8, 128),
    Geometry("Qwen3 4B", 36, 2560, 32, 8, 128),
    Geometry("Qwen3 32B", 64, 5120, 64, 8, 128),
    Geometry("Qwen3 30B A3B", 48, 2048, 32, 4, 128),
    Geometry("Qwen3 235B A22B", 94, 4096, 64, 4, 128),
    Geometry("Gemma 7B", 28, 3072, 16, 16, 256),
    Geometry("Gemma 2 9B", 42, 3584, 16, 8, 256),
    Geometry("Gemma 3 27B", 62, 5376, 32, 16, 128),
    Geometry("Phi-4", 40, 5120, 40, 10, 128),
    Geometry("gpt-oss (36 layers)", 36, 2880, 64, 8, 64, GPT_OSS),
    Geometry("DeepSeek V3", 61, 7168, 128, None, 128, DEEPSEEK, 512, 64),
    Geometry("MiniCPM3 4B", 62, 2560, 40, None, 64, MINICPM3, 256, 32),
)


def main() -> None:
    """Print the table."""
    head = ("decoder", "d", "layers", "heads", "key/value heads", "head size", "width / d")
    print(table((*head, "cache, bytes a token", "source"), [one.row() for one in PUBLISHED]))


if __name__ == "__main__":
    main()
