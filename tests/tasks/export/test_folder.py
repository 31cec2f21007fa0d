"""An exported folder is loaded by transformers and computes what the run's model does."""

import json
import warnings

import pytest
import torch

import headroom_attention as headroom
from sweeper.store.errors import UserError
from tasks.export.__main__ import main
from tests.tasks.export.test_decoder import TODAY
from tests.tasks.jobs import freeze, run_job
from tests.tasks.small import SMALL

RUNS = {
    "MistralForCausalLM": TODAY,
    "BertForPreTraining": {**SMALL["pretraining"], "model.heads": 1, "model.head_size": None},
}


def trained(outputs, changes):
    run = freeze(outputs, {"trainer.validate_every": 0, **changes})
    assert run_job(run) == 0
    return run


@pytest.mark.parametrize("name", RUNS)
def test_transformers_loads_it_and_computes_the_same(tmp_path, capsys, name):
    run, folder = trained(tmp_path, RUNS[name]), tmp_path / "exported"
    assert main([str(run.path), str(folder)]) == 0
    files = ["README.md", "config.json", "model.safetensors", "tokenizer.json"]
    files.append("tokenizer_config.json")
    assert capsys.readouterr().out.split() == [str(folder / file) for file in files]
    card = (folder / "README.md").read_text()
    assert run.result()["weights_sha256"] in card
    assert json.loads((folder / "config.json").read_text())["architectures"] == [name]
    assert main([str(run.path), str(folder)]) == 1
    assert "DIR=" in (said := capsys.readouterr().err)
    assert "expected a new or empty folder" in said

    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = getattr(transformers, name).from_pretrained(folder).eval()
    ours = headroom.run(run.id, outputs=tmp_path)
    network, batch = ours.model(), ours.batch(rows=2)
    with torch.inference_mode():
        if name == "MistralForCausalLM":
            sees = batch["segments"][:, :, None] == batch["segments"][:, None, :]
            mask_B1TT = (sees & torch.ones_like(sees).tril()).unsqueeze(1)
            given = {"attention_mask": mask_B1TT, "position_ids": batch["positions"]}
            logits = model(batch["tokens"], **given).logits
            expected = ours.task.outputs(network, batch)
        else:
            mask_BT = batch["attention_mask"]
            given = {"token_type_ids": batch["token_type_ids"], "attention_mask": mask_BT.long()}
            found = model(batch["tokens"], **given)
            hidden_BTD = network(batch["tokens"], batch["token_type_ids"], mask_BT)
            every_BT = torch.arange(hidden_BTD.shape[1]).expand(len(hidden_BTD), -1)
            real_NV = network.token_logits(hidden_BTD, every_BT)[mask_BT.bool()]
            torch.testing.assert_close(
                found.prediction_logits[mask_BT.bool()], real_NV, rtol=0, atol=1e-5
            )
            logits, expected = found.seq_relationship_logits, network.next_logits(hidden_BTD)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "model.position_encoding=sinusoidal: expected rotary"),
        (SMALL["pretraining"], "model.head_size=5: expected null or 5.66667, embedding_size /"),
        (SMALL["nearest_neighbour"], "task=nearest_neighbour: expected a task on text"),
    ],
    ids=["decoder", "encoder", "numbers"],
)
def test_what_no_class_computes_is_refused(tmp_path, changes, told):
    run = headroom.run(trained(tmp_path, changes).id, outputs=tmp_path)
    with pytest.raises(UserError) as caught:
        run.export(tmp_path / "exported")
    assert told in str(caught.value)
    assert not (tmp_path / "exported").exists()
