"""Ordinary answers in many scripts, notations and languages of programming: none of them abnormal behaviour.

Generated texts have the size and regularity of real answers: grids, logs, tables, rules, encodings.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from random import Random

SCRIPTS: Mapping[str, str] = {
    "English": "The answer is 42. Let me check it again: 6 × 7 = 42, so it holds. Yes, it holds.",
    "French": "L’élève a répondu « c’est là-bas », où l’été dure déjà ; peut-être à Noël, garçon naïf.",
    "German": "Die Größe des Flußufers überraschte alle: fünfzig Meter! Übermütig lief Jürgen hinüber.",
    "Polish": "Zażółć gęślą jaźń. Wartość wynosi dokładnie 3,14 zł za sztukę.",
    "Turkish": "Iğdır'ın güneşli günü; şöyle böyle değil, çok iyiydi.",
    "Vietnamese": "Đáp án là bảy. Chúng ta cộng hai số rồi chia cho ba.",
    "Icelandic": "Það er ekki rétt að svarið sé þrír; það er fjórir.",
    "Chinese": "首先，我们把两个数相加：三加四等于七。然后再除以二，得到三点五。所以答案是 3.5。",
    "Japanese": "まず二つの数を足します。３＋４＝７です。次に２で割ると３.５になります。ですから、答えは３.５です。",
    "Korean": "먼저 두 수를 더합니다. 삼 더하기 사는 칠입니다. 그러므로 답은 칠입니다.",
    "Arabic": "أولاً نجمع العددين: ثلاثة زائد أربعة يساوي سبعة. إذن الجواب هو ٧.",
    "Hebrew": "קודם נחבר את שני המספרים: שלוש ועוד ארבע הם שבע. לכן התשובה היא 7.",
    "Hindi": "पहले हम दोनों संख्याओं को जोड़ते हैं। तीन और चार सात होते हैं। इसलिए उत्तर ७ है।",
    "Thai": "ก่อนอื่นเรานำจำนวนทั้งสองมาบวกกัน สามบวกสี่เท่ากับเจ็ด ดังนั้นคำตอบคือ ๗",
    "Bengali": "প্রথমে আমরা দুটি সংখ্যা যোগ করি। তিন আর চার মিলে সাত হয়।",
    "Tamil": "முதலில் இரண்டு எண்களையும் கூட்டுகிறோம். மூன்றும் நான்கும் ஏழு.",
    "Russian": "Сначала сложим оба числа: три плюс четыре равно семи. Значит, ответ — 7.",
    "Ukrainian": "Спочатку додамо обидва числа: три плюс чотири дорівнює семи. Їжак з’їв ґудзик.",
    "Greek": "Πρώτα προσθέτουμε τους δύο αριθμούς: τρία και τέσσερα κάνουν επτά. Άρα η απάντηση είναι 7.",
    "Armenian": "Նախ գումարում ենք երկու թվերը. երեք գումարած չորս հավասար է յոթի։",
    "Georgian": "ჯერ შევკრიბოთ ორი რიცხვი: სამს დამატებული ოთხი უდრის შვიდს.",
    "Amharic": "በመጀመሪያ ሁለቱን ቁጥሮች እንደምራለን። ሦስት ሲደመር አራት ሰባት ነው።",
    "Khmer": "ដំបូងយើងបូកលេខទាំងពីរ។ បីបូកបួនស្មើប្រាំពីរ។",
    "Braille": "⠠⠞⠓⠑ ⠁⠝⠎⠺⠑⠗ ⠊⠎ ⠼⠙⠃⠲",
    "IPA": "ˈæn.sər, ʒuˈʁnal, ʃtʁuːdl̩, ŋ͡mˈɡbe, tɕʰiŋ˥˥",
    "runes and hieroglyphs": "ᚠᛇᚻ᛫ᛒᛦᚦ᛫ᚠᚱᚩᚠᚢᚱ 𓀀𓁐𓂀 𐎠𐎡 𝄞",
    "emoji": "Great job! 🎉🎉🎉 👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽 🇫🇷🇯🇵 ❤️‍🔥 ✅ 1️⃣ 2️⃣ 3️⃣ 🎉🎉🎉🎉🎉🎉🎉🎉",
    "mathematics": "∀ε>0 ∃δ>0: |x−π|≤δ ⇒ |f(x)−f(π)|<ε; ∑ₙ 1/n² = π²/6, ∫₀^∞ e^{−x²} dx = ½√π, ℕ⊂ℤ⊂ℚ⊂ℝ⊂ℂ, ¬(p∧q) ⟺ ¬p∨¬q",
    "money and marks": "€5 £3 ¥900 ₹20 ₿0.1 © ® ™ § ¶ † ‡ … – — ‘a’ “b” «c» ‹d› 10 °C ½ ¾ № 7",
    "combining marks": "Z̷a̵l̴g̶o̷ e\u0301 n\u0303 and a\u200bzero\u00a0width \ufeffspace",
    "a laugh and a cry": "Hahahahahahahahahahaha! Nooooooooooooooooooooooooooooooooo!!!!!!!!!! Zzzzzzzz…",
}
"""Prose and notations."""

CODE: Mapping[str, str] = {
    "Python": (
        'def fib(n: int) -> int:\n    """Return it."""\n    a, b = 0, 1\n    for _ in range(n):\n'
        "        a, b = b, a + b\n    return a\n"
    ),
    "chat template": (
        "prompt = '<|im_start|>user\\nhi<|im_end|>\\n<|im_start|>assistant\\n'  # ends with <|endoftext|>, not [INST] or </s>\n"
    ),
    "C": (
        "#include <stdio.h>\nint main(void) {\n    for (int i = 0; i < 10; i++) {\n"
        '        printf("%d\\n", i);\n    }\n    return 0;\n}\n'
    ),
    "Rust": (
        'fn main() {\n    let v: Vec<Option<i32>> = vec![None; 8];\n    println!("{:?}", v.iter().flatten().sum::<i32>());\n}\n'
    ),
    "Haskell": "quicksort [] = []\nquicksort (p:xs) = quicksort [x | x <- xs, x < p] ++ [p] ++ quicksort [x | x <- xs, x >= p]\n",
    "Lisp": "(defun ack (m n) (cond ((= m 0) (+ n 1)) ((= n 0) (ack (- m 1) 1)) (t (ack (- m 1) (ack m (- n 1))))))\n",
    "Brainfuck": "++++++++[>++++[>++>+++>+++>+<<<<-]>+>+>->>+[<]<-]>>.>---.+++++++..+++.>>.<-.<.+++.------.--------.>>+.>++.\n",
    "APL": "life ← {⊃1 ⍵ ∨.∧ 3 4 = +/ +⌿ ¯1 0 1 ∘.⊖ ¯1 0 1 ⌽¨ ⊂⍵}\n",
    "assembly": "_start:\n" + "    nop\n" * 60 + "    mov eax, 1\n    int 0x80\n",
    "SQL": "INSERT INTO t (a, b, c) VALUES\n" + ",\n".join(f"  ({i}, NULL, NULL)" for i in range(60)) + ";\n",
    "HTML": '<div class="board">\n' + '  <div class="cell"></div>\n' * 64 + "</div>\n",
    "HTML table": "<table>" + ("<tr>" + "<td></td>" * 9 + "</tr>") * 9 + "</table>",
    "regular expression": r"^(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)(?:\.(?!$)|$)){4}$",
    "shell": 'for f in *.txt; do\n  mv -- "$f" "${f%.txt}.md" && echo "$f → ok"\ndone 2>/dev/null | tee -a log\n',
    "LaTeX": "\\begin{tabular}{|c|c|c|}\n\\hline\n"
    + "0 & 0 & 0 \\\\ \\hline\n" * 12
    + "\\end{tabular} $\\sum_{i=1}^{n} i = \\frac{n(n+1)}{2}$\n",
    "diff": "--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n-import os\n+import sys\n \n" + "-    pass\n" * 20,
    "a tool call in prose": 'To call it write <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call> and wait.',
}
"""Programs and markup."""


def _random_bytes(count: int) -> bytes:
    return Random(0).randbytes(count)


REGULAR: Mapping[str, str] = {
    "empty": "",
    "blank": " \n\n   \t\n",
    "JSON objects": json.dumps([{"id": i, "name": f"user{i}", "active": True, "tags": []} for i in range(300)], indent=1),
    "JSON zeros": json.dumps([[0] * 30] * 30),
    "JSON booleans": json.dumps([True] * 500),
    "JSON nulls": json.dumps({"values": [None] * 600}),
    "grid of zeros": "\n".join(" ".join("0" * 30) for _ in range(30)),
    "identity matrix": "\n".join(" ".join("1" if i == j else "0" for j in range(40)) for i in range(40)),
    "numbers": ", ".join(map(str, range(2000))),
    "primes": " ".join(str(n) for n in range(2, 3000) if all(n % d for d in range(2, int(n**0.5) + 1))),
    "binary numbers": "\n".join(f"{i} = {i:08b}" for i in range(256)),
    "a googol": "10^100 = 1" + "0" * 100,
    "a thousand digits": "1" + "0" * 1000,
    "a repeating decimal": "1/7 = 0." + "142857" * 40 + "…",
    "CSV": "id,name,value,,,\n" + "".join(f"{i},item{i},{i * 3.5},,,\n" for i in range(200)),
    "CSV of empty fields": (",,,,,,,,,\n") * 60,
    "log": "".join(
        f"2024-05-0{1 + i // 100} 12:{i // 60 % 60:02}:{i % 60:02} INFO worker-{i % 4} request served in {i % 7} ms\n"
        for i in range(300)
    ),
    "log without times": "INFO health check ok\n" * 40,
    "base64": base64.encodebytes(_random_bytes(3000)).decode(),
    "base64 of zeros": base64.b64encode(bytes(1024)).decode(),
    "hex dump": "\n".join(f"{i:08x}  " + " ".join(["00"] * 16) + "  |................|" for i in range(0, 1024, 16)),
    "UUIDs": "\n".join(f"{Random(i).getrandbits(128):032x}" for i in range(60)),
    "DNA": "".join(Random(1).choices("ACGT", k=3000)),
    "rules": "-----\n\n=====\n\n"
    + "-" * 80
    + "\n"
    + "=" * 200
    + "\n"
    + "*" * 80
    + "\n"
    + "~" * 80
    + "\n"
    + "_" * 300
    + "\n"
    + "━" * 120,
    "leaders": "\n".join(f"Chapter {i} {'.' * (70 - len(str(i)))} {i * 12}" for i in range(1, 40)),
    "Markdown table": "| a | b | c |\n|---|---|---|\n" + "| 0 | 0 | 0 |\n" * 60,
    "wide Markdown table": "|" + " x |" * 60 + "\n|" + "---|" * 60 + "\n",
    "box drawing": "┌" + "─" * 78 + "┐\n" + ("│" + " " * 78 + "│\n") * 20 + "└" + "─" * 78 + "┘",
    "ASCII art": "\n".join(" " * (20 - i) + "*" * (2 * i + 1) for i in range(20)) + "\n" + " " * 19 + "|||\n",
    "a filled block": ("#" * 60 + "\n") * 25,
    "progress": "\n".join("[" + "█" * i + "░" * (40 - i) + f"] {i * 100 // 40}%" for i in range(41)),
    "a maze": "\n".join("".join(Random(i).choices("# ", k=60)) for i in range(30)),
    "a sum, step by step": "\n".join(f"Step {i}: {i * (i - 1) // 2} + {i} = {i * (i + 1) // 2}" for i in range(1, 200)),
    "bottles": "\n".join(f"{n} bottles of beer on the wall, {n} bottles of beer. Take one down." for n in range(99, 0, -1)),
    "a refrain": "\n".join(
        f"Verse {i} tells of wind {i * i}.\nRow, row, row your boat,\nGently down the stream.\n" for i in range(1, 12)
    ),
    "a chorus": "We will, we will sing along!\n" * 12,
    "a poem": (
        "Tyger of paper, tyger of ink,\nburn where the margins sink;\n"
        "what small hand, and what small eye,\nlet thy folded stripes go by?"
    ),
    "multiplication table": "\n".join("\t".join(str(i * j) for j in range(1, 13)) for i in range(1, 13)),
    "calendar": "Mo Tu We Th Fr Sa Su\n" + "\n".join(" ".join(f"{7 * w + d:2}" for d in range(1, 8)) for w in range(5)),
    "to-do list": "\n".join("- [ ] task" for _ in range(80)),
    "XML": "<list>\n" + "".join(f'  <item id="{i}"/>\n' for i in range(200)) + "</list>",
    "truth table": "\n".join(" ".join(f"{i:06b}") + " | T" for i in range(64)),
    "chess": "1. e4 e5 2. Nf3 Nc6 3. Bb5 a6 4. Ba4 Nf6 5. O-O Be7 " + "6. Re1 Ng8 7. Rf1 Nf6 " * 12,
}
"""Texts that are regular by nature."""

ORDINARY_TEXTS: Mapping[str, str] = {**SCRIPTS, **CODE, **REGULAR}
"""All of them, by description."""
