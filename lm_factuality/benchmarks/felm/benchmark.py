"""FELM as the rest of the suite knows it."""

from collections.abc import Mapping, Sequence
from typing import Any

from lm_factuality.benchmarks.asked import Answers, Item, People, load_questions, relabelling
from lm_factuality.benchmarks.declaration import Benchmark, Instance, Recount, Row, Rows, Sample
from lm_factuality.benchmarks.felm import metrics
from lm_factuality.benchmarks.felm.judging import SETTINGS
from lm_factuality.benchmarks.felm.page import LEAD, SAMPLES, sections
from lm_factuality.benchmarks.felm.rows import FELM
from lm_factuality.harness.outputs import TaskResult
from lm_factuality.harness.samples import first_text, prompt_text, responses_of, texts


def keep(sample: Sample) -> Row:
    """The response that is judged and what was said of it. Raises ValueError: the responses are not as the task writes them."""
    given = texts(sample["filtered_resps"])
    if given != responses_of(sample)[: len(given)]:
        raise ValueError("'filtered_resps' are not 'resps'")
    doc = {key: sample["doc"][key] for key in ("index", "domain", "labels", "owners", "problem", "mode")}
    return {"doc": doc, "outputs": given}


def recount(task: TaskResult, rows: Rows) -> Recount:
    protocol, mode = str(task.metadata.get("protocol", "paper")), str(task.metadata.get("mode", "vanilla"))
    return Recount(lambda row: metrics.row_metrics(row["doc"], row["outputs"], protocol, mode))


def instance(sample: Sample) -> Instance | None:
    """Whether the judge under test sees rightly that a response holds an error, or holds none."""
    if sample.get("unscored") is not None or not any(sample.get("response_f1") or ()):
        return None
    doc = sample["doc"]
    found, alarm, missed, _ = sample["response_f1"]
    is_right = not (alarm or missed)
    return Instance(
        prompt_text(sample["arguments"]["gen_args_0"]["arg_0"]),
        ("has an error" if found or missed else "has no error", f"labels: {doc['labels']}"),
        None,
        first_text(sample.get("resps")),
        "has an error" if found or alarm else "has no error",
        "segments named in the verdict",
        float(is_right),
        is_right,
    )


FACTUAL = "factual"


def segment_items(prompt: str, segments: Sequence[str], said: Sequence[str] | None, references: Sequence[str] = ()) -> list[Item]:
    """An item for each segment; ``said`` is what the judge says of each."""
    beside = tuple((f"Reference {number}", text) for number, text in enumerate(references, start=1))
    context = (("Question", prompt), ("Whole answer", "\n".join(segments)), *beside)
    numbered = enumerate(segments)
    return [Item(f"segment:{place}", "segment", text, context, said[place] if said else None) for place, text in numbered]


def _items(result: TaskResult, sample: Sample) -> list[Item]:
    """People take the place of FELM's annotators: how well they agree (table 2), and how a judge does by their labels."""
    doc = sample["doc"]
    return segment_items(doc["prompt"], doc["segments"], [FACTUAL if label else "wrong" for label in doc["labels"]])


def _change(result: TaskResult, sample: Sample, answers: Answers) -> Mapping[str, Any]:
    return {"doc": {**sample["doc"], "labels": [answers[item.id] == FACTUAL for item in _items(result, sample)]}}


BENCHMARK = Benchmark(
    kind="felm",
    title="FELM",
    headlines=("segment_f1",),
    scores=metrics.SCORES,
    keep=keep,
    recount=recount,
    instance=instance,
    instance_score="response_f1",
    is_pooled=True,
    sources=(FELM,),
    former_mark="segment_balanced_accuracy",
    order=20,
    lead=LEAD,
    sections=sections,
    samples=SAMPLES,
    settings=("protocol", "unit", "mode", "claims", "claims_from", "references", "chunk_tokenizer", "prompts", "prompt_hashes"),
    certifiable=tuple(SETTINGS.values()),
    people=People(tuple(load_questions(__package__).values()), _items, relabelling(_items, _change, recount, keep)),
)
