r"""Answers that contain the right number and are another one, and right ones in many forms, made from a few parts."""

from __future__ import annotations

from collections.abc import Iterator

EXPRESSIONS = (
    r"""
Ni|Ne|Nx|Nn|Nab|N x|2N|N!|N^{10}|N^x|N^{-1}|N^N|N**2|2**N|x^N|x^{N}|e^{N}|10^{N}|N^{1/2}|N_3|x_N y|N\%x|\sqrt{N}
\sqrt N|\sqrt[3]{N}|N\sqrt{2}|N\sqrt2|N\sqrt[3]{2}|√N|N√2|sqrt(N)|N\pi|\pi N|Nπ|\frac{N}{\pi}|N/\pi|\pi/N|\frac{N}{3}
\frac{7}{N}|\frac{x}{N}|N/x|x/N|N/7/2|1/N|-N|- N|−N|\pm N|±N|N\pm1|N ± 1|N \mp 2|N+1|N + x|x + N|N-x|x-N|N - 1|1 - N
N-1|-x+N|N+2i|2i+N|N - 3i|N\cdot 2|2\cdot N|N \cdot x|N\times 3|3 \times N|N*2|N * x|x*N|N(5)|3(N)|N(x+1)|(N)^2|(N)x
(N)!|(N)/3|-(N)|N\div 2|2\div N|\log_2 N|\log N|\ln N|\ln(N)|log(N)|ln N|\log_{N} 2|\sin N|N\sin x|\sin(N)|sin(N)
\cos N|\tan N|\arctan N|\exp(N)|exp(N)|f(N)|g(N)|P(N)|N\ln 2|N\log 2|\Gamma(N)|\gcd(N, 6)|\max(N, 99)|\binom{N}{2}
\binom{9}{N}|\lfloor N/3 \rfloor|N\infty|\infty N|N\alpha|\theta N|N\theta|N\lambda|N \bmod 3|N \le x|x > N|x \ge N
x < N|N < x|\ge N|> N + 1|\neq N|x \neq N|N \leq x \leq 9|N, 9|9, N|(N, 9)|(9, N)|[N, 9]|\{N, 9\}|(N, \infty)
[N, \infty)|N \text{ or } 9|9 \text{ or } N|N:9|9:N|2x=N|x^2=N|x+y=N|2x+z=N|x-N=0|N=2x|xy=N|\sqrt{x}=N|x=N\pi|x=Ni
x=N\sqrt{2}|x=-N|x=\pm N|x=N^2|x=N/3|\int_0^N x dx|\sum_{k=1}^{N} k|\prod_{k=1}^N k|N\vec{v}|N\mathbf{i}|N\mathrm{i}
N\hat{i}|\begin{pmatrix}N\\9\end{pmatrix}|N\int x dx|N \cup 9|N^\prime x|N.5|0.N|N0|1N|N,000|N thousandths|N e^2
N\frac{1}{2}|N^{0.5}|\overline{N9}|N\overline{9}|N\sec x|N\csc x|N^{N^{N}}|N^{9^{9^9}}|N!!
""".strip()
    .replace("\n", "|")
    .split("|")
)
"""Each with N for the right number; none of them has its value, whichever of `NUMBERS` it is."""

WORDS = (
    """
N squared|N cubed|N factorial|N times pi|N times x|N plus x|N plus two|N minus x|x plus N|x minus N|x times N|N over x
N divided by x|N divided by 3|the square root of N|the cube root of N|the logarithm of N|the log base 2 of N
the square of N|the reciprocal of N|half of N|twice N|two times N|N to the power of 10|N to the power x
N raised to the 10th power|N choose 2|less than N|more than N|greater than N|not N|N or 9|N to 9|N million x|N mod 3
""".strip()
    .replace("\n", "|")
    .split("|")
)

FRAMES = (
    "The answer is ${}$.",
    "So x = ${}$.",
    "Therefore, the result is \\({}\\).",
    "We get \\[{}\\]",
    "{}",
    "${}$",
    "**{}**",
    "**${}$**",
    "\\boxed{{{}}}",
    "#### {}",
    "Answer: {}",
    "**Final Answer:** ${}$",
    "The answer is {}.",
    "so $y = {}$",
)
WORD_FRAMES = ("The answer is {}.", "So it is {}.", "{}", "**{}**", "\\boxed{{\\text{{{}}}}}", "#### {}", "Answer: {}")
NUMBERS = ("4", "12")


def wrong_answers() -> Iterator[tuple[str, str]]:
    """Yield the right answer and a wrong one that contains it."""
    for forms, frames in ((EXPRESSIONS, FRAMES), (WORDS, WORD_FRAMES)):
        for form in forms:
            for number in NUMBERS:
                yield from ((number, frame.format(form.replace("N", number))) for frame in frames)


RIGHT = (
    r"""
N|N.0|N.|+N|\text{N}|N\text{ cm}|N \text{ units}|N\ \mathrm{cm}|x = N|x=N|y = N \text{ cm}|f(2) = N|a_5 = N|P(A) = N
AB = N|\angle ABC = N^\circ|N^\circ|2 \cdot 3 - 6 + N = N|\frac{2N}{2} = N|\mathbf{N}|\displaystyle N|\left(N\right)
(N)|N\,|N\;\text{m}|\$N|N\%|\color{red}N|\textbf{N}|{N}|\approx N|\$N.00
""".strip()
    .replace("\n", "|")
    .split("|")
)
RIGHT_WORDS = (
    """
N|N dollars|$N|N eggs per day|N%|N km|about N|exactly N|N cm long|N.0|N degrees|N, because it is so|N (see above)
N times a day|N out of 20|N km/h|N people
""".strip()
    .replace("\n", "|")
    .split("|")
)
RIGHT_FRAMES = (
    "The answer is ${}$.",
    "So the result is ${}$.",
    "Therefore, we have \\({}\\).",
    "We get \\[{}\\]",
    "${}$",
    "**${}$**",
    "$\\boxed{{{}}}$",
    "#### ${}$",
    "Answer: ${}$",
    "**Final Answer:** ${}$",
    "First $z = 9$, then \\boxed{{{}}}.",
)
RIGHT_WORD_FRAMES = (
    "The answer is {}.",
    "So it is {}.",
    "{}",
    "**{}**",
    "\\boxed{{\\text{{{}}}}}",
    "#### {}",
    "Answer: {}",
    "It takes {} in all.",
)


def right_answers() -> Iterator[tuple[str, str]]:
    """Yield the right answer twice, bare and in another form."""
    for forms, frames in ((RIGHT, RIGHT_FRAMES), (RIGHT_WORDS, RIGHT_WORD_FRAMES)):
        for form in forms:
            for number in NUMBERS:
                yield from ((number, frame.format(form.replace("N", number))) for frame in frames)
