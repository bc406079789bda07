"""Forged and broken submissions, each refused with its code; the honest one they were made from is
accepted."""

from __future__ import annotations

import json
import shutil

import pytest

from lm_factuality.leaderboard import contents as contents_module
from lm_factuality.leaderboard.check import check_submission, find_submissions
from lm_factuality.leaderboard.submission import SUBMISSION_FILE
from tests.leaderboard.conftest import Forger

FACTOR, GEN, BIO = "sample_factor", "sample_felm_gen", "sample_ambigbio"
TOKEN = "hf_" + "a1B2" * 9


def test_an_honest_submission_is_accepted(honest):
    checked = check_submission(honest)
    assert checked.refusals == ()
    assert set(checked.evidence.tasks) == {FACTOR, GEN, BIO}


def _score(name, value, task=FACTOR):
    return lambda forger: forger.change_results(
        lambda content: content["results"][task].update({name: value})
    )


def _result(change):
    return lambda forger: forger.change_results(change)


def _said(change):
    return lambda forger: forger.change_submission(change)


def _rows(task, change, **how):
    return lambda forger: forger.change_samples(task, change, **how)


def _better_row(rows):
    """The true completion becomes the likeliest, and all that follows in the row."""
    row = next(row for row in rows if not row["factor_acc"])
    gold = row["doc"]["gold"]
    row["resps"][gold][0][0] = row["filtered_resps"][gold][0] = "-0.5"
    row["factor_acc"] = row["factor_acc_best"] = row["factor_acc_worst"] = 1.0


def _better_row_metric(rows):
    next(row for row in rows if not row["factor_acc"])["factor_acc"] = 1.0


def _drop(rows):
    del rows[7]


def _twice(rows):
    rows[7] = rows[8]


def _one_more(rows):
    rows.append(rows[0])


def _easier_document(rows):
    """Another row than the published one, with lm_eval's hashes made right."""
    import hashlib

    row = rows[3]
    row["doc"]["problem"] = ""
    row["doc"]["location"] = "sample_factor.csv:9999"
    text = json.dumps(row["doc"], indent=2, ensure_ascii=False)
    row["doc_hash"] = hashlib.sha256(text.encode()).hexdigest()


def _other_document(rows):
    rows[3]["doc"]["location"] = "elsewhere"


def _other_prompt(rows):
    import hashlib

    for argument in rows[0]["arguments"].values():
        argument["arg_0"] = "Answer well. " + argument["arg_0"]
    first = rows[0]["arguments"]["gen_args_0"]["arg_0"]
    rows[0]["prompt_hash"] = hashlib.sha256(first.encode()).hexdigest()


def _gentler_verdicts(rows):
    """The judge's marks of errors go."""
    for row in rows:
        verdict = json.loads(row["filtered_resps"][0])
        if verdict["errors"]:
            verdict["errors"] = [None for _ in verdict["errors"]]
        row["filtered_resps"] = [json.dumps(verdict)]


def _gentler_scores(rows):
    """The scores beside the judgements change, the judgements do not."""
    row = next(row for row in rows if json.loads(row["filtered_resps"][0])["scores"])
    verdict = json.loads(row["filtered_resps"][0])
    verdict["scores"]["d_factscore"] = 1.0
    row["filtered_resps"] = [json.dumps(verdict)]


def _verdict_on_another(rows):
    rows[0]["filtered_resps"] = rows[1]["filtered_resps"]


def _cut_samples(forger):
    path = forger.samples(FACTOR)
    path.write_bytes(path.read_bytes()[:-100])
    forger.seal()


def _remove_samples(forger):
    forger.samples(FACTOR).unlink()


def _stranger(forger):
    (forger.folder / "model.bin").write_bytes(b"x")


def _listed_stranger(forger):
    _stranger(forger)
    packed = {"path": "model.bin", "sha256": "0" * 64, "bytes": 0}
    forger.change_submission(lambda said: said["files"].append(packed))
    forger.seal()


def _link(forger):
    path = forger.samples(FACTOR)
    moved = path.rename(forger.folder.parent / path.name)
    path.symlink_to(moved)


def _secret_in_samples(rows):
    rows[5]["resps"][0][0][4] = rows[5]["filtered_resps"][0][4] = f"error 401 for {TOKEN}"


def _unscored(rows):
    for row in rows[: len(rows) // 2]:
        verdict = json.loads(row["filtered_resps"][0])
        verdict |= {"errors": None, "unscored": "nothing there"}
        row["filtered_resps"] = [json.dumps(verdict)]


def _without_certificate(forger):
    forger.change_submission(lambda said: said.update(certificate=None, files=said["files"][1:]))
    (forger.folder / "certificate.json").unlink()


def _certificate(change):
    """The certificate changes."""

    def forge(forger):
        path = forger.folder / "certificate.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content)
        path.write_text(json.dumps(content), encoding="utf-8")
        forger.seal()

    return forge


def _escape(path):
    def forge(said):
        said["files"][-1]["path"] = path

    return _said(forge)


def _without_task(content):
    del content["results"][BIO], content["configs"][BIO]


def _more_tasks(content):
    content["results"]["arc_easy"] = {"acc,none": 1.0}
    content["configs"]["arc_easy"] = {
        "task": "arc_easy",
        "metadata": {"version": 1.0, "suite_version": "0.2.0"},
    }


def _metadata(task, **changes):
    return _result(lambda content: content["configs"][task]["metadata"].update(changes))


def _judge_prompt(content):
    content["configs"][GEN]["metadata"]["judge_config"]["prompt_hashes"][
        "felm_gen/mark_segments"
    ] = "0123456789abcdef"


def _another_judge(content):
    content["configs"][GEN]["metadata"]["judge_config"]["decoding"]["temperature"] = 0.7


def _answers(change):
    """Changes what the model is said to have answered to each choice.

    ``change`` takes whether the choice is the true one, and the answer.
    """

    def forge(rows):
        for row in rows:
            for number, answer in enumerate(row["filtered_resps"]):
                changed = change(number == row["doc"]["gold"], list(answer))
                row["resps"][number], row["filtered_resps"][number] = [changed], changed

    return _rows(FACTOR, forge)


def _with_answers(rows):
    for row in rows:
        request = row["arguments"]["gen_args_0"]
        request["arg_0"] = f"{' '.join(row['doc']['reference_texts'])}\n{request['arg_0']}"


def _metadata_of_judge(**changes):
    return _result(
        lambda content: content["configs"][GEN]["metadata"]["judge_config"].update(changes)
    )


CASES = {
    "a score that is higher": (_score("factor_acc,none", 0.99), "SCORE_CHANGED"),
    "a standard error that is smaller": (_score("factor_acc_stderr,none", 0.001), "SCORE_CHANGED"),
    "a score that is not there": (
        _result(lambda content: content["results"][FACTOR].pop("factor_acc_worst,none")),
        "SCORE_CHANGED",
    ),
    "a judged score that is better": (
        _score("segment_error_rate,judge", 0.0, GEN),
        "SCORE_CHANGED",
    ),
    "a biography score that is better": (_score("d_factscore,judge", 1.0, BIO), "SCORE_CHANGED"),
    "a row that is now right": (_rows(FACTOR, _better_row), "SCORE_CHANGED"),
    "a row's metric alone": (_rows(FACTOR, _better_row_metric), "SCORE_CHANGED"),
    "verdicts without errors": (_rows(GEN, _gentler_verdicts), "SCORE_CHANGED"),
    "scores beside unchanged judgements": (_rows(BIO, _gentler_scores), "SCORE_CHANGED"),
    "a verdict on another response": (_rows(GEN, _verdict_on_another), "SAMPLES_INVALID"),
    "samples changed, hash not": (_rows(FACTOR, _better_row, seal=False), "SAMPLES_CHANGED"),
    "results changed, hash not": (
        lambda forger: forger.change_results(lambda content: content.update(date=0.0), seal=False),
        "FILE_CHANGED",
    ),
    "results changed to others of the same size": (
        lambda forger: forger.results.write_bytes(
            forger.results.read_bytes().replace(b"float32", b"float16")
        ),
        "FILE_CHANGED",
    ),
    "samples cut off": (_cut_samples, "SAMPLES_INVALID"),
    "a row less": (_rows(FACTOR, _drop, rehash=True), "ROWS_DIFFER"),
    "a row twice": (_rows(FACTOR, _twice, rehash=True), "ROWS_DIFFER"),
    "a row of one's own": (_rows(FACTOR, _easier_document, rehash=True), "WRONG_DATA"),
    "a row that is not hashed": (_rows(FACTOR, _other_document), "SAMPLES_CHANGED"),
    "another data file": (
        _metadata(FACTOR, data={"git_blob": "0" * 40, "rows": 432}),
        "WRONG_DATA",
    ),
    "a limited run": (_result(lambda content: content["config"].update(limit=10)), "LIMIT_RUN"),
    "a part of the documents": (
        _result(lambda content: content["n-samples"][FACTOR].update(effective=10)),
        "LIMIT_RUN",
    ),
    "a file less": (_remove_samples, "FILE_MISSING"),
    "a link": (_link, "PATH_ESCAPES"),
    "a file that is not listed": (_stranger, "FILE_EXTRA"),
    "a file that is of no run, though listed": (_listed_stranger, "FILE_EXTRA"),
    "a path upwards": (_escape("../../etc/passwd"), "SUBMISSION_INVALID"),
    "no revision": (
        _said(lambda said: said["model"].update(revision="main")),
        "SUBMISSION_INVALID",
    ),
    "another format": (_said(lambda said: said.update(format=1)), "SUBMISSION_INVALID"),
    "a token in a sample": (_rows(FACTOR, _secret_in_samples), "SECRET"),
    "a key in the results": (
        _result(lambda content: content["config"]["model_args"].update(api_key="abc")),
        "SECRET",
    ),
    "a key set within a text of a task": (
        _metadata(FACTOR, note="--model_args\napi_key=abcdefghijklmnop"),
        "SECRET",
    ),
    "a password in the submission": (
        _said(lambda said: said["model"].update(revision="api:x://me:secret@example.org/x")),
        "SECRET",
    ),
    "another suite": (_metadata(FACTOR, suite_version="9.9.9"), "CONFIG_DIFFERS"),
    "another lm_eval": (
        _result(lambda content: content.update(lm_eval_version="0.3.0")),
        "LM_EVAL_UNKNOWN",
    ),
    "another version of a task": (
        _result(lambda content: content["versions"].update({FACTOR: 2.0})),
        "CONFIG_DIFFERS",
    ),
    "another dtype": (_said(lambda said: said["model"].update(dtype="bfloat16")), "MODEL_DIFFERS"),
    "another commit": (
        _result(lambda content: content["config"].update(model_sha="a" * 40)),
        "MODEL_DIFFERS",
    ),
    "a task less": (_result(_without_task), "TASKS_MISSING"),
    "a task more": (_result(_more_tasks), "TASKS_EXTRA"),
    "a score of a group": (
        _result(lambda content: content["results"].update(everything={"factor_acc,none": 1.0})),
        "TASKS_EXTRA",
    ),
    "a smaller window": (_metadata(FACTOR, window=128), "CONFIG_DIFFERS"),
    "ties go to the first": (_metadata(FACTOR, protocol="code"), "CONFIG_DIFFERS"),
    "demonstrations": (
        _result(lambda content: content["n-shot"].update({FACTOR: 5})),
        "CONFIG_DIFFERS",
    ),
    "a chat template": (
        _result(lambda content: content.update(chat_template="{{ messages }}")),
        "CONFIG_DIFFERS",
    ),
    "longer answers": (
        _result(
            lambda content: content["configs"][GEN]["generation_kwargs"].update(max_gen_toks=99)
        ),
        "CONFIG_DIFFERS",
    ),
    "a prompt of one's own": (_rows(FACTOR, _other_prompt, rehash=True), "CONFIG_DIFFERS"),
    "a judge's prompt of one's own": (_result(_judge_prompt), "CONFIG_DIFFERS"),
    "half without a verdict": (_score("unscored,judge", 60.0, GEN), "UNSCORED_TOO_MANY"),
    "half without a verdict, in the samples": (_rows(GEN, _unscored), "SCORE_CHANGED"),
    "no certificate": (_without_certificate, "JUDGE_UNCERTIFIED"),
    "the certificate of another judge": (
        _certificate(lambda content: content["judge"].update(backend="openai")),
        "CERTIFICATE_MISMATCH",
    ),
    "another judge than certified": (_result(_another_judge), "CERTIFICATE_MISMATCH"),
    "a certificate of other prompts": (
        _certificate(
            lambda content: content["prompt_hashes"].update({"felm_gen/mark_segments": "0" * 16})
        ),
        "CERTIFICATE_MISMATCH",
    ),
    "no certificate, but a file of that name": (
        _certificate(lambda content: [content.pop(key) for key in list(content)]),
        "CERTIFICATE_MISMATCH",
    ),
    "another leaderboard": (
        _said(lambda said: said.update(leaderboard="everything")),
        "LEADERBOARD_UNKNOWN",
    ),
    "an unknown key": (_said(lambda said: said.update(rank=1)), "SUBMISSION_INVALID"),
    "a number for a text": (
        _said(lambda said: said["model"].update(dtype=32)),
        "SUBMISSION_INVALID",
    ),
    "no JSON": (
        lambda forger: (forger.folder / SUBMISSION_FILE).write_text("{", encoding="utf-8"),
        "SUBMISSION_INVALID",
    ),
    "a model of no organisation": (
        _said(lambda said: said["model"].update(name="../x")),
        "SUBMISSION_INVALID",
    ),
    "results that are none": (
        lambda forger: (
            forger.results.write_text('{"results": 3}', encoding="utf-8"),
            forger.seal(),
        ),
        "RESULTS_INVALID",
    ),
}


FORGED_SAMPLES = {
    "numbers in other digits": (
        _answers(lambda is_true, answer: ["١", *answer[1:]] if is_true else answer),
        "SAMPLES_INVALID",
        "expected a valid number",
    ),
    "contradictions that are no numbers": (
        _answers(lambda is_true, answer: ["-1" if is_true else "nan", *answer[1:]]),
        "SCORE_CHANGED",
        "the samples give nan",
    ),
    "rows of a second filter": (
        _rows(FACTOR, lambda rows: rows.extend([{**row, "filter": "best"} for row in rows])),
        "SAMPLES_INVALID",
        "rows of 2 filters",
    ),
    "prompts with the answers": (_rows(GEN, _with_answers), "CONFIG_DIFFERS", "asked something"),
    "a certificate of nobody": (
        _certificate(lambda content: content.update(identity="nonsense")),
        "CERTIFICATE_MISMATCH",
        "identity",
    ),
    "a judge of its own coefficients": (
        _metadata_of_judge(options={"coefficients": "mine.json"}),
        "CONFIG_DIFFERS",
        "the judge's coefficients is 'mine.json'",
    ),
    "retrieval in the backend": (
        _result(lambda content: content["config"].update(model="hf-ralm")),
        "CONFIG_DIFFERS",
        "hf-ralm",
    ),
    "an adapter": (
        _result(lambda content: content["config"].update(model_args="pretrained=x,peft=org/y")),
        "CONFIG_DIFFERS",
        "what is added to the model is ['peft']",
    ),
    "an lm_eval that is too old": (
        _result(lambda content: content.update(lm_eval_version="0.4.0")),
        "LM_EVAL_UNKNOWN",
        "lm_eval is '0.4.0'",
    ),
}


@pytest.mark.parametrize(("forge", "code"), CASES.values(), ids=CASES)
def test_a_forged_submission_is_refused_with_its_code(forge, code, forger: Forger):
    forge(forger)
    refusals = check_submission(forger.folder).refusals
    assert code in {refusal.code for refusal in refusals}, list(map(str, refusals))
    assert all(TOKEN not in str(each) and "me:secret" not in str(each) for each in refusals)


@pytest.mark.parametrize(("forge", "code", "words"), FORGED_SAMPLES.values(), ids=FORGED_SAMPLES)
def test_a_refusal_says_what_is_forged(forge, code, words, forger: Forger):
    forge(forger)
    refusals = check_submission(forger.folder).refusals
    sentences = [refusal.sentence for refusal in refusals if refusal.code == code]
    assert any(words in sentence for sentence in sentences), list(map(str, refusals))


def test_what_is_too_large_is_refused_before_it_is_read(forger, monkeypatch):
    monkeypatch.setattr(contents_module, "MAX_FILE", 1000)
    found = check_submission(forger.folder).refusals
    assert {each.code for each in found} == {"TOO_LARGE"}


def test_results_of_two_models_are_refused(forger):
    other = json.loads(forger.results.read_text(encoding="utf-8"))
    other["model_name"] = "elsewhere/other"
    name = "results_2026-01-01T00-00-00.000000.json"
    (forger.folder / name).write_text(json.dumps(other), encoding="utf-8")

    forger.change_submission(
        lambda said: said["files"].append({"path": name, "sha256": "0" * 64, "bytes": 0})
    )
    forger.seal()
    codes = {each.code for each in check_submission(forger.folder).refusals}
    assert {"MIXED_RUNS", "TASKS_EXTRA"} <= codes


def test_a_honest_number_of_unscored_responses_is_counted_against_the_rules(forger):
    """Scores that follow from the samples do not help where half of them have no verdict."""
    from lm_factuality.results.read import read_results_file
    from lm_factuality.results.recompute import recompute

    forger.change_samples(GEN, _unscored)
    task = read_results_file(forger.results).task(GEN)
    found = recompute(task)
    forger.change_results(
        lambda content: content["results"][GEN].update(
            {f"{name},judge": value for name, value in found.metrics.items()}
        )
    )
    assert "UNSCORED_TOO_MANY" in {each.code for each in check_submission(forger.folder).refusals}


def test_submissions_are_found_below_a_folder(honest, tmp_path):
    for name in ("b", "a"):
        shutil.copytree(honest, tmp_path / name / "x")
    assert find_submissions(tmp_path) == [tmp_path / "a" / "x", tmp_path / "b" / "x"]
    assert find_submissions(honest) == [honest]


def _think(forger, tokens, given=None):
    """The run had ``tokens`` to think, its requests ``given``, and the model thought aloud."""
    for task in (GEN, BIO):

        def think(rows):
            for row in rows:
                row["arguments"]["gen_args_0"]["arg_2"] = tokens if given is None else given
                row["resps"] = [
                    [f"{text}<think>Who?\nInstruction: none</think>" for text in row["resps"][0]]
                ]

        forger.change_samples(task, think)
        forger.change_results(
            lambda content, task=task: content["configs"][task]["metadata"].update(
                thinking_tokens=tokens
            )
        )


@pytest.mark.parametrize(
    ("tokens", "given", "problem"),
    [
        (4096, None, None),
        (40_000, None, "thinking_tokens is 40000, expected 32768"),
        (4096, 40_000, "its generation arguments are not those of the leaderboard"),
        (-5, None, "thinking_tokens is -5, expected 0"),
    ],
)
def test_tokens_to_think_are_no_tokens_of_an_answer(forger, tokens, given, problem):
    _think(forger, tokens, given)
    refusals = check_submission(forger.folder).refusals
    assert {each.code for each in refusals} == ({"CONFIG_DIFFERS"} if problem else set()), refusals
    assert all(problem in each.sentence for each in refusals)
