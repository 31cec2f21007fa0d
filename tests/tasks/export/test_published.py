"""Tests that a model of `transformers` can be imported, trained further, and exported unchanged."""

import json
import math
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

import headroom_attention as headroom
from sweeper.store.runs import RunStore
from tasks.checkpoint import final_weights
from tasks.export.folder import export
from tasks.export.published import import_folder
from tasks.text.tokenizer import train_bpe, train_wordpiece
from tests.end_to_end.test_sweep import python
from tests.refusals import refusal
from tests.tasks.export.test_decoder import packed_rows, sharpen
from tests.tasks.export.test_folder import outputs_of
from tests.tasks.jobs import ended
from tests.tasks.lm1b.test_data import segments_of
from tests.tasks.small import SMALL, made

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore")
V = 293  # more than the number of tokens of the tokenizers
SIZES = {
    "vocab_size": V,
    "hidden_size": 12,
    "intermediate_size": 23,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
}
LATENT = {
    "kv_lora_rank": 11,
    "q_lora_rank": 13,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 5,
    "v_head_dim": 7,
    "num_key_value_heads": 3,
    "first_k_dense_replace": 2,
    "rope_interleave": False,
}
CLASSES = {
    "BertForPreTraining": {"max_position_embeddings": 71},
    "MistralForCausalLM": {"num_attention_heads": 2, "num_key_value_heads": 1},
    "Qwen3ForCausalLM": {"head_dim": 10, "num_key_value_heads": 3},
    "DeepseekV3ForCausalLM": LATENT,
}
BERT, MISTRAL = "BertForPreTraining", "MistralForCausalLM"
LINES = ["the cat sat on the mat", "a dog ran after the cat", "no one saw the dog"]


def saved(tmp_path, name):
    """Save a random model of a class, and a tokenizer with other special tokens than ours."""
    folder, settings = tmp_path / "theirs", {**SIZES, **CLASSES.get(name, {})}
    made_of = getattr(transformers, name.partition("For")[0] + "Config")(**settings)
    torch.manual_seed(7)
    model = getattr(transformers, name)(made_of)
    sharpen(model)
    model.save_pretrained(folder)
    train = train_wordpiece if name.startswith("Bert") else train_bpe
    tokenizer = train(LINES * 3, 270)
    tokenizer.save(str(folder / "tokenizer.json"))
    if train is train_bpe:
        about = {"bos_token": tokenizer.id_to_token(3), "eos_token": {"content": "a"}}
        (folder / "tokenizer_config.json").write_text(json.dumps(about))
    return folder


def imported(tmp_path, name):
    """Save and import a random model. Return its folder, the outputs folder, and the run."""
    folder, outputs = saved(tmp_path, name), tmp_path / "outputs"
    return folder, outputs, RunStore(outputs).run(import_folder(folder, outputs))


def loaded(name, folder):
    return getattr(transformers, name).from_pretrained(folder).eval()


def child_of(run, task):
    """Plan and train a run that starts from an imported one."""
    record = run.record().config
    known = {f"task.{key}": one for key, one in record["task"].items() if key != "name"}
    inherited = {**SMALL[task], "model": record["model"], **known, "parent": run.id}
    off = {"trainer.validate_every": 0, "trainer.checkpoint_every": 0}
    return ended(run.outputs, {**inherited, **off}, "child")


@pytest.mark.parametrize("name", CLASSES)
def test_logits_are_those_of_transformers_before_and_after_training(name, tmp_path):
    folder, outputs, run = imported(tmp_path, name)
    elsewhere = shutil.copytree(folder, tmp_path / "elsewhere")
    edited(elsewhere, pooler_fc_size=768, directionality="bidi")  # bert-base-chinese
    assert import_folder(elsewhere, outputs) == run.id
    theirs, record = loaded(name, folder), run.record().config
    bert = name == BERT
    sizes = {"model": record["model"], "task.vocabulary_size": V}
    ours = made({**SMALL["pretraining" if bert else "lm1b"], **sizes}).model.eval()
    ours.load_state_dict(final_weights(run, "parent"))
    tokens_BT, *_ = packed_rows()
    ones_BT, every_BT = torch.ones_like(tokens_BT), torch.arange(17).expand(2, -1)
    with torch.inference_mode():
        if bert:
            hidden_BTD = ours(tokens_BT, ones_BT, ones_BT.bool())
            found = ours.token_logits(hidden_BTD, every_BT)
            expected = theirs(tokens_BT, token_type_ids=ones_BT).prediction_logits
        else:
            found = ours.logits(ours(tokens_BT, ones_BT, every_BT))
            expected = theirs(tokens_BT).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)

    # test_folder.py exports an encoder of each task.
    task, of_task = ("squad", "BertForQuestionAnswering") if bert else ("lm1b", name)
    child, again = child_of(run, task), tmp_path / "again"
    assert child.result().steps > 0
    export(child, again)
    trained = headroom.run(child.id, outputs=outputs)
    with torch.inference_mode():
        for their, own in outputs_of(of_task, loaded(of_task, again), trained):
            torch.testing.assert_close(their, own, rtol=0, atol=1e-5)
    if not bert:  # the exported folder is imported again, with the same marks
        second = RunStore(outputs).run(import_folder(again, outputs))
        assert second.record().config["task"]["marks"] == record["task"]["marks"]
        kept, now = (final_weights(one, "parent") for one in (child, second))
        assert all(kept[key].equal(now[key]) for key in kept.keys() | now.keys())


def test_rows_have_the_marks_and_the_pieces_of_the_published_tokenizer(tmp_path):
    folder, outputs, run = imported(tmp_path, MISTRAL)
    first, last = run.record().config["task"]["marks"]
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert (first, last) == (3, tokenizer.token_to_id("a"))
    child = child_of(run, "lm1b")
    batch = headroom.run(child.id, outputs=outputs).batch(rows=2)
    for tokens, targets in zip(
        segments_of(batch, "tokens"), segments_of(batch), strict=True
    ):
        assert tokens == (first, *targets[:-1])
    ends_BT, begins_BT = batch["targets"] == last, batch["segments"].diff(dim=1) > 0
    assert begins_BT.any()
    assert ends_BT[:, :-1].equal(begins_BT)


def edited(folder, **changes):
    path = folder / "config.json"
    whole = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in whole.items() if v is not ...}))


@pytest.mark.parametrize(
    ("name", "changes", "told"),
    [
        (
            BERT,
            {"architectures": ["BertForTokenClassification"]},
            "architectures=BertForTok",
        ),
        (BERT, {"position_embedding_type": "relative_key"}, "expected absolute, since"),
        (BERT, {"sinks": True}, "sinks=true: expected no such key"),
        (BERT, {"type_vocab_size": ...}, "type_vocab_size=(missing): expected 2"),
        (BERT, {"num_attention_heads": 5}, "model.heads=5: expected a divisor of"),
        (
            BERT,
            {"num_hidden_layers": 3},
            "layer.2.attention.self.query.weight=(missing)",
        ),
        (BERT, {"num_hidden_layers": 1}, "expected no such tensor; save"),
        (BERT, {"intermediate_size": 29}, "(23, 12): expected the shape (29, 12)"),
        (BERT, {"vocab_size": 11}, "vocab_size=11: expected"),
        (MISTRAL, {"rms_norm_eps": 1e-5}, "rms_norm_eps=1e-05: expected 1e-06, since"),
        (
            MISTRAL,
            {"rope_parameters": {"rope_theta": 1e4, "rope_type": "yarn"}},
            "rope_",
        ),
        (MISTRAL, {"vocab_size": 70_001}, "vocab_size=70001: expected"),
        (MISTRAL, {"rope_parameters": "x"}, "rope_parameters: Input should be a valid"),
        (
            MISTRAL,
            {"num_key_value_heads": 3},
            "config.json: key_value_heads=3 does not divide heads=2",
        ),
    ],
)
def test_a_config_that_no_model_of_ours_has_is_refused_by_its_key(
    tmp_path, name, changes, told
):
    edited(folder := saved(tmp_path, name), **changes)
    sentence = refusal(import_folder, folder, tmp_path / "outputs")
    assert sentence.startswith(f"parent={folder}: ")
    assert told in sentence
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize(
    ("file", "content", "told"),
    [
        ("tokenizer.json", None, "tokenizer.json is missing; save the model"),
        ("model.safetensors", "short", "model.safetensors cannot be read ("),
        ("config.json", "[]", "config.json"),
        ("tokenizer_config.json", '{"eos_token": "nope"}', "eos_token=null: expected"),
        ("tokenizer_config.json", '{"eos_token": 5}', "eos_token"),
    ],
)
def test_a_file_that_is_missing_or_damaged_is_named(tmp_path, file, content, told):
    path = saved(tmp_path, MISTRAL) / file
    path.unlink() if content is None else path.write_text(content)
    assert told in refusal(import_folder, path.parent, tmp_path / "outputs")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda weights: weights.fill_(math.nan), "NaN or inf"),
        (lambda weights: weights.double() * 1e300, "NaN or inf"),
        (lambda weights: weights.to(torch.int8), "torch.int8"),
    ],
)
def test_weights_that_are_not_finite_numbers_are_refused(tmp_path, change, told):
    name = "bert.pooler.dense.weight"
    path = saved(tmp_path, BERT) / "model.safetensors"
    weights = load_file(path)
    save_file({**weights, name: change(weights[name])}, path)
    sentence = refusal(import_folder, path.parent, tmp_path / "outputs")
    assert f"{name}={told}: expected finite" in sentence


def test_a_folder_of_links_is_imported_as_in_the_cache_of_huggingface_hub(tmp_path):
    folder, outputs, run = imported(tmp_path, MISTRAL)
    links = tmp_path / "snapshot"
    links.mkdir()
    for path in folder.iterdir():
        (links / path.name).symlink_to(f"../theirs/{path.name}")
    assert import_folder(links, outputs) == run.id


def test_an_imported_run_is_not_exported_and_has_no_module(tmp_path):
    _, outputs, one = imported(tmp_path, BERT)
    run = headroom.run(one.id, outputs=outputs)
    for use in (run.model, run.tokenizer, lambda: run.export(tmp_path / "again")):
        assert "imported from a folder; use that folder" in refusal(use)


def test_an_imported_run_that_is_damaged_or_cut_short_is_imported_again(tmp_path):
    folder, outputs, run = imported(tmp_path, BERT)
    [weights] = run.path.rglob("weights.ckpt")
    weights.unlink()
    assert f"forget {run.id}" in refusal(final_weights, run, "parent")
    (run.path / "result.json").unlink()
    assert import_folder(folder, outputs) == run.id  # as after a kill, begun again
    assert final_weights(run, "parent")
    assert {path.name for path in outputs.iterdir()} == {"data", "runs"}


def test_a_first_token_that_the_tokenizer_lacks_is_replaced_by_the_last(tmp_path):
    folder, outputs = saved(tmp_path, MISTRAL), tmp_path / "outputs"
    (folder / "tokenizer_config.json").unlink()
    edited(folder, bos_token_id=V + 1, eos_token_id=5)
    run = RunStore(outputs).run(import_folder(folder, outputs))
    assert run.record().config["task"]["marks"] == [5, 5]


def test_a_model_without_output_layers_is_imported_without_them(tmp_path):
    weights = final_weights(imported(tmp_path, "BertForMaskedLM")[-1], "run")
    assert "masked_tokens.dense.weight" in weights
    assert not any(name.startswith("pooler") for name in weights)


@pytest.mark.slow
def test_one_command_fine_tunes_a_folder_that_transformers_saved(tmp_path):
    folder, outputs = saved(tmp_path, BERT), tmp_path / "outputs"
    typed = f"sweep.py task=mnli parent={folder} trainer.steps=3 logger=none"
    typed += f" optimizer.warmup_steps=0 data.sentences=600 paths.outputs={outputs}"
    python(*typed.split())
    [child] = outputs.glob("runs/mnli-*")
    run = headroom.run(child.name, outputs=outputs)
    assert run.metrics().keys() >= {"test/accuracy"}
    assert run.config["parent"] == import_folder(folder, outputs)
