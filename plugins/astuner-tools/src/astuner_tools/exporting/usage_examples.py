"""How an export is loaded, for its card."""

from __future__ import annotations

TRANSFORMERS = """\
```python
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
model = AutoModelForCausalLM.from_pretrained("{name}")
messages = [{{"role": "user", "content": "…"}}]
prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt", return_dict=True)
answer = model.generate(**prompt, max_new_tokens=100)[0, prompt["input_ids"].shape[1] :]
print(tokenizer.decode(answer, skip_special_tokens=True))
```

An OpenAI-compatible server: `vllm serve {name}`."""
ADAPTER = """\
```python
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

tokenizer = AutoTokenizer.from_pretrained("{name}")
base = AutoModelForCausalLM.from_pretrained("{base}")
model = PeftModel.from_pretrained(base, "{name}")
```

An OpenAI-compatible server: `vllm serve {base} --enable-lora --lora-modules tuned={name}`."""
GGUF = """\
```
llama-server -m model.gguf
ollama create {model} -f Modelfile && ollama run {model}
```"""


def format_usage(kind: str, name: str, base: str) -> str:
    """Return the lines that load an export called `name` and tuned from `base`."""
    text = {"hf": TRANSFORMERS, "adapter": ADAPTER, "gguf": GGUF}[kind]
    return text.format(name=name, base=base or "BASE", model=name.lower())
