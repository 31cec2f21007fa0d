"""Tests that `transformers` loads an exported run, and computes the same as the run's model."""

import json

import pytest
import torch
import yaml
from torch import Tensor

import headroom_attention as headroom
from models.mask import attention_mask
from sweeper.store.plans import open_run
from tasks.export.__main__ import main
from tasks.export.encoder import encoder_config
from tasks.export.folder import check_mapped
from tests.refusals import refusal
from tests.tasks.export.test_decoder import TODAY
from tests.tasks.jobs import ended, freeze, write_points
from tests.tasks.small import SMALL, made

STANDARD = {"model.heads": 1, "model.head_size": None}
UNEVEN = [[17], [17]]  # of one size, but each head has its own
RUNS = {
    "MistralForCausalLM": TODAY,
    "BertForPreTraining": {**SMALL["pretraining"], **STANDARD},
    "BertForSequenceClassification": {**SMALL["mnli"], **STANDARD},
    "BertForQuestionAnswering": {**SMALL["squad"], **STANDARD},
}


def test_a_run_is_named_by_its_id_or_by_a_point_in_words_too(tmp_path):
    run = freeze(tmp_path / "outputs")
    point = {"experiment": "mine", "arm": "fixed", "matched": None}
    point["values"] = {"model.heads": 3}
    seeds = ((run.id, 3), ("other", 4))
    write_points(run.outputs, *({**point, "run": id, "seed": n} for id, n in seeds))
    for given in ("mine/fixed heads=3 seed=3", "mine/seed=3", run.id, str(run.path)):
        assert open_run(given, run.outputs).id == run.id
    assert "but 2 runs matched" in refusal(open_run, "mine/fixed heads=3", run.outputs)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RUNS)
def test_transformers_loads_it_and_computes_the_same(tmp_path, capsys, name):
    run, folder = ended(tmp_path, RUNS[name]), tmp_path / "exported"
    assert main([str(run.path), str(folder)]) == 0
    files = (
        "README.md config.json model.safetensors tokenizer.json tokenizer_config.json"
    )
    assert capsys.readouterr().out.split() == [
        str(folder / file) for file in files.split()
    ]

    def read(name):
        return json.loads((folder / name).read_text())

    about = read("tokenizer_config.json")
    pieces = read("tokenizer.json")["model"]["vocab"]
    bert = name.startswith("Bert")
    assert ("token_type_ids" in about.get("model_input_names", ())) == bert
    marks = [pieces.get(about.get(f"{key}_token")) for key in ("bos", "eos", "mask")]
    assert marks == ([None, None, 4] if bert else [0, 1, None])
    card = (folder / "README.md").read_text()
    assert ("token 0 before it and token 1 after it" in card) != bert
    assert run.result().weights_sha256 in card
    head = yaml.safe_load(card.split("---")[1])
    [result] = head["model-index"][0]["results"]
    metrics = {one["name"]: one["value"] for one in result["metrics"]}
    assert metrics == run.result().metrics
    assert head["license"] == "unknown"
    assert result["dataset"] == {"name": "sample text", "type": "text"}
    assert read("config.json")["architectures"] == [name]
    for taken in (folder, folder / "config.json"):
        assert main([str(run.path), str(taken)]) == 1
        assert "expected a new or empty folder" in capsys.readouterr().err

    transformers = pytest.importorskip("transformers")
    model = getattr(transformers, name).from_pretrained(folder).eval()
    ours = headroom.run(run.id, outputs=tmp_path)
    with torch.inference_mode():
        for theirs, expected in outputs_of(name, model, ours):
            torch.testing.assert_close(theirs, expected, rtol=0, atol=1e-5)


def outputs_of(name, model, ours):
    """Return pairs of outputs on a batch: first of the class of `transformers`, then of the run."""
    module, batch = ours.module().eval(), ours.batch(rows=2)
    network, expected = module.model, module(batch)
    if name.endswith("ForCausalLM"):
        mask_B1TT = attention_mask(batch["segments"], causal=True).as_subclass(Tensor)
        given = {"attention_mask": mask_B1TT, "position_ids": batch["positions"]}
        return [(model(batch["tokens"], **given).logits, expected)]
    types_BT, mask_BT = batch["token_type_ids"], batch["attention_mask"]
    found = model(
        batch["tokens"], token_type_ids=types_BT, attention_mask=mask_BT.long()
    )
    if name == "BertForSequenceClassification":
        return [(found.logits, expected)]
    if name == "BertForQuestionAnswering":
        ends_2BT = torch.stack((found.start_logits, found.end_logits))
        return [(ends_2BT.masked_fill(~mask_BT, float("-inf")), expected)]
    hidden_BTD = network(batch["tokens"], types_BT, mask_BT)
    every_BT = torch.arange(hidden_BTD.shape[1]).expand(len(hidden_BTD), -1)
    real_NV = network.token_logits(hidden_BTD, every_BT)[mask_BT]
    following = (found.seq_relationship_logits, network.next_logits(hidden_BTD))
    return [(found.prediction_logits[mask_BT], real_NV), following]


def test_what_no_class_computes_is_refused(tmp_path):
    run = headroom.run(ended(tmp_path, SMALL["representation"]).id, outputs=tmp_path)
    assert "task=representation: expected a task on text" in refusal(
        run.export, tmp_path / "exported"
    )
    assert not (tmp_path / "exported").exists()


def test_a_key_that_the_export_does_not_know_is_refused():
    model = made(TODAY).config.model.model_dump()
    model["attention"]["sinks"] = False
    told = "model.attention.sinks=false: expected a key that the export maps"
    assert told in refusal(check_mapped, model)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"model.heads": 3},
            "model.head_size=5: expected null or 5.66667 (embedding_size /",
        ),
        # Sizes of their own.
        ({"model.head_size": UNEVEN}, "model.head_size=[[17],[17]]: expected null"),
        ({"model.activation": "relu"}, "model.activation=relu: expected gelu"),
    ],
)
def test_an_encoder_that_bert_is_not_is_refused_by_its_key(changes, told):
    section = made({**SMALL["pretraining"], "model.heads": 1, **changes}).config.model
    assert told in refusal(encoder_config, section, "pretraining", {})
