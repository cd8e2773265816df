from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import DataError
from astuner.shared.install_hints import install_command
from astuner_datagen.documents import Library, count_other_files, find_files, open_library, read_files

pypdf = pytest.importorskip("pypdf", reason="comes with the extra documents")
pytest.importorskip("bs4", reason="comes with the extra documents")


def write_pdf(path: Path, pages: list[str], password: str | None = None) -> None:
    """A pdf with a line of text on each page, written by pypdf."""
    from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    writer = pypdf.PdfWriter()
    for text in pages:
        page = writer.add_blank_page(width=600, height=200)
        content = DecodedStreamObject()
        content.set_data(f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode("latin-1"))
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): writer._add_object(font)})}
        )
        page[NameObject("/Contents")] = writer._add_object(content)
    if password is not None:
        writer.encrypt(password, algorithm="RC4-128")
    with path.open("wb") as file:
        writer.write(file)


def opened(folder: Path, *names: str, kept: Path | None = None) -> Library:
    return open_library(read_files(find_files(names, folder, "key"), folder, "key"), kept)


def text_of(folder: Path, name: str) -> str:
    (document,) = opened(folder, name).documents
    return document.text


def test_pages_of_a_pdf_stand_where_they_say(tmp_path: Path) -> None:
    write_pdf(tmp_path / "a.pdf", ["First page.", "Second page."])
    (document,) = opened(tmp_path, "a.pdf").documents
    assert [document.text[start:].split("\n")[0].strip() for start in document.page_starts] == ["First page.", "Second page."]


def test_html_loses_its_markup_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        "<html><head><title>no</title><style>no {}</style></head><body><h1>Title</h1>"
        "<p>One <b>bold</b>\nword &amp; more.</p>"
        "<script>no()</script><ul><li>first</li><li>second</li></ul><table><tr><td>a</td><td>b</td></tr></table>"
        "<pre>x\n  y</pre></body></html>"
    )
    text = text_of(tmp_path, "a.html")
    assert [line for line in text.splitlines() if line] == ["Title", "One bold word & more.", "first", "second", "a b", "x", "y"]


def test_what_a_page_does_not_show_is_no_text_of_it(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<!DOCTYPE html PUBLIC "-//W3C//DTD"><!-- no -->'
        "<p>One<!-- nor this --> word.<![CDATA[ nor that ]]></p>"
        "<!ENTITY no><pre>x<!-- no -->y</pre>"
    )
    assert text_of(tmp_path, "a.html").split() == ["One", "word.", "xy"]


def test_html_that_the_parser_refuses_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "broken.html").write_text("<p>a<![foo bar<p>")
    (tmp_path / "good.html").write_text("<p>good</p>")
    library = opened(tmp_path, ".")
    assert [document.name for document in library.documents] == ["good.html"]
    assert library.unreadable["broken.html"].startswith("the html cannot be parsed: ")


def test_a_name_that_is_not_utf8_becomes_one_that_is(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("good")
    assert [document.name for document in opened(tmp_path, ".").documents] == [r"caf\xe9.txt"]


def test_html_in_another_encoding_is_read_by_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes('<meta charset="gb18030"><p>北京是首都。</p>'.encode("gb18030"))
    assert text_of(tmp_path, "a.html").strip() == "北京是首都。"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_text_is_the_file_to_the_character(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.txt").write_bytes("Zeile\r\n中文".encode(encoding))
    assert text_of(tmp_path, "a.txt") == "Zeile\r\n中文"


def test_what_cannot_be_read_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing that follows")
    (tmp_path / "latin.txt").write_bytes("été".encode("latin-1"))
    (tmp_path / "empty.md").write_text(" \n")
    write_pdf(tmp_path / "locked.pdf", ["secret"], password="p")
    (tmp_path / "good.txt").write_text("good")
    library = opened(tmp_path, ".")
    assert [document.name for document in library.documents] == ["good.txt"]
    assert library.unreadable.keys() == {"broken.pdf", "empty.md", "latin.txt", "locked.pdf"}
    assert "cannot be parsed" in library.unreadable["broken.pdf"]
    assert "holds no text" in library.unreadable["empty.md"]
    assert "byte 1 is not UTF-8" in library.unreadable["latin.txt"]
    assert "password" in library.unreadable["locked.pdf"]


def test_files_that_no_format_reads_are_counted_by_ending(tmp_path: Path) -> None:
    for name in ("a.docx", "b.DOCX", "sub/c.docx", "LICENSE", ".hidden.swp", "good.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text")
    assert count_other_files([".", "good.txt"], tmp_path) == {"": 1, ".docx": 3}


def test_what_the_pdf_library_logs_is_in_the_reason_and_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.4 and nothing that follows")
    (tmp_path / "good.txt").write_text("good")
    code = (
        "from pathlib import Path; from astuner_datagen.documents import *; p = Path(); "
        "print(open_library(read_files(find_files('.', p.absolute(), 'k'), p.absolute(), 'k'), None).unreadable)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "EOF marker not found" in done.stdout


def test_nothing_readable_is_an_error_that_names_every_file(tmp_path: Path) -> None:
    (tmp_path / "broken.pdf").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"broken\.pdf: the pdf cannot be parsed"):
        opened(tmp_path, "broken.pdf")


@pytest.mark.parametrize(
    ("name", "said"),
    [("missing.txt", "does not exist"), ("a.docx", "documents end in .txt"), ("empty", "the folder holds no document")],
)
def test_a_path_without_documents_is_refused_with_its_key(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "a.docx").write_text("no")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=said) as caught:
        find_files(name, tmp_path, "the.key")
    assert str(caught.value).startswith("the.key: ")


def test_a_pdf_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_pdf(tmp_path / "a.pdf", ["First page."])
    first = opened(tmp_path, "a.pdf", kept=tmp_path / "kept")

    def never(*_: Any) -> Any:
        raise AssertionError("parsed again")

    monkeypatch.setattr("astuner_datagen.documents.parse", never)
    assert opened(tmp_path, "a.pdf", kept=tmp_path / "kept").documents == first.documents


def test_a_missing_library_is_answered_with_the_command_that_brings_it(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["pypdf"] = None  # what an import finds where the package is not installed
import importlib.util
importlib.util.find_spec = lambda name, package=None: None
from astuner.contract.errors import PluginError
from astuner_datagen.formats import check_libraries
check_libraries({".txt", ".md"})
try:
    check_libraries({".pdf"})
except PluginError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert install_command("astuner-datagen[documents]") in shown


def test_importing_the_reader_imports_no_heavy_library() -> None:
    code = (
        "import sys, astuner_datagen.reader, astuner_datagen.commands\n"
        "print([m for m in ('pypdf', 'bs4', 'openai', 'httpx') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
