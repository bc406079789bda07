"""The steps of the run in their order. `bench.real.__main__` runs them one after another.

To add a step, add it to `STEPS`. Its name becomes that of its folder.
"""

from __future__ import annotations

from bench.real import read
from bench.real.commands import build_benchmark, certify_model, judge_responses, run_tasks
from bench.real.record import Step

_EXPERT = ("expert_factor", "expert_factor_clean")
_NEWS = ("news_factor",)
_CHAT_FACTOR = ("expert_factor_clean_chat",)
_SAMPLE_FACTOR = "sample_factor"
_SAMPLE_FELM = "sample_felm"

_BATCHES = ("--batch_size", "8")
_CHAT_TEMPLATE = ("--apply_chat_template",)
_CHAT_BATCHES = (*_CHAT_TEMPLATE, *_BATCHES)
_OFFLINE_JUDGE = ("--metadata", "judge=lexical")
_LETTERS = ("--metadata", "protocol=letters")
_VLLM_ARGS = (
    "max_model_len=1025",  # vLLM keeps one token for its output, so 1,024 are left.
    "enforce_eager=True",
)

STEPS = (
    Step(
        name="expert",
        about="scores Expert-FACTOR with hf-tree, as published and without extra spaces",
        rows=236,
        command=run_tasks("hf-tree", _EXPERT, _SAMPLE_FACTOR),
    ),
    Step(
        name="news",
        about="scores News-FACTOR with hf-tree",
        rows=236,
        command=run_tasks("hf-tree", _NEWS, _SAMPLE_FACTOR),
    ),
    Step(
        name="no_prefix",
        about="scores the rows of both without their prefixes",
        rows=236,
        command=run_tasks("hf-prefix-free", (*_EXPERT, *_NEWS), _SAMPLE_FACTOR, options=_BATCHES),
    ),
    Step(
        name="perplexity",
        about="measures the perplexity of the documents behind FACTOR",
        rows=12,
        command=run_tasks(
            "hf-tree",
            ("expert_factor_perplexity", "news_factor_perplexity"),
            "sample_factor_perplexity",
        ),
    ),
    Step(
        name="hf",
        about="scores News-FACTOR with hf, and compares with hf-tree",
        rows=8,
        command=run_tasks("hf", _NEWS, _SAMPLE_FACTOR),
        read=read.compare_with("news"),
        after=["news"],
    ),
    Step(
        name="vllm",
        about="scores News-FACTOR with vLLM, and compares with hf-tree",
        rows=8,
        command=run_tasks("vllm", _NEWS, _SAMPLE_FACTOR, _VLLM_ARGS),
        read=read.compare_with("news"),
        after=["news"],
    ),
    Step(
        name="dola",
        about="scores News-FACTOR by the decoding method DoLa",
        rows=40,
        command=run_tasks("hf-dola", _NEWS, _SAMPLE_FACTOR, ["layers=low"]),
    ),
    Step(
        name="chat",
        about="asks about each choice of Expert-FACTOR alone",
        rows=40,
        command=run_tasks("hf-tree", _CHAT_FACTOR, "sample_factor_chat", options=_CHAT_TEMPLATE),
    ),
    Step(
        name="letters",
        about="asks about all four choices in one prompt, once for each rotation",
        rows=40,
        command=run_tasks(
            "hf-tree",
            _CHAT_FACTOR,
            "sample_factor_chat",
            options=(*_CHAT_TEMPLATE, *_LETTERS),
        ),
    ),
    Step(
        name="felm_vanilla",
        about="asks for FELM's verdicts at once",
        rows=24,
        command=run_tasks("hf", ["felm_segment_vanilla"], _SAMPLE_FELM, options=_CHAT_BATCHES),
    ),
    Step(
        name="felm_cot",
        about="asks for FELM's verdicts after reasoning",
        rows=4,
        command=run_tasks("hf", ["felm_segment_cot"], _SAMPLE_FELM, options=_CHAT_BATCHES),
    ),
    Step(
        name="felm_gen",
        about="answers FELM's questions, with the offline judge",
        rows=4,
        command=run_tasks(
            "hf",
            ["felm_gen"],
            "sample_felm_gen",
            options=(*_CHAT_BATCHES, *_OFFLINE_JUDGE),
        ),
    ),
    Step(
        name="felm_gen_judge",
        about="judges the same answers with the model",
        rows=4,
        command=judge_responses,
        read=read.read_judgements,
        after=["felm_gen"],
    ),
    Step(
        name="ambigbio",
        about="writes biographies for AmbigBio, with the offline judge",
        rows=3,
        command=run_tasks(
            "hf",
            ["ambigbio"],
            "sample_ambigbio",
            options=(*_CHAT_BATCHES, *_OFFLINE_JUDGE),
        ),
    ),
    Step(
        name="factor_generation",
        about="continues the prefixes of Expert-FACTOR, with the offline judge",
        rows=8,
        command=run_tasks(
            "hf",
            ["expert_factor_generation"],
            "sample_factor_generation",
            options=(*_BATCHES, *_OFFLINE_JUDGE),
        ),
    ),
    Step(
        name="certify",
        about="certifies the model as a judge",
        rows=12,
        command=certify_model,
        read=read.read_certificate,
    ),
    Step(
        name="filter",
        about="builds a benchmark with the model as the fluency filter",
        rows=12,
        command=build_benchmark("filter"),
        read=read.read_build,
    ),
    Step(
        name="writer",
        about="builds a benchmark with the model as the writer of contradictions",
        rows=2,
        command=build_benchmark("writer"),
        read=read.read_build,
        # factor-gen fails if none of the documents "gave one", as is likely with a small model.
        excused="gave one",
    ),
)
