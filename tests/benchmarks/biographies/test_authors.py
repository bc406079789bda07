"""The authors' own prompts, against a rendering by itself of ALCE's format."""

import gzip
import json

import pytest

from lm_factuality.benchmarks.biographies.generations import generation_to_doc, read_generations
from lm_factuality.benchmarks.biographies.task import authors_prompt
from lm_factuality.ground.errors import ConfigError

PROMPT = {
    "instruction": "Write.",
    "demo_sep": "\n\n\n",
    "demo_prompt": "{INST}\n\nName: {Q}\n\n{D}\nAnswer: {A}",
    "doc_prompt": "Document [{ID}] (Title: {T}): {P}\n",
    "demos": [
        {
            "question": name,
            "answer": f"\n{name}.\nSo.",
            "docs": [{"title": name, "text": "x"}] * 6,
        }
        for name in "ABC"
    ],
}


def alce(prompt, item, is_test):
    """The form of a demonstration filled in field by field: where {D}, {Q} and {A} stand does not
    change in ALCE's prompts."""
    documents = "".join(
        f"Document [{place + 1}] (Title: {each['title']}): {each['text']}\n"
        for place, each in enumerate(item["docs"][:5])
    )
    text = (
        f"{prompt['instruction']}\n\nName of the person: {item['question']}\n\n{documents}\nAnswer:"
    )
    return text if is_test else text + item["answer"]


@pytest.mark.parametrize("name", ["with_ambig", "no_ambig", "careful"])
def test_prompts_of_the_checkout_are_alces_byte_for_byte(name, shared, tmp_path):
    folder = tmp_path / "ALCE"
    folder.mkdir()
    (folder / "AmbigBio_prompts").symlink_to(shared / "data" / "prompts" / "ambigbio")
    path = shared / "data" / "ambigbio" / "generations_chatgpt-0301.json.gz"
    prompt = json.loads(
        (folder / "AmbigBio_prompts" / f"AmbigBio_default_{name}.json").read_text(encoding="utf-8")
    )
    assert prompt["demo_prompt"] == "{INST}\n\nName of the person: {Q}\n\n{D}\nAnswer: {A}"
    head = "".join(
        alce(prompt, each, False) + "\n\n\n" for each in prompt["demos"][:2]
    )  # what numpy draws of three with seed 42
    render, _ = authors_prompt(tmp_path, name)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = json.load(file)["data"]
    generations = read_generations([path], with_outputs=False)
    for row, generation in zip(rows, generations, strict=True):
        doc = generation_to_doc(generation)
        is_split = any(
            "\nTitle: " in each["text"] for each in row["docs"]
        )  # into passages, by the reader of citation logs
        assert is_split or doc["passages"] == row["docs"]
        assert render(doc) == head + alce(
            prompt, {"question": row["question"], "docs": doc["passages"]}, True
        )


@pytest.fixture
def checkout(tmp_path):
    """Writes a prompt where the authors have theirs."""

    def write(content):
        folder = tmp_path / "ALCE" / "AmbigBio_prompts"
        folder.mkdir(parents=True)
        (folder / "AmbigBio_default_careful.json").write_text(content)
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "expected a checkout"),
        (json.dumps({**PROMPT, "demos": PROMPT["demos"][:1]}), "demos"),
    ],
)
def test_what_is_no_prompt_is_refused(content, message, checkout):
    with pytest.raises(ConfigError, match=message):
        authors_prompt(checkout(content), "careful")
