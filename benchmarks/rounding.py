"""How far bfloat16 alone moves log-probabilities between the engine of `local` and its trainer, on a pretrained model.

`python benchmarks/rounding.py MODEL_DIR` with SmolLM2-135M-Instruct, about 30 CPU seconds.
"""

from __future__ import annotations

import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from astuner_local.forward.choose import make_separate_attend
from astuner_local.forward.fused import FusedForward

SYSTEM = (
    "You work in a shop. To see a price, write LOOKUP and the item.\n"
    "Example:\nQuestion: How much is a pen?\nYou: LOOKUP pen\nShop: 3 dollars\nYou: 3"
)
TURNS = (
    ("How much is a wardrobe?", "LOOKUP wardrobe", "91"),
    ("How much is a drill?", "LOOKUP drill", "71"),
    ("How much is a frame?", "The price of the item is 12 dollars.", "89"),
    ("How much is a screwdriver?", "LOOKUP: a lamp", "52"),
)
"""Question, what the assistant writes first, price."""
TEMPERATURE, DRAWS = 0.8, 200


def main(path: str) -> None:
    """Print the differences of what the engine draws at every position."""
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    sequences = []
    for question, first, price in TURNS:
        said = [
            ("system", SYSTEM),
            ("user", question),
            ("assistant", first),
            ("user", f"Shop: {price} dollars"),
            ("assistant", price),
        ]
        messages = [{"role": role, "content": content} for role, content in said]
        sequences.append(torch.tensor(tokenizer(tokenizer.apply_chat_template(messages, tokenize=False))["input_ids"]))
    lengths = tuple(map(len, sequences))
    positions = torch.cat([torch.arange(length) for length in lengths])
    found = []
    with torch.no_grad():
        for trainable in (False, True):
            forward = FusedForward(model, torch.bfloat16, trainable=trainable)
            hidden = forward.hidden(torch.cat(sequences), positions, make_separate_attend(lengths, forward.scale))
            found.append((forward.logits(hidden) / TEMPERATURE).log_softmax(-1))
    engine, trainer = found
    drawn = torch.multinomial(engine.exp(), DRAWS, replacement=True, generator=torch.Generator().manual_seed(0))
    apart = (trainer.gather(1, drawn) - engine.gather(1, drawn)).abs().flatten()
    quantiles = "  ".join(f"{share:.2%} {apart.quantile(share):.3f}" for share in (0.5, 0.99, 0.999))
    print(f"{sum(lengths)} positions: mean {apart.mean():.4f}  {quantiles}  largest {apart.max():.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
