"""vLLM's own tests of its tool parsers, run with ours in their place; each that fails is listed with who is right."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaged_templates import sdist

from astuner.model.rendering.tool_calls import STYLES

FILES = (
    *("hermes", "qwen3coder", "glm4_moe", "glm47_moe", "llama3_json", "deepseekv3", "deepseekv31", "deepseekv32", "deepseekv4"),
    *("kimi_k2", "minimax_m2", "minimax_m3", "granite", "granite_20b_fc", "pythonic", "llama4_pythonic", "lfm2", "apertus"),
    "step3p5",
)
HARNESS = "vLLM's own: structural tags, its regular expressions, its response objects, constants of its modules"
BLANK = "vLLM keeps the white space before a call in the content; here it is dropped, since a template writes its own"
TEXT = "vLLM drops text between or after calls; here nothing that the model wrote vanishes"
UNCLOSED = "vLLM reads a call that breaks off; here model.unclosed_calls decides"
WRAPPER = "vLLM repairs arguments wrapped in another object and a section without its marker; here they are as written"
DECLARED = "the format says that the value is a text, and vLLM follows the schema; both can be defended"
UNTYPED = "the schema has no type; here JSON is taken as JSON"
PIECES = "vLLM sends the arguments in several pieces; here model.streamed_calls decides"
NAMELESS = "vLLM skips a call without a number in its id; here it is a call, since its name and arguments are readable"
GUESSED = "vLLM makes a list of a repeated element, and guesses where a text with such quotes ends; here the call is malformed"
STRICT = "vLLM counts a call that is none, or passes on broken JSON; here it is malformed"

DIFFERENCES: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "hermes_tool_parser::test_hermes_parser_non_streaming_tool_call_until_eos[llama]",
            "kimi_k2_tool_parser.TestStreamingEdgeCases::test_truncated_tool_call_no_end_marker",
            "apertus_tool_parser.TestExtractToolCalls::test_incomplete_tool_call",
            "apertus_tool_parser.TestExtractToolCalls::test_missing_tool_suffix",
            "apertus_tool_parser.TestStreamingExtraction::test_streaming_missing_tool_suffix",
            "apertus_tool_parser.TestStreamingExtraction::test_streaming_partial_tag_buffering_missing_tool_suffix",
        ),
        UNCLOSED,
    ),
    **dict.fromkeys(
        (
            "deepseekv32_tool_parser.TestExtractToolCalls::test_number_param",
            "minimax_m2_tool_parser.TestSingleInvoke::test_multiple_params",
            "minimax_m2_tool_parser.TestLargeChunks::test_header_and_params_in_separate_chunks",
        ),
        UNTYPED,
    ),
    **dict.fromkeys(
        (
            "qwen3coder_tool_parser::test_adjust_request_auto_uses_vllm_registry_structural_tag[chat_completion-True]",
            "qwen3coder_tool_parser::test_adjust_request_auto_uses_vllm_registry_structural_tag[chat_completion-False]",
            "qwen3coder_tool_parser::test_adjust_request_auto_uses_vllm_registry_structural_tag[responses_api-True]",
            "qwen3coder_tool_parser::test_adjust_request_auto_uses_vllm_registry_structural_tag[responses_api-False]",
            "qwen3coder_tool_parser::test_adjust_request_required_prefers_structural_tag[chat_completion]",
            "qwen3coder_tool_parser::test_adjust_request_required_prefers_structural_tag[responses_api]",
            "glm47_moe_tool_parser.TestGlm47ExtractToolCalls::test_namespace_tool_call_round_trip_to_responses_output",
            "llama3_json_tool_parser::test_regex_timeout_handling",
            "pythonic_tool_parser::test_regex_timeout_handling[False]",
            "llama4_pythonic_tool_parser::test_regex_timeout_handling[False]",
            "lfm2_tool_parser::test_regex_timeout_handling[False]",
            "lfm2_tool_parser::test_adjust_request_disables_skip_special_tokens",
            "granite_20b_fc_tool_parser.TestGranite20bFcToolParser::test_surrounding_text[True]",
            "step3p5_tool_parser::test_extract_tool_calls_streaming_full_input_mixed_content_and_multiple_tool_calls",
            'apertus_tool_parser.TestStreamingExtraction::test_streaming_scientific_notation[{"value": -2e-3}]',
            'apertus_tool_parser.TestStreamingExtraction::test_streaming_scientific_notation[{"value": 1.5e3}]',
            'apertus_tool_parser.TestStreamingExtraction::test_streaming_scientific_notation[{"values": [1.5e3, -2e-3]}]',
        ),
        HARNESS,
    ),
    **dict.fromkeys(
        (
            "llama3_json_tool_parser::test_extract_tool_calls_simple",
            "deepseekv31_tool_parser::test_extract_tool_calls_with_multiple_tools",
            "kimi_k2_tool_parser.TestStreamingEdgeCases::test_noise_between_markers_suppressed",
            "kimi_k2_tool_parser.TestStreamingEdgeCases::test_content_after_tool_section",
            "step3p5_tool_parser::test_extract_tool_calls_non_streaming_mixed_content_and_multiple_tool_calls",
            "lfm2_tool_parser::test_echoed_tool_call_body_not_leaked_to_content",
        ),
        TEXT,
    ),
    **dict.fromkeys(
        (
            "deepseekv3_tool_parser.TestDeepSeekV3ToolParser::test_malformed_input[False]",
            "kimi_k2_tool_parser.TestExtractToolCalls::test_invalid_json_still_extracted",
        ),
        STRICT,
    ),
    **dict.fromkeys(
        (
            "deepseekv32_tool_parser.TestExtractToolCalls::test_content_before_tool_call",
            "deepseekv32_tool_parser.TestDelimiterPreservation::test_delimiter_preserved_fast_detokenization",
            "deepseekv4_tool_parser::test_extract_tool_calls",
            "kimi_k2_tool_parser.TestExtractToolCalls::test_extract_tool_calls[single_tool_call]",
            "kimi_k2_tool_parser.TestExtractToolCalls::test_extract_tool_calls[parallel_tool_calls]",
            "kimi_k2_tool_parser.TestExtractToolCalls::test_extract_tool_calls[three_tool_calls]",
            "kimi_k2_tool_parser.TestExtractToolCalls::test_extract_tool_calls[angle_brackets_in_json]",
            "kimi_k2_tool_parser.TestExtractToolCalls::test_extract_tool_calls[multiline_json]",
            "kimi_k2_tool_parser.TestExtractToolCalls::test_extract_tool_calls[no_functions_prefix]",
            "kimi_k2_tool_parser.TestExtractToolCalls::test_extract_tool_calls[empty_arguments]",
            "minimax_m2_tool_parser.TestContentStreaming::test_content_before_tool_call",
            "apertus_tool_parser.TestStreamingExtraction::test_mtp_streaming_massive_chunk",
        ),
        BLANK,
    ),
    **dict.fromkeys(
        (
            "deepseekv32_tool_parser.TestExtractToolCalls::test_string_attr_true_coerced_by_schema",
            "deepseekv32_tool_parser.TestExtractToolCalls::test_string_attr_true_coerced_by_composed_schema",
            "deepseekv32_tool_parser.TestExtractToolCallsStreaming::test_string_attr_true_coerced_by_schema_streaming",
        ),
        DECLARED,
    ),
    **dict.fromkeys(
        (
            "deepseekv32_tool_parser.TestExtractToolCalls::test_arguments_wrapper_repaired",
            "deepseekv32_tool_parser.TestExtractToolCalls::test_input_wrapper_repaired",
            "deepseekv4_tool_parser::test_function_calls_wrapper_is_not_recognized",
            "deepseekv4_tool_parser::test_missing_tool_calls_wrapper_is_recovered",
            "deepseekv4_tool_parser::test_extract_tool_calls_arguments_wrapper",
        ),
        WRAPPER,
    ),
    **dict.fromkeys(
        (
            "deepseekv32_tool_parser.TestExtractToolCallsStreaming::test_emits_arguments_before_invoke_completes",
            "deepseekv4_tool_parser::test_streaming_emits_incremental_argument_chunks",
            "step3p5_tool_parser::test_extract_tool_calls_streaming_incremental",
        ),
        PIECES,
    ),
    **dict.fromkeys(
        (
            "minimax_m3_tool_parser::test_non_streaming_nested_tool_call",
            "minimax_m3_tool_parser::test_streaming_nested_tool_call",
            "lfm2_tool_parser::test_tool_call[nested_python_c_streaming]",
            "lfm2_tool_parser::test_tool_call[nested_python_c_nonstreaming]",
        ),
        GUESSED,
    ),
    **dict.fromkeys(
        ("kimi_k2_tool_parser.TestExtractToolCalls::test_invalid_funcall_id_skipped",),
        NAMELESS,
    ),
}
"""Who is right: neither in HARNESS, UNCLOSED, PIECES, GUESSED, WRAPPER, DECLARED, UNTYPED; ours in the others."""


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of vLLM's source distribution, with its tests."""
    folder = tmp_path_factory.mktemp("vllm")
    with tarfile.open(sdist("vllm-0.33.0")) as archive:
        members = [
            member
            for member in archive
            if member.name.startswith(("vllm-0.33.0/tests/tool_parsers/", "vllm-0.33.0/tests/parser/"))
        ]
        archive.extractall(folder, members, filter="data")
    root = folder / "vllm-0.33.0"
    (root / "tests" / "__init__.py").touch()
    (root / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    return root


def find_failed(root: Path, streamed_calls: str, least: int, *options: str) -> set[str]:
    """Return the tests of vLLM that fail, as file::name."""
    environment = {
        **os.environ,
        "ASTUNER_STREAMED_CALLS": streamed_calls,
        "PYTHONPATH": os.pathsep.join((str(root), str(Path(__file__).parent))),
    }
    environment.pop("PYTEST_ADDOPTS", None)
    tests = [f"tests/tool_parsers/test_{name}_tool_parser.py" for name in FILES]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "vllm_stand_in",
        "-p",
        "no:cacheprovider",
        "--junit-xml=found.xml",
        *options,
        *tests,
    ]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    cases = list(ET.parse(root / "found.xml").iter("testcase"))
    assert len(cases) >= least, done.stdout[-2000:]
    return {
        f"{case.get('classname', '').removeprefix('tests.tool_parsers.test_')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    }


MISTRAL: Mapping[str, tuple[list[tuple[str, str]], int]] = {
    '[TOOL_CALLS][{"name": "add", "arguments": {"a": 3, "b": 4}}]': ([("add", '{"a": 3, "b": 4}')], 0),
    '[TOOL_CALLS] [{"name": "add", "arguments": {}}, {"name": "sub", "arguments": {}}]': ([("add", "{}"), ("sub", "{}")], 0),
    'Sure.[TOOL_CALLS]add{"a": 3.5}': ([("add", '{"a": 3.5}')], 0),
    '[TOOL_CALLS]add[ARGS]{"a": {"b": ["]", "}"]}}[TOOL_CALLS]sub[ARGS]{}': (
        [("add", '{"a": {"b": ["]", "}"]}}'), ("sub", "{}")],
        0,
    ),
    '[TOOL_CALLS]{"name": "add", "arguments": {}}': ([("add", "{}")], 0),
    # vLLM salvages these as a call without arguments, or as text without its marker.
    '[TOOL_CALLS][{"arguments": {"a": 3}}]': ([], 1),
    "[TOOL_CALLS]not json": ([], 1),
    '[TOOL_CALLS]add[ARGS]{"a": 3': ([], 1),
}
"""Outputs as in vLLM's tests of Mistral's parser, most of which need its engine: the calls, and the malformed ones."""


@pytest.mark.parametrize("output", MISTRAL)
def test_the_outputs_of_mistrals_tests(output: str) -> None:
    parser = STYLES["mistral"]("", tools=[{"type": "function", "function": {"name": "add"}}], parallel=True)
    pieces = [*parser.feed(output), *parser.finish()]
    calls = [(piece.name, piece.text) for piece in pieces if piece.kind == "tool_call"]
    assert (calls, parser.malformed) == MISTRAL[output]


def test_what_differs_from_vllm_is_listed(vllm: Path) -> None:
    failed = find_failed(vllm, "whole", 250)
    assert sorted(failed - DIFFERENCES.keys()) == []
    assert sorted(DIFFERENCES.keys() - failed) == []


def test_arguments_in_pieces_come_as_vllm_sends_them(vllm: Path) -> None:
    """vLLM's answers that are not streamed differ from the streamed ones where a call breaks; ours do not."""
    failed = {name for name in find_failed(vllm, "pieces", 60, "-k", "stream") if "_non_streaming_" not in name}
    assert sorted(failed - DIFFERENCES.keys()) == []
    assert not any(DIFFERENCES[name] == PIECES for name in failed)
