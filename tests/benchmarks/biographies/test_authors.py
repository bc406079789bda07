"""The authors' own prompts, against a second rendering of ALCE's format."""

import gzip
import json

import pytest

from lm_factuality.benchmarks.biographies.generations import generation_to_doc, read_generations
from lm_factuality.benchmarks.biographies.task import authors_prompt
from lm_factuality.ground.errors import ConfigError

PROMPTS_FOLDER = "AmbigBio_prompts"
NUM_DEMONSTRATIONS = 2
"""How many of the three demonstrations of a file the authors' script draws."""


def render_alce(instruction, question, passages):
    """Render the text before an answer, as ALCE does with the template of AmbigBio's prompts."""
    documents = ""
    for number, passage in enumerate(passages[:5], 1):
        documents += f"Document [{number}] (Title: {passage['title']}): {passage['text']}\n"
    return f"{instruction}\n\nName of the person: {question}\n\n{documents}\nAnswer:"


def render_prompt(prompt, doc):
    """Render a prompt of the authors for a document, after its demonstrations.

    With the authors' seed, numpy draws the first demonstrations.
    """
    instruction = prompt["instruction"]
    text = ""
    for demonstration in prompt["demos"][:NUM_DEMONSTRATIONS]:
        text += render_alce(instruction, demonstration["question"], demonstration["docs"])
        text += demonstration["answer"] + "\n\n\n"
    return text + render_alce(instruction, doc["question"], doc["passages"])


@pytest.fixture
def authors_checkout(shared, tmp_path):
    """Return a folder with the authors' prompts where their repository has them."""
    folder = tmp_path / "ALCE"
    folder.mkdir()
    (folder / PROMPTS_FOLDER).symlink_to(shared / "data" / "prompts" / "ambigbio")
    return tmp_path


@pytest.fixture(scope="module")
def published_path(shared):
    """Return the published responses of ChatGPT, which hold questions and passages."""
    return shared / "data" / "ambigbio" / "generations_chatgpt-0301.json.gz"


@pytest.fixture(scope="module")
def published_docs(published_path):
    """Return the documents of a task that are made of the published questions and passages."""
    generations = read_generations([published_path], with_outputs=False)
    return [generation_to_doc(generation) for generation in generations]


def read_prompt(checkout, name):
    """Read a file of the authors' prompts."""
    path = checkout / "ALCE" / PROMPTS_FOLDER / f"AmbigBio_default_{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["with_ambig", "no_ambig", "careful"])
def test_the_authors_files_have_the_template_of_these_tests(name, authors_checkout):
    """`render_alce` renders this template, and no other."""
    prompt = read_prompt(authors_checkout, name)

    assert prompt["demo_prompt"] == "{INST}\n\nName of the person: {Q}\n\n{D}\nAnswer: {A}"


@pytest.mark.parametrize("name", ["with_ambig", "no_ambig", "careful"])
def test_prompts_from_the_checkout_equal_alces_byte_for_byte(
    name, authors_checkout, published_docs
):
    """Another spacing would give a model another prompt than in the paper."""
    prompt = read_prompt(authors_checkout, name)

    render, _settings = authors_prompt(authors_checkout, name)

    for doc in published_docs:
        assert render(doc) == render_prompt(prompt, doc)


def test_published_questions_and_passages_are_read_unchanged(published_path, published_docs):
    """A changed passage would give a model another prompt than in the paper."""
    with gzip.open(published_path, "rt", encoding="utf-8") as file:
        rows = json.load(file)["data"]

    for row, doc in zip(rows, published_docs, strict=True):
        assert doc["question"] == row["question"]
        # A reader of citation logs splits documents of several passages.
        has_several_passages = any("\nTitle: " in document["text"] for document in row["docs"])
        if not has_several_passages:
            assert doc["passages"] == row["docs"]


PROMPT_WITH_ONE_DEMONSTRATION = {
    "instruction": "Write.",
    "demo_sep": "\n\n\n",
    "demo_prompt": "{INST}\n\nName: {Q}\n\n{D}\nAnswer: {A}",
    "doc_prompt": "Document [{ID}] (Title: {T}): {P}\n",
    "demos": [
        {
            "question": "A",
            "answer": "\nA.\nSo.",
            "docs": [{"title": "A", "text": "x"}] * 6,
        }
    ],
}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("{", "expected a checkout", id="no JSON"),
        pytest.param(
            json.dumps(PROMPT_WITH_ONE_DEMONSTRATION), "demos", id="too few demonstrations"
        ),
    ],
)
def test_invalid_prompt_file_is_refused(content, message, tmp_path):
    """The message says which files the setting ``prompts`` expects, or what the file lacks."""
    folder = tmp_path / "ALCE" / PROMPTS_FOLDER
    folder.mkdir(parents=True)
    (folder / "AmbigBio_default_careful.json").write_text(content)

    with pytest.raises(ConfigError, match=message):
        authors_prompt(tmp_path, "careful")
