"""The heads on an encoder learn from what they should, and a fine-tuning starts where it should.

Shapes: B batch, T positions, D embedding_size, M masked tokens of a row.
"""

import pytest
import torch
import torch.nn.functional as F

from models.bert_heads import Classifier, PretrainingModel, SpanFinder, load_pretrained
from models.cross_entropy import IGNORED


def test_the_token_loss_is_over_the_masked_places_only(encoder, batch):
    model = PretrainingModel(encoder()).double()
    hidden_BTD = model(*batch)
    places_BM = torch.tensor([[2, 7], [5, 0], [0, 0], [1, 3], [0, 0]])
    targets_BM = torch.tensor([[3, 11], [13, IGNORED], [IGNORED, IGNORED], [2, 23], [7, IGNORED]])
    nats, count = model.token_loss(hidden_BTD, places_BM, targets_BM)
    logits_BTV = model.token_logits(hidden_BTD, torch.arange(11).expand(5, 11))
    chosen = [(0, 2, 3), (0, 7, 11), (1, 5, 13), (3, 1, 2), (3, 3, 23), (4, 0, 7)]
    expected = sum(-logits_BTV[row, place].log_softmax(0)[token] for row, place, token in chosen)
    assert count == len(chosen)
    torch.testing.assert_close(nats, expected)


FINE_TUNED = {
    "classifier": lambda encoder: Classifier(encoder, classes=3, dropout=0.1),
    "span_finder": SpanFinder,
}


@pytest.mark.parametrize("build", FINE_TUNED.values(), ids=FINE_TUNED)
def test_a_fine_tuned_model_starts_from_the_pre_trained_weights(build, encoder):
    pretrained, model = PretrainingModel(encoder()), build(encoder())
    state = pretrained.state_dict()
    head = {name: value.clone() for name, value in model.state_dict().items() if name not in state}
    assert sorted(load_pretrained(model, state)) == sorted(head)
    assert head
    for name, value in model.state_dict().items():
        assert torch.equal(value, head[name] if name in head else state[name]), name


def test_pre_trained_weights_without_an_encoder_are_refused(encoder):
    state = PretrainingModel(encoder(layers=1)).state_dict()
    with pytest.raises(ValueError, match=r"lack 12 of the encoder's: encoder\.blocks\.1\."):
        load_pretrained(SpanFinder(encoder()), state)


def test_heads_on_a_trained_encoder_leave_it_as_it_is(encoder):
    trained = encoder()
    before = {name: value.clone() for name, value in trained.state_dict().items()}
    for build in (PretrainingModel, *FINE_TUNED.values()):
        build(trained)
    assert all(torch.equal(value, before[name]) for name, value in trained.state_dict().items())


def test_heads_say_what_they_are_asked(encoder, batch):
    classifier, finder = (build(encoder()).double().eval() for build in FINE_TUNED.values())
    hidden_BTD = classifier.encoder(*batch)
    pooled_BD = torch.tanh(F.linear(hidden_BTD[:, 0], *classifier.pooler.dense.parameters()))
    expected = F.linear(pooled_BD, *classifier.classes.parameters())
    assert torch.equal(classifier(*batch), expected)
    assert expected.shape == (5, 3)
    start_BT, end_BT = finder(*batch)
    assert start_BT.shape == end_BT.shape == (5, 11)
    assert not torch.equal(start_BT, end_BT)


def test_dropout_acts_on_what_is_classified(encoder, batch):
    classifier = Classifier(encoder(), classes=3, dropout=1.0).double()
    classifier.encoder.eval()
    assert torch.equal(classifier(*batch), classifier.classes.bias.expand(5, 3))
    classifier.eval()
    assert not torch.equal(classifier(*batch), classifier.classes.bias.expand(5, 3))
