"""The claims that an experiment can judge.

A claim is a pure function `claim(design, *, <role>="<arm>", ...) -> Statement`. It returns
contrasts of points, combined by `All` and `AnyOf` (results/design.py). results/decision.py judges
the contrasts, explains the decision, and estimates how many seeds a decision needs. The first line
of the function's docstring is the claim as a question, which the report page shows.

To add a claim, write a function here and list its name under `claims` in the experiment's yaml. In
a package of your own, register a module that has a function called `claim`.
"""

from collections.abc import Callable, Sequence

from sweeper.results.design import (
    All,
    AnyOf,
    Contrast,
    Design,
    Statement,
    Unanswerable,
    ahead,
    alone,
    at,
    by,
    check_equal,
    collapses_at,
    curves,
    equal_within,
    gain_grows,
    keeps_improving,
    larger_heads_gain_more,
    most_heads_lose,
    not_used,
    numbered,
    over,
    over_pairs,
    read_at,
    trends_apart,
)
from sweeper.results.points import Point
from sweeper.store.numbers import plural, short


def standard_worsens_beyond(design: Design, *, standard: str = "standard") -> Statement:
    """Does the heuristic head size = embedding size / heads get worse beyond some number of heads?

    The claim is from the paper's Figure 1a and Table 1. It compares models of equal embedding size,
    number of parameters and feed-forward size. It is supported if, at every embedding size, the
    largest number of heads is worse than some smaller number.
    """
    alike = [
        (f"embedding size {embedding:.0f}", models)
        for embedding, of_one_size in curves(
            "model.embedding_size", design.of(standard)
        ).items()
        for equally_large in curves("params_total", of_one_size).values()
        for models in curves("model.feedforward_size", equally_large).values()
    ]
    return most_heads_lose(
        alike, "embedding size, number of parameters and feed-forward size"
    )


def fixed_keeps_improving(design: Design, *, fixed: str = "fixed") -> Statement:
    """Does a model with a fixed head size keep improving with the number of heads?

    The claim is from the paper's Figure 1, Tables 2(A) and 3, and section 4.3. It uses one arm,
    whose points differ only in the number of heads.
    """
    return keeps_improving(design.of(fixed), "model.heads", "heads")


def larger_heads_improve(design: Design, *, fixed: str = "fixed") -> Statement:
    """Does a model with a fixed number of heads keep improving with the head size?

    The claim is from the paper's Table 2(B) and Figure 3b. Larger heads have more parameters. So
    the verdict does not show that parameters are worth more in heads than elsewhere. The claim uses
    one arm, whose points differ only in head size.
    """
    return keeps_improving(design.of(fixed), "model.head_size", "head sizes")


def small_beats_large(
    design: Design,
    *,
    standard: str = "standard",
    fixed: str = "fixed",
    matched: str = "matched",
) -> Statement:
    """Does a model with a small embedding and a fixed head size beat the largest standard model?

    The claim is the strict form of the paper's Figure 1b. It is supported if some candidate is
    better than every rival. The rivals are the standard models with the largest embedding. The
    candidates are the models with a smaller embedding and no more parameters than any rival. They
    come from the arm `fixed`, and from the arm `matched` if the experiment has it.
    """
    small = [fixed, matched] if matched in design.arms else [fixed]
    largest, rivals = curves("model.embedding_size", design.of(standard)).popitem()
    # Let candidates have 1 % more parameters than a rival. A model that was matched to a rival can
    # be slightly larger than the rival, because its number of heads is an integer.
    limit = 1.01 * min(at(rival, "params_total") for rival in rivals)
    strict = {
        point.key: point
        for point in design.of(*small)
        if at(point, "model.embedding_size") < largest
        and at(point, "params_total") <= limit
    }
    if not strict:
        raise Unanswerable(
            f"The claim needs a model of the arm {fixed} with an embedding below {largest:.0f} and "
            f"no more parameters than the standard models of embedding size {largest:.0f}; add it "
            "to the experiment's grid."
        )
    winners = [
        All(
            [
                over(one, rival, f"{_model(one)} over {_model(rival)}")
                for rival in rivals
            ]
        )
        for one in strict.values()
    ]
    return AnyOf(winners)


def _model(point: Point) -> str:
    heads = plural(int(at(point, "model.heads")), "head")
    size, embedding = at(point, "model.head_size"), at(point, "model.embedding_size")
    return f"{heads} of {size:.0f} at embedding size {embedding:.0f}"


LOSSES = ("loss", "perplexity", "perplexity_per_word", "bits_per_byte")


def saves_parameters(
    design: Design, *, standard: str = "standard", fixed: str = "fixed"
) -> Statement:
    """Do heads of a fixed size reach the loss of the standard heuristic with fewer parameters?

    The claim is from the paper's Figures 1 and 4. It compares losses at the largest number of
    parameters that both arms reach. If the arm `fixed` has the lower loss there, a smaller model of
    that arm reaches the loss of the arm `standard`. Between points, the claim interpolates the loss
    linearly in the logarithm of the number of parameters.

    The arm `standard` has a curve for each number of heads that occurs at all its sizes. The claim
    must hold against each of these curves. If no number of heads occurs at all sizes, all points of
    the arm form one curve.
    """
    if design.metric.rpartition("/")[2] not in LOSSES:
        raise Unanswerable(
            f"The claim needs a metric that is a loss ({', '.join(LOSSES)}), not "
            f"{design.metric}; leave the claim out, or set another metric."
        )
    rivals = design.of(standard)
    sizes = {at(point, "params_total") for point in rivals}
    held = [
        (f"{heads:.0f} standard ones", curve)
        for heads, curve in curves("model.heads", rivals).items()
        if {at(point, "params_total") for point in curve} == sizes
    ]
    # If the number of heads grows with the model, no single number of heads has a model of every
    # size, so `held` is empty. Then treat all points of the arm as one curve.
    compared = held or [("standard ones", rivals)]
    return All([_lower(design.of(fixed), rival, words) for words, rival in compared])


def _lower(fixed: Sequence[Point], rival: Sequence[Point], words: str) -> Contrast:
    """Return the contrast of two curves at the largest number of parameters that both reach.

    `words` names the curve of the rival.
    """
    largest = min(
        max(at(point, "params_total") for point in curve) for curve in (fixed, rival)
    )
    weights = [
        *read_at(fixed, largest),
        *((-weight, p) for weight, p in read_at(rival, largest)),
    ]
    heads = f"heads of a fixed size over {words}, at {short(largest, 3)} parameters,"
    return Contrast(heads, weights)


def wins_at_equal_size(design: Design, *, standard: str = "standard") -> Contrast:
    """Does an arm win over the arm `standard` at the matched size?

    In Figures 1 and 3a, the matched size is the number of parameters. Each matched point forms a
    pair with the point that it was matched to. The claim averages over all pairs that join a point
    of the arm `standard` with a point of another arm. If the experiment has no arm `standard`, its
    only arm with matched points takes that role.
    """
    by_name = {f"{one.arm} {one.name}".strip(): one for one in design.points}
    matched = []
    for point in design.points:
        if target := by_name.get(str(point.cells.get("matched_to"))):
            matched.append((point, target))
    rival, *more = dict.fromkeys(one.arm for one, _ in matched) or [standard]
    if standard in design.arms:
        rival = standard
    elif more:
        raise Unanswerable(
            f"The arms {' and '.join([rival, *more])} have matched points, but none of these arms "
            f"is called {standard}; rename the arm that the others are compared with."
        )
    pairs: list[tuple[Point, Point]] = []
    errors: dict[str, float] = {}
    for point, target in matched:
        own, other = (point, target) if point.arm == rival else (target, point)
        arms = [own.arm, other.arm]
        if arms.count(rival) == 1 and own.runs != other.runs:
            pairs.append((other, own))
            count = str(point.cells["match_count"])
            errors[count] = max(errors.get(count, 0.0), abs(at(point, "match_error")))
    if not pairs:
        raise Unanswerable(
            f"No other arm has runs of its own that are matched to the arm {rival}; add `match` to "
            "one of the arms."
        )
    equal = " or ".join(equal_within(*one) for one in sorted(errors.items()))
    others = " and ".join(dict.fromkeys(other.arm for other, _ in pairs))
    words = f"over {plural(len(pairs), 'pair')} with {equal}, {others} over {rival}"
    return over_pairs(pairs, words)


def fixed_size_beats_heuristic(
    design: Design, *, standard: str = "standard", fixed: str = "fixed"
) -> Statement:
    """Does a fixed head size beat d/h (embedding size / heads) at an equal number of parameters?

    The claim compares the means over all points of each arm, whereas `wins_at_equal_size` compares
    pairs of matched points. The points of an arm differ in width.
    """
    return ahead(design, fixed, standard, "params_total")


def small_heads_lose_at_equal_width(design: Design) -> Statement:
    """Do many small heads lose to fewer large ones at equal width (heads * head size)?

    The paper's argument implies this claim. Its tables do not test it, because they change width
    and head size together. The claim is supported if, at every width, the model with the smallest
    heads is worse than some other model. Models of equal width must have equally many parameters.
    The claim uses the points of all arms, which differ in heads, head size and perhaps width.
    """
    widths = curves("width", design.points)
    for width, same in widths.items():
        check_equal(same, "params_total", f"Models of width {width:g}")
    return most_heads_lose(
        [(f"width {width:g}", same) for width, same in widths.items()], "width"
    )


def equal_sizes_beat_schedules(design: Design, *, equal: str = "equal") -> Statement:
    """Are heads of one size in all layers better than sizes that rise or fall over the layers?

    The paper does not make this claim. The arm `equal` has one head size in all layers. In every
    other arm, head sizes follow a schedule over the layers. The points of an arm differ only in the
    number of heads. For each other arm, the claim averages over pairs of models with equally many
    heads and parameters. It must hold against every arm. If the differences are within the margin,
    equal sizes are no worse.
    """
    others = [arm for arm in design.arms if arm != equal]
    if not others:
        raise Unanswerable(
            f"The claim compares the arm {equal} with arms whose head sizes differ between "
            "layers, but there is no such arm; add one."
        )

    def size(point: Point) -> tuple[float, float]:
        return at(point, "model.heads"), at(point, "params_total")

    parts, paired = [], set[tuple[str, ...]]()
    for arm in others:
        rivals = design.of(arm)
        of_size = {size(rival): rival for rival in rivals}
        if len(of_size) < len(rivals):
            raise Unanswerable(
                f"Points of the arm {arm} differ in more than the number of heads; give all "
                "other keys one value."
            )
        models = by("model.heads", design.of(equal))
        pairs = [(one, of_size[size(one)]) for one in models if size(one) in of_size]
        if not pairs:
            raise Unanswerable(
                f"No model of the arm {arm} has as many heads and parameters as one of the arm "
                f"{equal}; add such models to the experiment's grid."
            )
        paired |= {point.key for pair in pairs for point in pair}
        parts.append(over_pairs(pairs, f"one size in all layers over {arm} sizes"))
    unpaired = sum(point.key not in paired for point in design.points)
    why = f"models of {equal} and of other arms differ in heads or parameters"
    return All(parts, not_used(unpaired, why))


def bottleneck_limits_heads(design: Design, *, large: str = "large") -> Statement:
    """Do more heads help large heads more than small heads, which have the low-rank bottleneck?

    The low-rank bottleneck implies this claim (the paper's section 3): more heads do not help if
    each is too small to express its attention. Every arm but `large` has small heads. The points of
    an arm differ only in the number of heads. In each arm, the claim fits the slope of the metric
    over the number of heads. The slope of the arm `large` must be above that of each other arm. So
    a gain from more heads that is the same at every head size cancels out. Larger heads also have
    more parameters. In contrast, `small_heads_lose_at_equal_width` compares models with equally
    many parameters.
    """
    small = [arm for arm in design.arms if arm != large]
    if not small:
        raise Unanswerable(
            f"The claim compares the arm {large} with arms of small heads, but there is no such "
            "arm; add one."
        )
    parts = []
    for arm in small:
        curves = [alone("model.heads", design.of(own)) for own in (large, arm)]
        shared, weights = trends_apart(curves, "numbers of heads that both arms have")
        sizes = [at(curve[shared[0]], "model.head_size") for curve in curves]
        words = (
            f"from {shared[0]:.0f} to {shared[-1]:.0f} heads with heads of {sizes[0]:.0f}, and not "
            f"with heads of {sizes[1]:.0f},"
        )
        parts.append(Contrast(words, weights))
    return All(parts)


def longer_sequences_take_larger_heads(
    design: Design, *, heads: str = "heads"
) -> Statement:
    """Do larger heads help more on longer sequences, as Theorem 1 implies?

    The claim fits a slope over head size at each sequence length. It is supported if these slopes
    rise with the length. So a gain from longer sequences that is the same at every head size
    cancels out. The claim uses one arm, whose points differ in sequence length and head size.
    """
    lengths = curves("task.sequence_length", design.of(heads))
    grid = {n: numbered("model.head_size", curve) for n, curve in lengths.items()}
    return gain_grows(
        grid,
        "sequence lengths with at least two equal head sizes",
        "from heads of {:.0f} to {:.0f} at n = {:.0f}, and not at n = {:.0f},",
    )


def bidirectional_takes_n_minus_1(
    design: Design, *, bidirectional: str = "bidirectional"
) -> Statement:
    """Does a random attention matrix without a mask need heads of size n - 1, not Theorem 1's n?

    The claim uses one arm, whose points differ in sequence length n and head size.
    """
    return _knees(design.of(bidirectional), lambda n: n - 1)


def causal_takes_half(design: Design, *, causal: str = "causal") -> Statement:
    """Does a random attention matrix with a causal mask need heads of only half its length n?

    The claim uses one arm, whose points differ in sequence length n and head size. Half of n is
    rounded down.
    """
    return _knees(design.of(causal), lambda n: n // 2)


def _knees(points: Sequence[Point], expected: Callable[[int], int]) -> Statement:
    """Return the statement that, at each sequence length, the error collapses at `expected`.

    `expected` is a function from the sequence length to a head size.
    """
    lengths = curves("task.sequence_length", points)
    parts = []
    for length in map(round, lengths):
        parts += collapses_at(lengths[length], length, expected(length))
    return All(parts)


def rotary_costs_small_heads(
    design: Design, *, sinusoidal: str = "sinusoidal", rotary: str = "rotary"
) -> Statement:
    """Do small heads lose more with rotary positions than with sinusoidal ones, at equal width?

    Rotary positions use dimensions of a head, so fewer are left for content. The claim is supported
    if larger heads gain more with rotary positions than with sinusoidal ones. Both arms have the
    same heads and head sizes.
    """
    return larger_heads_gain_more(design, rotary, sinusoidal)


def norm_undoes_larger_heads(
    design: Design, *, plain: str = "plain", normed: str = "normed"
) -> Statement:
    """Does normalising queries and keys undo the gain of larger heads, at equal width?

    If larger heads win because their logits are larger or better scaled, a norm gives small heads
    the same advantage. The claim is supported if larger heads gain more without the norm than with
    it. Both arms have the same heads and head sizes.
    """
    return larger_heads_gain_more(design, plain, normed)


def shared_keys_win(
    design: Design, *, own: str = "own", shared: str = "shared"
) -> Statement:
    """Do many heads with shared keys and values beat few without sharing, at an equal KV cache?

    The claim compares grouped-query attention of g groups with multi-head attention of g heads.
    Both have equally many parameters.
    """
    ahead(design, shared, own, "params_total")
    return ahead(design, shared, own, "cache_bytes_per_token")


def latent_beats_shared_keys(
    design: Design, *, shared: str = "shared", latent: str = "latent"
) -> Statement:
    """Does latent attention win over heads that share keys and values, at an equal KV cache?

    Published comparisons disagree (TransMLA, 2025, and its replications). Both arms have equally
    many parameters.
    """
    ahead(design, latent, shared, "params_total")
    return ahead(design, latent, shared, "cache_bytes_per_token")


def thin_keys_lose(
    design: Design, *, full: str = "full", thin: str = "thin"
) -> Statement:
    """Do queries and keys at a quarter of the value size lose to equal sizes, at an equal KV cache?

    Published answers disagree. The low-rank bottleneck of the paper comes from the size of queries
    and keys, not of values. If the difference is within the margin, thin keys are no worse.
    """
    return ahead(design, full, thin, "cache_bytes_per_token")


def wider_attention_wins(design: Design) -> Statement:
    """Does attention twice as wide as the embedding win over attention as wide as the embedding?

    Width is heads * head size. The claim must hold at every embedding size. All models of one
    embedding size have equally many parameters.
    """
    parts = []
    for embedding, curve in _by_relative_width(design).items():
        if not {1.0, 2.0} <= curve.keys():
            raise Unanswerable(
                f"The claim needs widths d and 2d (heads x head size) at embedding size d = "
                f"{embedding:.0f}; add them to the experiment's grid."
            )
        words = f"width 2d over d at d = {embedding:.0f}"
        parts.append(over(curve[2.0], curve[1.0], words))
    return All(parts)


def width_has_an_optimum(design: Design) -> Statement:
    """Do the narrowest and the widest attention both lose to a width between them?

    The claim is supported if at every embedding size some width is better than both ends. All
    models of one embedding size have equally many parameters.
    """
    parts = []
    for embedding, curve in _by_relative_width(design).items():
        narrowest, *between, widest = curve
        best = []
        for ratio in between:
            ends = [
                over(
                    curve[ratio],
                    curve[end],
                    f"width {ratio:g}d over {end:g}d at d = {embedding:.0f}",
                )
                for end in (narrowest, widest)
            ]
            best.append(All(ends))
        parts.append(AnyOf(best))
    return All(parts)


def optimum_moves_with_size(design: Design) -> Statement:
    """Does wide attention help larger models more, so that the best W/d grows with d?

    W is the width, heads * head size, and d is the embedding size. At each d, the claim fits a
    slope over the logarithm of W/d. It is supported if these slopes rise with d. All models of one
    embedding size have equally many parameters.
    """
    return gain_grows(
        _by_relative_width(design),
        "embedding sizes with at least two equal W/d",
        "from width {:g}d to {:g}d at d = {:.0f}, and not at d = {:.0f},",
    )


def _by_relative_width(design: Design) -> dict[float, dict[float, Point]]:
    """Return {embedding size d: {W / d: point}} in ascending order, with W = heads * head size."""
    found = {}
    for embedding, points in curves("model.embedding_size", design.points).items():
        check_equal(points, "params_total", f"Models of embedding size {embedding:g}")
        if len(points) < 3:
            raise Unanswerable(
                "The claim needs at least three widths (heads x head size) at each embedding "
                f"size, but {embedding:g} has {len(points)}; add them to the experiment's grid."
            )
        widths = numbered("width", points)
        found[embedding] = {width / embedding: p for width, p in widths.items()}
    return found
