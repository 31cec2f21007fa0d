"""Baselines for fine-tuning tasks, computed from labels and words without a neural network."""

import re
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from tasks.batch import Floats, Integers
from tasks.seeds import permutation
from tasks.text.tokenizer import split_sentences

WORD = re.compile(r"\w+")
BUCKETS = 1 << 16  # the number of hash buckets for the words of each text
EPOCHS, BATCH, RATE, DECAY = 6, 64, 0.03, 1.0e-5


def majority_accuracy(train: Sequence[int], test: Sequence[int]) -> float:
    """Return the accuracy of predicting the most common training label for each test example.

    If several labels are equally common, predict the smallest.

    Args:
        train: the labels of the training examples.
        test: the labels of the test examples.
    """
    commonest = np.bincount(train).argmax()
    return float(np.mean(np.asarray(test) == commonest))


class BagOfWords:
    """A multinomial logistic regression on the words of two texts, fitted with Adagrad.

    It ignores the order of the words.

    Args:
        pairs: the two texts of each training example.
        labels: the class number of each training example.
    """

    def __init__(self, pairs: Sequence[tuple[str, str]], labels: Sequence[int]) -> None:
        bags, targets = [_buckets(*pair) for pair in pairs], np.asarray(labels)
        self._weights = np.zeros((2 * BUCKETS + 1, int(targets.max()) + 1))
        squares = np.full(len(self._weights), 1.0e-8)

        for epoch in range(EPOCHS):
            order = permutation(len(targets), 0, "bag of words", epoch)
            for first in range(0, len(order), BATCH):
                numbers = order[first : first + BATCH]
                batch = [bags[number] for number in numbers]
                scores = self._scores(batch)
                chances = np.exp(scores - scores.max(axis=1, keepdims=True))
                chances /= chances.sum(axis=1, keepdims=True)
                chances[np.arange(len(numbers)), targets[numbers]] -= 1.0

                words, places = np.unique(np.concatenate(batch), return_inverse=True)
                gradient = DECAY * self._weights[words]
                of_word = np.repeat(chances, [*map(len, batch)], axis=0)
                np.add.at(gradient, places, of_word / len(numbers))
                squares[words] += (gradient**2).sum(axis=1)
                self._weights[words] -= (
                    RATE * gradient / np.sqrt(squares[words])[:, None]
                )

    def accuracy(
        self, pairs: Sequence[tuple[str, str]], labels: Sequence[int]
    ) -> float:
        """Return the share of the pairs for which the regression predicts the right label."""
        scores = self._scores([_buckets(*pair) for pair in pairs])
        return float(np.mean(scores.argmax(axis=1) == np.asarray(labels)))

    def _scores(self, bags: Sequence[Integers]) -> Floats:
        starts = np.cumsum([0, *map(len, bags[:-1])])
        return np.add.reduceat(self._weights[np.concatenate(bags)], starts, axis=0)


def guessed_answer(question: str, context: str) -> str:
    """Guess the answer to a question from the words that it shares with the context.

    First choose the sentence of the context with the highest score. Each word that a sentence
    shares with the question adds 1 / (number of sentences with that word) to the sentence's score.
    The answer is the longest run of words in this sentence that are not in the question. If several
    sentences or runs are equally good, choose the first.
    """
    asked = set(WORD.findall(question.lower()))
    sentences = split_sentences(context)
    shared = [asked & set(WORD.findall(sentence.lower())) for sentence in sentences]
    spread = Counter(word for words in shared for word in words)
    scores = [sum(1 / spread[word] for word in sorted(words)) for words in shared]
    sentence = sentences[int(np.argmax(scores))]

    stretches: list[list[re.Match[str]]] = [[]]
    for word in WORD.finditer(sentence):
        if word[0].lower() in asked:
            stretches.append([])
        else:
            stretches[-1].append(word)
    longest = max(stretches, key=len)
    return sentence[longest[0].start() : longest[-1].end()] if longest else ""


def _buckets(first: str, second: str) -> Integers:
    """Return the hash buckets of the words of two texts, and bucket 0.

    The words of the two texts go to different buckets. The weight of bucket 0 is the bias of the
    regression.
    """
    found = [
        1 + side * BUCKETS + zlib.crc32(word.encode()) % BUCKETS
        for side, text in enumerate((first, second))
        for word in WORD.findall(text.lower())
    ]
    return np.array([0, *found], np.int64)
