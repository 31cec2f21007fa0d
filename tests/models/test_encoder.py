"""The encoder and its output layers compute the same as BERT in Hugging Face's `transformers`."""

import pytest
import torch
from torch import nn

from models.bert_heads import PretrainingModel
from models.cross_entropy import IGNORED
from tasks.export.encoder import KEYS, encoder_weights
from tests.models.conftest import (
    ENCODER,
    assert_same,
    encoder,
    influence,
    normal,
    randomise,
)


def test_equals_hugging_faces_bert(batch):
    transformers = pytest.importorskip("transformers")
    model = PretrainingModel(encoder()).double()
    randomise(model, std=0.5)
    settings = {
        theirs: ENCODER[ours] for ours, theirs in KEYS.items() if ours in ENCODER
    }
    config = transformers.BertConfig(vocab_size=ENCODER["vocabulary_size"], **settings)
    reference = transformers.BertForPreTraining(config).double().eval()
    reference.load_state_dict(
        encoder_weights({"num_hidden_layers": ENCODER["layers"]}, model.state_dict())
    )
    tokens_BT, types_BT, real_BT = batch
    hidden_BTD = model(*batch)
    everywhere_BT = torch.arange(11).expand(5, 11)
    expected = reference(tokens_BT, real_BT, types_BT)
    actual_BTV = model.token_logits(hidden_BTD, everywhere_BT)
    assert actual_BTV.std() > 1
    assert_same(actual_BTV[real_BT], expected.prediction_logits[real_BT], 1e-10)
    assert_same(model.next_logits(hidden_BTD), expected.seq_relationship_logits, 1e-10)


def test_every_real_position_sees_every_real_position_and_no_padding(batch):
    model, real_BT = encoder(), batch[2]
    gradient_BTD = influence(model, batch, 0)
    assert (gradient_BTD[real_BT] != 0).any(-1).all()
    assert (gradient_BTD[~real_BT] == 0).all()
    assert model(*batch).isfinite().all()
    # Rows that contain only padding give finite numbers, too.
    assert model(*batch[:2], torch.zeros_like(real_BT)).isfinite().all()


def test_dropout_is_where_bert_has_it(batch):
    """BERT drops embeddings, residual branches and attention weights, but no activations."""
    model = encoder(dropout=1.0).train()
    assert (model.embedding(*batch[:2]) == 0).all()
    block, x_BTD = model.blocks[0], normal(2, 7, 15)
    nn.init.normal_(block.attention.output.bias)
    expected_BTD = block.feed_forward_norm(block.attention_norm(x_BTD))
    assert torch.equal(block(x_BTD), expected_BTD)
    assert torch.equal(
        block.attention(x_BTD), block.attention.output.bias.expand_as(x_BTD)
    )
    kept_BTD = block.feed_forward(x_BTD)
    assert torch.equal(kept_BTD, block.feed_forward.eval()(x_BTD))


def test_the_token_loss_is_over_the_masked_places_only(batch):
    model = PretrainingModel(encoder()).double()
    hidden_BTD = model(*batch)
    places_BM = torch.arange(10, 0, -1).view(5, 2)
    targets_BM = torch.tensor(
        [[3, 11], [13, IGNORED], [IGNORED, IGNORED], [2, 23], [7, IGNORED]]
    )
    nats, count = model.token_loss(hidden_BTD, places_BM, targets_BM)
    logits_BTV = model.token_logits(hidden_BTD, torch.arange(11).expand(5, 11))
    expected = sum(
        -logits_BTV[row, places_BM[row, n]].log_softmax(0)[targets_BM[row, n]]
        for row, n in (targets_BM != IGNORED).nonzero().tolist()
    )
    assert count == 6
    assert_same(nats, expected)
