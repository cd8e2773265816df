"""Options of the reader `data_generation`: the public original's keys under their names, and new ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import and_, ge, gt, le, max_len, min_len, optional

from astuner.settings.config.components import OPEN, Sections
from astuner.shared.clients import LLMOptions
from astuner_datagen.languages import parse_language

KEY = "astuner.task_reader.data_generation"
DEFAULT_MODEL = "qwen-long"


def _are_languages(instance: Any, attribute: Attribute[Any], value: tuple[str, ...]) -> None:
    for name in value:
        parse_language(name)


def _is_no_key(instance: Any, attribute: Attribute[Any], value: str | None) -> None:
    if value is not None:
        raise ValueError("keys are read from the environment (DASHSCOPE_API_KEY, OPENAI_API_KEY), never from the YAML; remove it")


@frozen(kw_only=True)
class DocumentReader:
    """The documents to ask questions on, and how they are cut into chunks."""

    document_path: str | tuple[str, ...] = field(validator=min_len(1))
    """Files (txt, md, html, pdf) or folders of them, relative to the YAML; one, or a list."""
    languages: tuple[str, ...] = field(default=("eng",), validator=and_(min_len(1), max_len(2), _are_languages))
    """Of the documents and so of the prompts: `eng` or `en`, `chi_sim` or `zh`; with both, the script of each chunk decides."""
    chunk_size: int = field(default=5120, validator=ge(32))
    """Most characters of a chunk, the text that one request shows to the LLM."""
    split_by: Literal["sentence", "paragraph", "character"] = "sentence"
    """Where a chunk may end; a sentence or paragraph that is longer than a chunk is still cut."""
    cache_enabled: bool = True
    """Keep the text of html and pdf files in `directory`, so that each is parsed once."""


@frozen(kw_only=True)
class QueryReader:
    """The reader of the sample tasks."""

    type: str = "dataset_file"
    """Any reader but `data_generation`; the samples are its training tasks."""
    sections: Sections = field(factory=dict, metadata={OPEN: True})
    """Options by reader name, as below `task_reader`: `dataset_file: {training: {file_path: …}}`."""


@frozen(kw_only=True)
class KnowledgeAugmentor:
    """From a chunk to questions on what it says."""

    n: int = field(default=10, validator=ge(1))
    """Most questions that one request asks for; fewer where there are enough chunks for all tasks."""


@frozen(kw_only=True)
class TaskAugmentor:
    """From a sample task, and a chunk where there are documents, to tasks like it."""

    n: int = field(default=5, validator=ge(1))
    """Most tasks that one request asks for."""
    max_samples: int = field(default=200, validator=ge(1))
    """Only the first `max_samples` sample tasks are used."""


@frozen(kw_only=True)
class DeduplicationParams:
    """When two questions count as the same, and how they are compared."""

    similarity_threshold: float = field(default=0.8, validator=and_(gt(0), le(1)))
    """Cosine similarity from which the later of two questions is dropped."""
    model: str | None = None
    """An embedding model of an OpenAI-compatible API, such as `text-embedding-v4`; null compares spelling by n-grams, offline."""
    base_url: str | None = None
    """Address of that API; null for the LLM's."""
    api_key: str | None = field(default=None, validator=_is_no_key)
    """Stays null: keys are read from the environment."""
    db_path: str | None = None
    """A file that stores the API's vectors, relative to the YAML; null for one in `directory`."""
    batch_size: int = field(default=10, validator=ge(1))
    """Texts of one request to that API."""

    def __attrs_post_init__(self) -> None:
        # Two fields together, which a field's validator cannot check.
        if self.model is None and self.base_url is not None:
            raise ValueError(
                "base_url is the address of an embedding API, and no model of it is named: set model, or remove base_url"
            )


@frozen(kw_only=True)
class DeduplicationFilter:
    """Drops questions that are like an earlier one."""

    enabled: bool = True
    """False drops only the same question again."""
    params: DeduplicationParams = field(factory=DeduplicationParams)


@frozen(kw_only=True)
class DataGenerationOptions:
    """Options of the reader `data_generation`; needs documents, sample tasks, or both."""

    document_reader: DocumentReader | None = None
    query_reader: QueryReader | None = None
    task_num: int = field(default=10, validator=ge(0))
    """Training tasks to make: like the samples if there are any, else questions on the documents."""
    validation_task_num: int | None = field(default=None, validator=optional(ge(0)))
    """Validation tasks to make, always questions on the documents; as many as `task_num` when null, none without documents."""
    validation_share: float = field(default=0.3, validator=[gt(0), le(0.9)])
    """Share of the chunks that validation takes; training never sees these."""
    knowledge_augmentor: KnowledgeAugmentor = field(factory=KnowledgeAugmentor)
    task_augmentor: TaskAugmentor = field(factory=TaskAugmentor)
    llm_model: str | None = None
    """The LLM; `llm.model_name` when null, `qwen-long` when both are."""
    llm_response_length: int = field(default=8192, validator=ge(16))
    """Most tokens of one answer."""
    num_workers: int | None = field(default=None, validator=optional(ge(1)))
    """Requests under way at once; `llm.concurrency` when null."""
    sampling_params: Mapping[str, Any] = field(factory=dict)
    """Fields of each request, such as `temperature` or `top_p`; they override those of `llm`."""
    verify: bool = False
    """Have the LLM answer each question from its chunk only, and drop those whose answer it does not reproduce."""
    deduplication_filter: DeduplicationFilter = field(factory=DeduplicationFilter)
    least_yield: float = field(default=0.1, validator=[ge(0), le(1)])
    """Repeating ends when it gives fewer new questions than this share of those requested; with 0, when it gives none."""
    directory: str = field(default="generated_tasks", validator=min_len(1))
    """Where tasks, cached answers and parsed documents are stored; relative to the YAML."""
    llm: LLMOptions = field(factory=LLMOptions)

    def __attrs_post_init__(self) -> None:
        # Fields together, which a field's validator cannot check.
        if self.document_reader is None and self.query_reader is None:
            raise ValueError(
                "there is nothing to make tasks of: name documents (document_reader), sample tasks (query_reader), or both"
            )
        if self.document_reader is None and self.validation_task_num:
            raise ValueError(
                "validation tasks are questions on documents, and no document_reader names any; remove validation_task_num"
            )
        if self.llm_model is not None and self.llm.model_name not in (None, self.llm_model):
            raise ValueError(f"llm_model is '{self.llm_model}' and llm.model_name '{self.llm.model_name}'; keep one of the two")

    @property
    def model(self) -> str:
        """The LLM's name."""
        return self.llm_model or self.llm.model_name or DEFAULT_MODEL

    @property
    def wanted_validation(self) -> int:
        """The number of validation tasks to make."""
        if self.document_reader is None:
            return 0
        return self.task_num if self.validation_task_num is None else self.validation_task_num
