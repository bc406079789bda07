"""The protocol ``dola`` against a small implementation of what DoLa's FACTOR script does, from its
description."""

import re

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from lm_factuality.benchmarks.factor.benchmark import FactorAudit
from lm_factuality.benchmarks.factor.corpus import parse_corpus
from lm_factuality.benchmarks.factor.load import load_corpus
from lm_factuality.benchmarks.factor.page import sample_row as page_row
from lm_factuality.cli import main
from lm_factuality.ground.errors import ConfigError
from tests.benchmarks.factor.test_agreement import ONE, results
from tests.conftest import REPOSITORY, TASKS, example_row
from tests.models.test_hf_decoding import dense
from tests.tiny_models import save_gpt2, save_opt

SHORT_AND_LONG = (
    "It fell.",
    "No.",
    "Who knows?",
    "It has a very long and winding name, which nobody in the whole town can spell.",
)
PREFIXES = (
    "The library opened in 1870. ",
    "The library opened in 1870.\n",
    "The library opened in 1870.",
    "The library opened  ",
)
LEADING = "  Its first keeper was a sailor from the north."


def script(folder, rows, layers=()):
    """Sums of log-probabilities of each row's four completions, and whether the script calls the
    row right.

    Prefix and " " + completion are tokenized together, the prefix also alone, with whatever special
    tokens the tokenizer adds; what follows as many tokens as the prefix has is summed. A row is
    wrong if a false completion has the larger sum. With ``layers``, the distribution is that of
    DoLa as the script has it.
    """
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(folder).eval(),
        AutoTokenizer.from_pretrained(folder),
    )
    found = []
    for row in rows:
        sums = []
        for name in ("completion", "contradiction_0", "contradiction_1", "contradiction_2"):
            before = tokenizer(row["turncated_prefixes"])["input_ids"]
            whole = tokenizer(row["turncated_prefixes"] + " " + row[name])["input_ids"]
            with torch.no_grad():
                output = model(torch.tensor([whole]), output_hidden_states=True)
                place = slice(len(before) - 1, -1)
                logprobs = output.logits[0, place].double().log_softmax(-1)
                if layers:
                    settings = {
                        "layers": layers,
                        "formula": "code",
                        "relative_top": 0.1,
                        "softmax": True,
                    }
                    states = [each[0, place] for each in output.hidden_states]
                    logprobs = dense(
                        states, output.logits[0, place], model.get_output_embeddings(), settings
                    )
            after = torch.tensor(whole[len(before) :])
            sums.append(float(logprobs[torch.arange(len(after)), after].sum()))
        found.append((sums, not any(sums[0] < other for other in sums[1:])))
    return found


def some_rows():
    rows = [
        example_row(turncated_prefixes=prefix, doc_id=str(number))
        for number, prefix in enumerate(PREFIXES)
    ]
    rows += [example_row(turncated_prefixes=PREFIXES[0], completion=LEADING, doc_id="leading")]
    for number, completion in enumerate(SHORT_AND_LONG):
        rows.append(
            example_row(
                turncated_prefixes=f"House {number}. ",
                completion=completion,
                doc_id=f"house {number}",
            )
        )
    return rows


def run(evaluate, factor_yaml, write_rows, folder, rows, model="hf-tree", **options):
    write_rows(rows)
    yaml = factor_yaml(dataset_path="rows.jsonl", metadata={"version": 1.0, "protocol": "dola"})
    arguments = {"pretrained": str(folder), "dtype": "float32", **options}
    output = evaluate(model, ["my_factor"], yaml.parent, arguments, batch_size=4)
    return (
        output["configs"]["my_factor"]["metadata"],
        output["results"]["my_factor"],
        output["samples"]["my_factor"],
    )


def check(found, expected):
    metadata, scores, samples = found
    assert (metadata["protocol"], metadata["window"]) == ("dola", None)
    for sample, (sums, is_right) in zip(samples, expected, strict=True):
        assert [float(each[0]) for each in sample["filtered_resps"]] == pytest.approx(
            sums, abs=2e-3
        )
        assert sample["factor_acc"] == sample["acc"] == is_right
    assert scores["factor_acc,none"] == pytest.approx(
        sum(right for _, right in expected) / len(expected)
    )
    assert scores["unscored,none"] == 0


@pytest.mark.parametrize("save", [save_gpt2, save_opt], ids=["no first token", "a first token"])
def test_every_sum_and_verdict_is_the_scripts(
    save, tmp_path, checkpoint, evaluate, factor_yaml, write_rows
):
    folder = save(tmp_path / "model", AutoTokenizer.from_pretrained(checkpoint))
    rows = some_rows()
    found = run(evaluate, factor_yaml, write_rows, folder, rows)
    check(found, script(folder, rows))
    sample = found[2][-1]
    # What reports and leaderboards make of the samples follows sums as well.
    sums = [float(each[0]) for each in sample["filtered_resps"]]
    assert page_row(None, sample).margin == pytest.approx(sums[0] - max(sums[1:]), abs=1e-3)


def test_dola_itself_as_the_script_scores_it(checkpoint, evaluate, factor_yaml, write_rows):
    rows = some_rows()
    found = run(
        evaluate, factor_yaml, write_rows, checkpoint, rows, "hf-dola", layers="0+1", formula="code"
    )
    check(found, script(checkpoint, rows, (0, 1)))


def test_a_tie_is_right_as_in_the_script(tmp_path, checkpoint, evaluate, factor_yaml, write_rows):
    folder = save_gpt2(tmp_path / "model", AutoTokenizer.from_pretrained(checkpoint), value=0.0)
    equal = {
        "completion": "one two",
        **{f"contradiction_{n}": text for n, text in enumerate(("one one", "two two", "two one"))},
    }
    rows = [
        example_row(turncated_prefixes="It is ", **equal),
        example_row(turncated_prefixes="It is ", **{**equal, "contradiction_0": "one"}),
    ]
    expected = script(folder, rows)
    assert [right for _, right in expected] == [True, False]
    check(run(evaluate, factor_yaml, write_rows, folder, rows), expected)


def test_whole_prefixes_are_taken_where_the_yaml_says_so(tmp_path, factor_yaml, write_rows):
    write_rows([example_row(full_prefix="Once. The library opened in 1870. ")])
    import yaml

    path = factor_yaml(
        dataset_path=str(tmp_path / "rows.jsonl"),
        metadata={"version": 1.0, "dola_prefix": "full_prefix"},
    )
    config = {
        key: value for key, value in yaml.safe_load(path.read_text()).items() if key != "include"
    }
    by_templates = {
        "doc_to_text": "turncated_prefixes",
        "doc_to_choice": ["completion", "contradiction_0"],
        "doc_to_target": 0,
    }
    for more in ({}, by_templates):
        for protocol, start in (
            ("paper", "The library"),
            ("code", "The library"),
            ("dola", "Once. The library"),
        ):
            corpus = parse_corpus(
                {**config, **more, "metadata": {**config["metadata"], "protocol": protocol}}
            )
            assert corpus.metadata.window == (None if protocol == "dola" else 1024)
            assert load_corpus(corpus).rows[0].prefix.startswith(start)
    asked = parse_corpus(
        {**config, "metadata": {**config["metadata"], "protocol": "dola", "window": 64}}
    )
    assert asked.metadata.window == 64
    # In the published files only News is read so: the script looks for "news" in the name of the
    # file.
    files = [
        path for path in (TASKS / "factor").glob("*.yaml") if "dola_prefix" in path.read_text()
    ]
    assert [path.name for path in files] == ["news_factor.yaml"]


def test_the_audit_expects_the_protocols_requests(
    tmp_path, checkpoint, evaluate, factor_yaml, write_rows
):
    from lm_factuality.benchmarks.audit import ExpectedRun

    metadata, _, samples = run(evaluate, factor_yaml, write_rows, checkpoint, some_rows()[:2])
    sample = {
        **samples[0],
        "arguments": {
            f"gen_args_{n}": {f"arg_{place}": value for place, value in enumerate(each)}
            for n, each in enumerate(samples[0]["arguments"])
        },
    }
    assert metadata["join"] == "dola"
    audit = {
        protocol: FactorAudit(
            ExpectedRun(metadata={**metadata, "protocol": protocol, "join": join})
        )
        for protocol, join in (("dola", "dola"), ("paper", "authors"))
    }
    assert audit["dola"].request_problem(sample) is None
    assert audit["paper"].request_problem(sample) is not None


def test_open_generation_has_no_such_protocol(tmp_path):
    from lm_eval.tasks import TaskManager

    manager = TaskManager(
        include_path=[str(TASKS)], include_defaults=False, metadata={"protocol": "dola"}
    )
    with pytest.raises(
        ConfigError,
        match="protocol dola only scores choices; open generation has the protocols paper and code",
    ):
        manager.load_task_or_group("sample_factor_generation")


FIGURES = ["--with", str(REPOSITORY / "configs" / "reproduce" / "decoding_figures.yaml")]


@pytest.mark.parametrize(
    ("backend", "options", "protocol", "difference"),
    [
        ("hf", "", "dola", "-18.3"),
        ("hf-dola", ",layers=low,formula=code", "dola", "-22.0"),
        ("hf-dola", "", "dola", None),
        ("hf-dola", ",layers=high,formula=code", "dola", None),
        ("hf", "", "paper", None),
        ("hf-dola", ",layers=low,formula=code", "paper", None),
        ("hf-ralm", ",index=wikipedia", "dola", None),
    ],
)
def test_figures_are_subtracted_from_runs_of_the_same_protocol_and_method_only(
    backend, options, protocol, difference, tmp_path, capsys
):
    decoding = {"method": "DoLa", "layers": [0, 2]} if backend == "hf-dola" else None
    arguments = f"pretrained=huggyllama/llama-7b,dtype=float16{options}"
    path = results(
        tmp_path,
        "huggyllama/llama-7b",
        ONE,
        9.0,
        backend=backend,
        decoding=decoding,
        model_args=arguments,
    )
    text = path.read_text(encoding="utf-8").replace("x_factor", "news_factor")
    path.write_text(
        text.replace('"window": 1024,', f'"window": 1024, "protocol": "{protocol}",'),
        encoding="utf-8",
    )
    assert main(["compare", str(path), *FIGURES]) == 0
    output = capsys.readouterr().out
    differences = re.findall(r"huggyllama/llama-7b.* factor_acc +40\.0 +[\d.]+ +(-[\d.]+)", output)
    assert differences == ([difference] if difference else [])
    method = r"\(hf-dola formula=code layers=low\), protocol dola"
    assert re.search(rf"wiki_factor +huggyllama/llama-7b {method} +factor_acc +62\.2", output)
    assert ("decoding: method DoLa, layers [0, 2]" in output) == (backend == "hf-dola")
    assert ("protocol dola: scored as by DoLa's script" in output) == (protocol == "dola")
