"""What takes the place of the models, servers, files and data that are not here when the pages run,
and what does not run at all.

``tests/docs/test_tables.py`` fails for an entry that no page has.
"""

from __future__ import annotations

# In all pages: what they say, and what is run in its place. {NAME} is a folder or an address of the
# session.
EVERYWHERE = (
    ("pretrained=gpt2", "pretrained={larger},dtype=float32"),
    ("pretrained=meta-llama/Llama-2-13b-chat-hf", "pretrained={chat},dtype=float32"),
    ("pretrained=meta-llama/Llama-3.1-8B-Instruct", "pretrained={chat},dtype=float32"),
    ("pretrained=Qwen/Qwen2.5-7B-Instruct", "pretrained={chat},dtype=float32"),
    ("pretrained=Qwen/Qwen3-8B", "pretrained={chat},dtype=float32"),
    ("pretrained=HuggingFaceTB/SmolLM2-135M-Instruct", "pretrained={chat},dtype=float32"),
    ("pretrained=huggyllama/llama-7b", "pretrained={larger},dtype=float32"),
    (
        "pretrained=facebook/opt-13b,amateur=facebook/opt-125m",
        "pretrained={larger},amateur={smaller},dtype=float32",
    ),
    ("pretrained=facebook/opt-125m,dtype=float16", "pretrained={larger},dtype=float32"),
    ("pretrained=facebook/opt-2.7b,dtype=float16", "pretrained={larger},dtype=float32"),
    ("http://localhost:8000/v1", "{server}"),
    ("data_dir=DIR", "data_dir={data}"),
    ("/path/to/lm-factuality/", "{repository}/"),
)
# In one page.
IN_PAGE = {
    "docs/biographies.md": (
        (
            "hub:wikimedia/wikipedia:20231101.en --out wikipedia.db",
            "tasks/sample/encyclopedia.jsonl --out another.db",
        ),
        ("Ada Lovelace", "Leildell"),
        ("--names FILE --index INDEX", "--names names.txt --index wikipedia_index"),
        (
            "--generations FILE --nli google/t5_xxl_true_nli_mixture --out DIR",
            "--generations alce.json.gz --nli lexical --out cited",
        ),
    ),
    "docs/check.md": (
        ("--judge gpt.yaml --max-cost 5", "--judge lexical"),
        ("certify --judge gpt.yaml", "certify --judge lexical"),
    ),
    "docs/factor.md": (
        ("--include_path FOLDER", "--include_path ."),
        ("compare results --with", "compare results/reproduce --with"),
    ),
    "docs/factor_gen.md": (("--beside news_factor.csv", "--beside {data}/news_factor.csv"),),
    "docs/felm.md": (
        (
            "score felm --outputs FILE",
            "score felm --outputs results/*/samples_felm_segment_vanilla_*.jsonl",
        ),
    ),
    "docs/judges.md": (
        (
            "--data generations.json decisions.json",
            "--rows 20 --data ambigbio.json ambigbio_decisions.json",
        ),
    ),
    "docs/leaderboards.md": (
        ("build my-leaderboard/submissions", "build submissions"),
        ("configs/leaderboard/factor.yaml", "configs/leaderboard/sample.yaml"),
        (
            "results/leaderboard/factor --model facebook/opt-125m",
            "results/leaderboard/sample --model my-org/mine --certificate sample.json",
        ),
        (
            "submissions/ORG__NAME/LEADERBOARD/DATE --rows 50",
            "submissions/my-org__mine/sample/*[0-9] --rows 5",
        ),
        (
            "SUBMISSION --rows 50 --model_args pretrained=FOLDER",
            "submissions/my-org__mine/sample/*[0-9] --rows 5 --model_args pretrained={larger}",
        ),
    ),
    "docs/models.md": (("layers=low", "layers=1+2"), ("early_exit_layer=16", "early_exit_layer=2")),
    "docs/running.md": (("8192", "0"), ("validate factor", "validate sample_factor")),
}
# Pages that need published data beside the checkout.
PUBLISHED = ("docs/biographies.md", "docs/judges.md")
# What does not run: the page, how the command begins, and why.
NOT_RUN = (
    ("README.md", "make test", "it would run these tests"),
    ("docs/architecture.md", ".venv/bin/python -m pytest", "it would run these tests"),
    ("docs/costs.md", "make bench", "measures for an hour"),
    ("docs/coverage.md", "make coverage", "simulates for ten minutes"),
    ("docs/development.md", "make install-dev", "changes the environment"),
    ("docs/development.md", "make lint", "lints; the commands of targets are not the page's"),
    ("docs/development.md", "make format", "rewrites files"),
    ("docs/development.md", "make test", "it would run these tests"),
    ("docs/development.md", "make docs", "tests/test_docs.py builds the site"),
    (
        "docs/results.md",
        "lm-factuality run --model hf --model_args pretrained=ORG/NAME",
        "pushes to the Hub",
    ),
    (
        "tasks/simpleqa/README.md",
        "lm-factuality run --model hf",
        "loads its questions from the Hub",
    ),
    ("docs/factor_gen.md", "pip install", "changes the environment"),
    ("docs/factor_gen.md", "factor-gen read my_factor --labels", "needs the labels of people"),
    (
        "docs/factor_gen.md",
        "factor-gen audit expert_factor --judge",
        "needs a judge that reads prompts",
    ),
    (
        "docs/factor_gen.md",
        "RAY_ADDRESS=auto factor-gen build",
        "tests/factor_gen/test_engines.py runs Ray",
    ),
    ("docs/felm.md", "pip install", "changes the environment"),
    ("docs/felm.md", "lm-factuality data fetch-references", "needs the network"),
    ("docs/felm.md", "lm-factuality claims extract", "needs a judge that reads prompts"),
    (
        "docs/judges.md",
        "lm-factuality certify --judge my_judge.yaml --setting biographies_grouping",
        "the groups are not here",
    ),
    (
        "docs/judges.md",
        "lm-factuality certify --judge my_judge.yaml --setting biographies_verification --rows 40 --adjudicated",
        "needs the corrections of a person",
    ),
    ("docs/known.md", "make real", "runs a real model for an hour"),
    ("docs/known.md", "python -m bench.real.known", "audits whole files with a real model"),
    (
        "docs/leaderboards.md",
        "lm-factuality leaderboard pack results/leaderboard/felm",
        "needs a run of a model behind an API",
    ),
    ("docs/longform.md", "lm-factuality data fetch", "needs the network"),
    ("docs/real.md", "make real", "runs a real model for an hour"),
    ("docs/running.md", "lm-factuality data fetch", "needs the network"),
    ("docs/running.md", "lm-factuality data verify", "nothing was fetched"),
    ("tasks/sample/README.md", "make quickstart", "README.md runs it"),
)
# What each YAML or JSON block is, in the order of a page: a task, judge, build, or part of a task;
# and the file that it is about.
FILES = {
    "docs/add_a_benchmark.md": (("task", "capitals.yaml"),),
    "docs/factor.md": (("task", "my_factor.yaml"),),
    "docs/factor_chat.md": (("task", "my_factor_chat.yaml"),),
    "docs/factor_gen.md": (
        ("build", "recipe.yaml"),
        ("build", "rows.yaml"),
        ("build", "gpt2.yaml"),
        ("judge", "server.yaml"),
        ("build", "llm.yaml"),
        ("build", "german.yaml"),
    ),
    "docs/judges.md": (
        ("judge", "gpt.yaml"),
        ("judge", "minicheck.yaml"),
        ("judge", "cascade.yaml"),
        ("reply", "reply.json"),
    ),
    "docs/longform.md": (
        ("rows", "prompts.jsonl"),
        ("task", "my_places.yaml"),
        ("part", "my_names.yaml"),
    ),
}
# Blocks of output that the commands before them give, by page and place among its blocks.
SHOWN = {"README.md": (1, 4), "docs/people.md": (1,)}
WHOLE = (
    "README.md",
    "docs/people.md",
    "docs/leaderboards.md",
)  # pages whose runs are not cut short by --limit
