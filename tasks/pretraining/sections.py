"""The keys of conf/task/pretraining.yaml, and which of its two phases a step belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from tasks.config.schema import Problem, Section, given, whole
from tasks.config.sections import TextSection, partial_rows
from tasks.text.tokenizer import BERT_MARKS, LARGEST_VOCABULARY


class PhaseSection(Section):
    """The end of training on longer rows, with a warm-up of its own; steps=0: there is none."""

    steps: Annotated[int, whole(0, 10**9, 50_000)]
    sequence_length: Annotated[int, whole(8, 65_536, 512)]
    batch_tokens: Annotated[int, whole(1, 2**31, 524_288)]
    warmup_steps: Annotated[int, whole(0, 10**9, 3_000)]

    def problems(self, path: str) -> Iterator[Problem]:
        yield from partial_rows(path, self.batch_tokens, self.sequence_length)
        if self.steps and self.warmup_steps >= self.steps:
            expected = f"fewer than {path}.steps={self.steps}"
            remedy = f"give it as {path}.warmup_steps={self.steps // 10}"
            yield Problem(f"{path}.warmup_steps", self.warmup_steps, expected, remedy)


class PretrainingSection(TextSection):
    """The keys of conf/task/pretraining.yaml."""

    vocabulary_size: Annotated[int, whole(len(BERT_MARKS) + 2, LARGEST_VOCABULARY, 30_522)]
    tokenizer_lines: Annotated[int, whole(1, 10**9, 1_000_000)]
    documents: Annotated[
        Literal["blank_line", "file"], given("one of blank_line, file", "blank_line")
    ]
    sequence_length: Annotated[int, whole(8, 65_536, 128)]
    second_phase: PhaseSection

    def problems(self, path: str) -> Iterator[Problem]:
        yield from partial_rows(path, self.batch_tokens, self.sequence_length)
        yield from self.second_phase.problems(f"{path}.second_phase")

    def phase_of(self, step: int, steps: int) -> tuple[int, int]:
        """Return the phase (0 or 1) of one of `steps` steps, and its number within it, from 1."""
        first = steps - self.second_phase.steps
        later = step > first
        return int(later), step - first * later
