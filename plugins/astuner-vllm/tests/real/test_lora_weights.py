from __future__ import annotations

import pytest
import torch
from transformers import AutoModelForCausalLM

pytestmark = pytest.mark.slow

PROMPT = list(range(5, 205))


@pytest.fixture(scope="module")
def adapters(models, tmp_path_factory):
    """Adapters of `untied-0` with random weights, and the model into which each is merged, by seed."""
    from peft import LoraConfig, get_peft_model

    made = {}
    for seed in (0, 1):
        home = tmp_path_factory.mktemp(f"adapter-{seed}")
        torch.manual_seed(seed)
        model = get_peft_model(
            AutoModelForCausalLM.from_pretrained(models.path("untied-0")),
            LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"),
        )
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.05)
        model.save_pretrained(home / "adapter")
        model.merge_and_unload().save_pretrained(home / "merged")
        made[seed] = home
    return made


def assert_serves(server, models, merged, model):
    found = server.generate(PROMPT, model=model)
    expected = models.logits(merged, PROMPT, found["token_ids"]).log_softmax(-1)
    assert expected.argmax(-1).tolist() == found["token_ids"]
    values = [entry["logprob"] for entry in found["logprobs"]["content"]]
    assert expected.amax(-1).tolist() == pytest.approx(values, abs=1e-4)


def test_an_adapter_serves_what_the_merged_model_would_and_changes_in_place(untied_server, models, adapters):
    for seed in (0, 1, 0):
        body = {"lora_name": "policy-adapter", "lora_path": str(adapters[seed] / "adapter"), "load_inplace": True}
        assert untied_server.post("/v1/load_lora_adapter", body).status_code == 200
        assert untied_server.post("/reset_prefix_cache").status_code == 200
        assert_serves(untied_server, models, adapters[seed] / "merged", "policy-adapter")
        assert_serves(untied_server, models, "untied-0", "policy")
