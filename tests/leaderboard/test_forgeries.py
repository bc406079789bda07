"""Forgeries of which everything else was made to fit (see ``reseal``), so that only the check that
is named can find them."""

from __future__ import annotations

import json

import pytest

from lm_factuality.ground.suite import configs_folder
from lm_factuality.leaderboard.check import check_submission
from lm_factuality.leaderboard.runs import Run
from lm_factuality.leaderboard.submission import FILE
from lm_factuality.results.read import read_results_file
from tests.leaderboard.conftest import Forger
from tests.leaderboard.reseal import read_rows, reseal, seal_claims, seal_files, write_rows

FACTOR, GEN, BIO = "sample_factor", "sample_felm_gen", "sample_ambigbio"
PUBLISHED = {"is_published": True, "git_blob": "108ad4e2e9ffaf97e3afe9fec46350a2c2e9cfdd"}


def test_resealing_an_honest_submission_leaves_it_accepted(forger):
    reseal(forger.folder)
    assert check_submission(forger.folder).refusals == ()


def test_a_certificate_that_the_run_attached_is_as_good_as_a_packed_one(forger):
    from judges.certificates import _in_short

    short = _in_short(forger.folder / "certificate.json")
    _attached({short["setting"]: short})(forger)
    reseal(forger.folder)
    assert check_submission(forger.folder).refusals == ()


def _rows(task, change, below=10**6):
    """Changes each row of ``task``, or those with a lower number than ``below``."""

    def forge(forger):
        path = forger.samples(task)
        rows = read_rows(path)
        for row in rows[:below]:
            change(row)
        write_rows(path, rows)

    return forge


def _records(task, change, below=10**6):
    """Changes the judge's record in each row of ``task``."""

    def change_row(row):
        record = json.loads(row["filtered_resps"][0])
        change(record, row)
        row["filtered_resps"] = [json.dumps(record, ensure_ascii=False)]

    return _rows(task, change_row, below)


def _answers(answer, below=10**6):
    """What the model is said to have answered to each choice: ``answer`` takes whether it is the
    true one."""

    def change(row):
        for number in range(len(row["resps"])):
            said = answer(number == row["doc"]["gold"], list(row["filtered_resps"][number]))
            row["resps"][number], row["filtered_resps"][number] = [said], said

    return _rows(FACTOR, change, below)


def _results(change):
    return lambda forger: forger.change_results(change, seal=False)


def _no_errors(record, _row):
    if record["errors"]:
        record["errors"] = [None for _ in record["errors"]]


def _all_correct(record, row):
    _no_errors(record, row)
    record["outputs"] = ['{"wrong": []}' for _ in record["outputs"]]


def _no_outputs(record, row):
    _no_errors(record, row)
    record["outputs"] = []


def _other_segments(segments):
    def change(record, _row):
        record |= {
            "segments": segments,
            "errors": [None for _ in segments],
            "outputs": ['{"wrong": []}'],
        }

    return change


def _one_segment(record, row):
    record |= {"segments": [" ".join(record["segments"])], "errors": [None]}
    _all_correct(record, row)
    record["cut_by"] = "judge"


def _refused(record, _row):
    record |= {
        "no_answer": "refusal",
        "unscored": "no answer: refusal",
        "segments": [],
        "errors": None,
        "outputs": [],
        "cut_by": None,
    }


def _all_empty(record, row):
    row["resps"] = [[""]]
    _refused(record, row)
    record |= {"no_answer": "empty", "unscored": "no answer: empty"}


def _with_answers(row):
    request = row["arguments"]["gen_args_0"]
    request["arg_0"] = f"{' '.join(row['doc']['reference_texts'])}\n{request['arg_0']}"


def _longer(row):
    row["arguments"]["gen_args_0"]["arg_1"]["max_gen_toks"] = 9999


def _abstained(record, _row):
    record |= {
        "abstained": True,
        "facts": [],
        "groups": [],
        "links": [],
        "matrix": [],
        "evidence": [],
    }


def _outcomes_alone(record, _row):
    for cell in (cell for cells in record["matrix"] for cell in cells):
        if cell["outcome"] == "not_supported":
            cell["outcome"] = "supported"


def _links_alone(record, _row):
    record["links"] = [len(record["entities"]) - 1 for _ in record["groups"]]


def _other_text(record, _row):
    cell = {"outcome": "supported", "score": 1.0, "reason": "", "evidence": []}
    record |= {
        "sentences": ["The sky is blue."],
        "facts": [{"text": "The sky is blue.", "sentence": 0}],
        "groups": [[0]],
        "links": [0],
        "matrix": [[cell for _ in record["entities"]]],
    }


def _other_facts(record, row):
    """Facts of another text under the response's own sentences."""
    sentences = record["sentences"]
    _other_text(record, row)
    evidence = list(dict.fromkeys(record["evidence"]))
    record |= {"sentences": sentences, "evidence": evidence}


def _dropped_group(record, _row):
    if len(record["facts"]) > 1:
        record["groups"], record["links"] = [[0]], record["links"][:1]


def _another_filter(forger):
    path = forger.samples(FACTOR)
    rows = read_rows(path)
    write_rows(path, [*rows, *({**row, "filter": "best", "factor_acc": 1.0} for row in rows)])


def _certificate(change):
    def forge(forger):
        path = forger.folder / "certificate.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content)
        path.write_text(json.dumps(content), encoding="utf-8")

    return forge


def _attached(content):
    """The packed certificate goes, and the results have one instead."""

    def forge(forger):
        forger.change_submission(
            lambda said: said.update(
                certificate=None,
                files=[f for f in said["files"] if f["path"] != "certificate.json"],
            )
        )
        (forger.folder / "certificate.json").unlink()

        def attach(results):
            for task in (GEN, BIO):
                results["configs"][task]["metadata"]["judge_certificate"] = content

        forger.change_results(attach, seal=False)

    return forge


def _judge(**changes):
    def change(content):
        for task in (GEN, BIO):
            content["configs"][task]["metadata"]["judge_config"].update(changes)

    return _results(change)


def _backend(content):
    content["config"]["model"] = "hf-ralm"


def _said(change):
    return lambda forger: forger.change_submission(change)


def _both(*changes):
    return lambda forger: [change(forger) for change in changes]


def _digits(number):
    return number.translate(str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩"))


FORGERIES = {
    "numbers in other digits": (
        _answers(lambda true, said: [_digits(said[0]) if true else said[0], *said[1:]]),
        "SAMPLES_INVALID",
        "in the digits 0 to 9",
    ),
    "tokens with an underscore": (
        _answers(lambda true, said: [*said[:2], f"0_{said[2]}", *said[3:]]),
        "SAMPLES_INVALID",
        "in the digits 0 to 9",
    ),
    "30 rows of NaN": (
        _answers(lambda true, said: ["nan", *said[1:]], below=30),
        "UNSCORED_TOO_MANY",
        "30 of ",
    ),
    "30 rows of no probability": (
        _answers(lambda true, said: said if true else ["-inf", *said[1:]], below=30),
        "UNSCORED_TOO_MANY",
        "at most 5.0%",
    ),
    "contradictions of no probability": (
        _answers(lambda true, said: ["-1" if true else "-inf", *said[1:]], below=300),
        "UNSCORED_TOO_MANY",
        "300 of",
    ),
    "contradictions that are no numbers": (
        _answers(lambda true, said: ["-1" if true else "nan", *said[1:]], below=300),
        "UNSCORED_TOO_MANY",
        "300 of",
    ),
    "no tokens, so no headline": (
        _answers(lambda true, said: [*said[:2], "None", *said[3:]]),
        "RESULTS_INVALID",
        "factor_acc",
    ),
    "rows of a second filter": (_another_filter, "SAMPLES_INVALID", "2 filters"),
    "scores of a second filter": (
        _results(lambda content: content["results"][FACTOR].update({"factor_acc,best": 1.0})),
        "RESULTS_INVALID",
        "filters",
    ),
    "verdicts without errors, outputs as they were": (
        _records(GEN, _no_errors),
        "SCORE_CHANGED",
        "does not follow from the response",
    ),
    "verdicts without outputs": (
        _records(GEN, _no_outputs),
        "SCORE_CHANGED",
        "does not follow from the response",
    ),
    "segments of another text": (
        _records(GEN, _other_segments(["The sky is blue."])),
        "SCORE_CHANGED",
        "does not follow from the response",
    ),
    "a thousand segments": (
        _records(GEN, _other_segments(["x"] * 1000)),
        "SCORE_CHANGED",
        "does not follow from the response",
    ),
    "no segments": (
        _records(GEN, _other_segments([]), below=60),
        "SCORE_CHANGED",
        "does not follow from the response",
    ),
    "a judge that never cut": (
        _records(GEN, _one_segment),
        "SCORE_CHANGED",
        "does not follow from the response",
    ),
    "answers said to be refusals": (
        _records(GEN, _refused, below=60),
        "SCORE_CHANGED",
        "does not follow from the response",
    ),
    "nothing but empty answers": (
        _records(GEN, _all_empty),
        "RESULTS_INVALID",
        "segment_error_rate",
    ),
    "another response": (
        _rows(GEN, lambda row: row.update(resps=[["I am another text."]])),
        "SCORE_CHANGED",
        "segments",
    ),
    "prompts with the answers": (
        _rows(GEN, _with_answers),
        "CONFIG_DIFFERS",
        "asked something else",
    ),
    "longer answers than allowed": (_rows(GEN, _longer), "CONFIG_DIFFERS", "generation arguments"),
    "another prompt for biographies": (
        _rows(BIO, lambda row: row["arguments"]["gen_args_0"].update(arg_0="hi")),
        "CONFIG_DIFFERS",
        "asked something else",
    ),
    "a response more": (
        _rows(BIO, lambda row: row.update(resps=[[row["resps"][0][0], ""]])),
        "SAMPLES_INVALID",
        "too many",
    ),
    "answers said to be abstentions": (
        _records(BIO, _abstained, below=16),
        "SCORE_CHANGED",
        "abstained",
    ),
    "outcomes against their scores": (
        _records(BIO, _outcomes_alone),
        "SCORE_CHANGED",
        "a fact is supported, but",
    ),
    "other links": (_records(BIO, _links_alone), "SCORE_CHANGED", "links"),
    "facts of another text": (_records(BIO, _other_text), "SCORE_CHANGED", "its sentences"),
    "facts of another text, sentences kept": (
        _records(BIO, _other_facts),
        "SCORE_CHANGED",
        "passages of its entity",
    ),
    "facts in no group": (_records(BIO, _dropped_group), "SCORE_CHANGED", "each fact once"),
    "a certificate in name": (
        _attached({"x": {"data": PUBLISHED}}),
        "CERTIFICATE_MISMATCH",
        "not a certificate",
    ),
    "a certificate of nobody": (
        _certificate(lambda content: content.update(identity="nonsense")),
        "CERTIFICATE_MISMATCH",
        "identity",
    ),
    "a judge without prompts": (_judge(prompt_hashes={}), "CONFIG_DIFFERS", "other prompts than"),
    "a judge of its own coefficients": (
        _both(
            _judge(options={"coefficients": "mine.json"}),
            _certificate(
                lambda content: content["judge"].update(options={"coefficients": "mine.json"})
            ),
        ),
        "CONFIG_DIFFERS",
        "coefficients of its own",
    ),
    "retrieval in the backend": (
        _both(_results(_backend), _said(lambda said: said["model"].update(backend="hf-ralm"))),
        "CONFIG_DIFFERS",
        "hf-ralm",
    ),
    "an adapter": (
        _results(lambda content: content["config"]["model_args"].update(peft="org/adapter")),
        "CONFIG_DIFFERS",
        "model_args has peft",
    ),
    "an adapter in a text": (
        _results(
            lambda content: content["config"].update(model_args="pretrained=x,delta=org/delta")
        ),
        "CONFIG_DIFFERS",
        "delta",
    ),
    "an lm_eval that is too old": (
        _both(
            _results(lambda content: content.update(lm_eval_version="0.4.0")),
            _said(lambda said: said.update(lm_eval_version="0.4.0")),
        ),
        "LM_EVAL_UNKNOWN",
        "found 0.4.0",
    ),
}


@pytest.mark.parametrize(("forge", "code", "said"), FORGERIES.values(), ids=FORGERIES)
def test_a_forgery_that_fits_is_found_by_its_own_check_alone(forge, code, said, forger: Forger):
    forge(forger)
    reseal(forger.folder)
    found = check_submission(forger.folder).refusals
    assert {each.code for each in found} == {code}, [str(each) for each in found]
    assert any(said in each.sentence for each in found), [str(each) for each in found]


def test_code_of_a_model_is_shown(forger):
    _results(lambda content: content["config"]["model_args"].update(trust_remote_code=True))(forger)
    reseal(forger.folder)
    assert check_submission(forger.folder).refusals == ()
    run = Run(read_results_file(forger.results))
    assert all(
        run.settings(task)["model_args"] == {"trust_remote_code": True} for task in run.file.tasks
    )


CLAIMS = {
    "a later date": (lambda said: said.update(date="9999-12-31T00:00:00+00:00"), "CLAIM_DIFFERS"),
    "a date that is none": (
        lambda said: said.update(date="9999-12-31 <script>"),
        "SUBMISSION_INVALID",
    ),
    "fewer parameters": (lambda said: said["model"].update(num_parameters=1), "CLAIM_DIFFERS"),
    "parameters below zero": (
        lambda said: said["model"].update(num_parameters=-5),
        "SUBMISSION_INVALID",
    ),
    "parameters without end": (
        lambda said: said["model"].update(num_parameters=10**400),
        "SUBMISSION_INVALID",
    ),
    "half a character": (lambda said: said.update(notes="\ud800"), "SUBMISSION_INVALID"),
    "a bell": (lambda said: said.update(notes="\x07"), "SUBMISSION_INVALID"),
    "writing that turns": (lambda said: said.update(notes="\u202etxet"), "SUBMISSION_INVALID"),
    "notes without end": (lambda said: said.update(notes="x" * 5000), "SUBMISSION_INVALID"),
    "a dtype of many words": (
        lambda said: said["model"].update(dtype="x" * 200),
        "SUBMISSION_INVALID",
    ),
    "a count that is none": (
        lambda said: said["tasks"][0].update(documents=10**30),
        "SUBMISSION_INVALID",
    ),
    "a number that is none": (
        lambda said: said["tasks"][0]["data"].update(rows=float("nan")),
        "SUBMISSION_INVALID",
    ),
}


@pytest.mark.parametrize(("change", "code"), CLAIMS.values(), ids=CLAIMS)
def test_what_a_submission_says_of_itself_has_bounds(change, code, forger):
    said = forger.submission
    change(said)
    (forger.folder / FILE).write_text(json.dumps(said), encoding="utf-8")
    assert {each.code for each in check_submission(forger.folder).refusals} == {code}


@pytest.mark.parametrize("name", [FILE, "results"])
def test_a_key_that_is_there_twice_is_refused(name, forger):
    path = forger.results if name == "results" else forger.folder / FILE
    text = path.read_text(encoding="utf-8").rstrip()
    path.write_text(f'{text[:-1]}, "notes": "second", "notes": "third"}}', encoding="utf-8")
    if name == "results":
        seal_files(forger.folder)
    (refusal,) = check_submission(forger.folder).refusals
    assert refusal.code == ("RESULTS_INVALID" if name == "results" else "SUBMISSION_INVALID")
    assert "twice" in refusal.sentence


def _metric(value):
    return lambda content: content["results"][FACTOR].update({"unscored,none": value})


STRANGE = {
    "unscored without end": _metric(float("inf")),
    "unscored of 400 digits": _metric(10**400),
    "unscored below zero": _metric(-1000),
    "a score of 400 digits": lambda content: content["results"][FACTOR].update(
        {"factor_acc,none": 10**400}
    ),
    "documents without end": lambda content: content["n-samples"][FACTOR].update(
        effective=float("inf")
    ),
    "documents in a list": lambda content: content["n-samples"].update({FACTOR: [1]}),
    "data in a text": lambda content: content["configs"][FACTOR]["metadata"].update(data="abc"),
    "metadata in a list": lambda content: content["configs"][FACTOR].update(metadata=[1]),
    "metadata in a text": lambda content: content["configs"][FACTOR].update(
        metadata="suite_version"
    ),
    "a config in a list": lambda content: content.update(config=[1]),
    "shots in a list": lambda content: content.update({"n-shot": [1]}),
    "hashes in a list": lambda content: content.update(task_hashes=[1]),
    "a hash that is a number": lambda content: content["task_hashes"].update({FACTOR: 5}),
    "a date without end": lambda content: content.update(date=1e300),
    "versions in a list": lambda content: content.update(lm_eval_version=["0.4.13"]),
    "a commit that is a number": lambda content: content["config"].update(model_sha=12),
    "repeats in a text": lambda content: content["configs"][GEN].update(repeats="x"),
    "a judge in a text": lambda content: content["configs"][GEN]["metadata"].update(
        judge_config="lexical"
    ),
    "samples of a judge in a text": lambda content: content["configs"][GEN]["metadata"][
        "judge_config"
    ].update(samples="x"),
    "a limit of none": lambda content: content["config"].update(limit=0),
    "results in a list": lambda content: content.update(results=[1]),
    "a task in a list": lambda content: content["results"].update({FACTOR: [1]}),
}


@pytest.mark.parametrize("change", STRANGE.values(), ids=STRANGE)
def test_strange_results_are_refused_and_no_error(change, forger):
    forger.change_results(change, seal=False)
    seal_claims(forger.folder)
    seal_files(forger.folder)
    assert check_submission(forger.folder).refusals


ROWS = {
    "arguments in a list": {"arguments": [1]},
    "an argument that is a number": {"arguments": {"a": 5}},
    "a number in a list": {"doc_id": [1]},
    "a number of 4,000 digits": {"doc_id": 10**4000},
    "metrics that are a number": {"metrics": 5},
    "metrics in lists": {"metrics": [[1]]},
    "a filter in a list": {"filter": ["x"]},
    "no choices": {"doc": {"choices": None}},
    "responses that are a number": {"resps": 5},
}


@pytest.mark.parametrize("changes", ROWS.values(), ids=ROWS)
def test_strange_rows_are_refused_and_no_error(changes, forger):
    forger.change_samples(FACTOR, lambda rows: rows[0].update(changes))
    assert check_submission(forger.folder).refusals


def test_rows_without_a_digest_or_the_published_file_are_refused(honest, tmp_path):
    rules = (configs_folder() / "leaderboard" / "rules" / "sample.yaml").read_text(encoding="utf-8")
    lines = [line for line in rules.splitlines() if "4bb5024e6a84" not in line]
    (tmp_path / "sample.yaml").write_text("\n".join(lines), encoding="utf-8")
    (refusal,) = check_submission(honest, tmp_path).refusals
    assert (refusal.code, refusal.where) == ("DATA_UNAVAILABLE", FACTOR)


SECRETS = {
    "a token in the model's arguments": lambda content: content["config"].update(
        model_args="pretrained=x,token=abcdefghijklmnop1234,password=hunter2"
    ),
    "the key of a service": lambda content: content["config"].update(
        env={"OPENAI_KEY": "abcdefgh1234567890"}
    ),
    "the key of a cloud": lambda content: content["config"].update(
        env={"AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI"}
    ),
    "a token of another name": lambda content: content["config"]["model_args"].update(
        hf_api_token="abcdefghijklm"
    ),
    "who bears it": lambda content: content["config"].update(bearer="abc12345"),
    "an environment": lambda content: content.update(
        pretty_env_info="HF_TOKEN=abcdefghijklmnopqrst"
    ),
}


@pytest.mark.parametrize("change", SECRETS.values(), ids=SECRETS)
def test_credentials_of_any_name_are_refused_and_not_shown(change, forger):
    forger.change_results(change)
    found = [each for each in check_submission(forger.folder).refusals if each.code == "SECRET"]
    assert found
    assert not any(
        value in str(each)
        for each in found
        for value in ("abcdefgh", "hunter2", "wJalr", "abc12345")
    )


def test_credentials_are_found_where_they_are_written_in_numbers(forger):
    token = "hf\\u005fabcdefghijklmnopqrstuvwxyz0123"
    results = forger.results
    results.write_text(
        results.read_text(encoding="utf-8").replace(
            '"config": {', f'"config": {{"zz": "{token}",', 1
        )
    )
    samples = forger.samples(FACTOR)
    first, rest = samples.read_text(encoding="utf-8").split("\n", 1)
    samples.write_text(f'{first[:-1]}, "note": "{token}"}}\n{rest}', encoding="utf-8")
    seal_files(forger.folder)
    found = [each for each in check_submission(forger.folder).refusals if each.code == "SECRET"]
    assert {each.where for each in found} == {results.name, samples.name}


def test_credentials_in_rows_and_names_of_files_are_refused(forger):
    forger.change_samples(FACTOR, lambda rows: rows[3].update(api_key="abcdefghijklmnop"))
    found = [
        str(each) for each in check_submission(forger.folder).refusals if each.code == "SECRET"
    ]
    assert found == [
        f"SECRET {forger.samples(FACTOR).name}: line 4: api_key: is the name of a credential, and it is set; withdraw it, and run "
        "and pack again without it"
    ]


def test_lines_without_end_are_refused(forger):
    path = forger.results
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, "zz": "x" * 5 * 2**20}), encoding="utf-8")
    seal_files(forger.folder)
    assert {each.code for each in check_submission(forger.folder).refusals} == {"TOO_LARGE"}


def test_names_of_files_cannot_speak_to_terminals(forger):
    (forger.folder / "\x1b[2Jevil\n::error::x").write_text("x", encoding="utf-8")
    (refusal,) = check_submission(forger.folder).refusals
    assert str(refusal).startswith("FILE_EXTRA \\x1b[2Jevil\\n::error::x: ")


def test_one_that_cannot_be_read_does_not_hide_others(honest, forger, tmp_path, monkeypatch):
    from lm_factuality.leaderboard import check as module

    def fail(*_):
        raise ZeroDivisionError("strange")

    monkeypatch.setattr(module, "CHECKS", (fail,))
    (refusal,) = check_submission(forger.folder).refusals
    assert refusal.code == "RESULTS_INVALID"
    assert "ZeroDivisionError" in refusal.sentence
