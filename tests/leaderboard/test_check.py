"""Forged and broken submissions are refused with a code, and the honest one is accepted."""

from __future__ import annotations

import hashlib
import json
import math
import shutil

import pytest

from lm_factuality.leaderboard import contents as contents_module
from lm_factuality.leaderboard.check import check_submission, find_submissions
from lm_factuality.leaderboard.submission import SUBMISSION_FILE
from lm_factuality.results.read import read_results_file
from lm_factuality.results.recompute import recompute

# The tasks of the sample's leaderboard.
FACTOR = "sample_factor"
GEN = "sample_felm_gen"
BIO = "sample_ambigbio"


def test_an_honest_submission_is_accepted(honest):
    """All forgeries of the other tests are changes of this submission."""
    checked = check_submission(honest)

    assert checked.refusals == ()
    assert set(checked.evidence.tasks) == {FACTOR, GEN, BIO}


# A forgery is a function that changes a submission by its `Forger`. The functions from here to
# `change_answers` make forgeries, and those behind are forgeries or changes for them.


def change_results(change):
    """Make a forgery that changes the results file by a function of its content."""
    return lambda forger: forger.change_results(change)


def change_submission(change):
    """Make a forgery that changes ``submission.json`` by a function of its content."""
    return lambda forger: forger.change_submission(change)


def change_rows(task, change, **options):
    """Make a forgery that changes the samples of a task by a function of their list."""
    return lambda forger: forger.change_samples(task, change, **options)


def set_score(name, value, task=FACTOR):
    """Make a forgery that states another score of a task."""
    return change_results(lambda content: content["results"][task].update({name: value}))


def narrow_interval(forger):
    """Raise the lower end of the interval of the accuracy."""
    change_results(
        lambda content: content["intervals"][FACTOR]["factor_acc"].update(low=0.5, high=0.5)
    )(forger)


def set_metadata(task, **changes):
    """Make a forgery that states other metadata of a task."""
    return change_results(lambda content: content["configs"][task]["metadata"].update(changes))


def set_judge_config(**changes):
    """Make a forgery that states another configuration of the judge."""
    return change_results(
        lambda content: content["configs"][GEN]["metadata"]["judge_config"].update(changes)
    )


def set_run_config(**changes):
    """Make a forgery that states another configuration of the run."""
    return change_results(lambda content: content["config"].update(changes))


def set_results(**changes):
    """Make a forgery that states other values at the top of the results file."""
    return change_results(lambda content: content.update(changes))


def set_submission(**changes):
    """Make a forgery that states other values in ``submission.json``."""
    return change_submission(lambda submission: submission.update(changes))


def set_model(**changes):
    """Make a forgery that states another model in ``submission.json``."""
    return change_submission(lambda submission: submission["model"].update(changes))


def change_certificate(change):
    """Make a forgery that changes the judge's certificate by a function of its content."""

    def forge(forger):
        path = forger.folder / "certificate.json"
        content = json.loads(path.read_text(encoding="utf-8"))
        change(content)
        path.write_text(json.dumps(content), encoding="utf-8")
        forger.seal()

    return forge


def change_answers(change):
    """Make a forgery that changes the model's answer to each choice of FACTOR.

    Args:
        change: Takes whether the choice is the true one, and the answer, and returns another answer.
    """

    def change_all_rows(rows):
        for row in rows:
            for choice, answer in enumerate(row["filtered_resps"]):
                is_true = choice == row["doc"]["gold"]
                changed_answer = change(is_true, list(answer))
                row["resps"][choice] = [changed_answer]
                row["filtered_resps"][choice] = changed_answer

    return change_rows(FACTOR, change_all_rows)


def verdict_of(row):
    """Return the judge's verdict of one sample."""
    return json.loads(row["filtered_resps"][0])


def change_verdict(row, **changes):
    """Change the judge's verdict of one sample."""
    row["filtered_resps"] = [json.dumps({**verdict_of(row), **changes})]


def sha256(text):
    """Return the hash of a text, as lm_eval computes it."""
    return hashlib.sha256(text.encode()).hexdigest()


def refusals_of(forger):
    """Return the reasons to refuse a forged submission."""
    return check_submission(forger.folder).refusals


def refusal_codes(forger):
    """Return the codes of the reasons to refuse a forged submission."""
    return {refusal.code for refusal in refusals_of(forger)}


def remove_score(content):
    """Remove a score from the results."""
    del content["results"][FACTOR]["factor_acc_worst,none"]


def first_wrong_row(rows):
    """Return the first row of FACTOR on which the model is wrong."""
    return next(row for row in rows if not row["factor_acc"])


def make_a_row_right(rows):
    """Make the true completion of a row the likeliest, and change its metrics accordingly."""
    row = first_wrong_row(rows)
    gold = row["doc"]["gold"]
    row["resps"][gold][0][0] = "-0.5"
    row["filtered_resps"][gold][0] = "-0.5"
    row.update(factor_acc=1.0, factor_acc_best=1.0, factor_acc_worst=1.0)


def make_a_metric_right(rows):
    """Change a metric of a row, but not the responses that it follows from."""
    first_wrong_row(rows)["factor_acc"] = 1.0


def remove_errors_from_verdicts(rows):
    """Let the judge find no error in any response."""
    for row in rows:
        errors = verdict_of(row)["errors"]
        if errors:
            change_verdict(row, errors=[None] * len(errors))


def raise_scores_beside_judgements(rows):
    """Change a score of a biography, but not the judgements that it follows from."""
    row = next(row for row in rows if verdict_of(row)["scores"])
    change_verdict(row, scores={**verdict_of(row)["scores"], "d_factscore": 1.0})


def remove_half_of_the_verdicts(rows):
    """Leave half of the responses unscored."""
    for row in rows[: len(rows) // 2]:
        change_verdict(row, errors=None, unscored="nothing there")


def make_contradictions_no_numbers(is_true, answer):
    """Give the true choice a low log-probability, and the others none."""
    return ["-1" if is_true else "nan", *answer[1:]]


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(set_score("factor_acc,none", 0.99), id="higher accuracy"),
        pytest.param(set_score("factor_acc_stderr,none", 0.001), id="smaller standard error"),
        pytest.param(narrow_interval, id="narrower interval"),
        pytest.param(change_results(remove_score), id="missing score"),
        pytest.param(set_score("segment_error_rate,judge", 0.0, GEN), id="better judged score"),
        pytest.param(set_score("d_factscore,judge", 1.0, BIO), id="better score of biographies"),
        pytest.param(change_rows(FACTOR, make_a_row_right), id="a row is right"),
        pytest.param(change_rows(FACTOR, make_a_metric_right), id="the metric of a row is right"),
        pytest.param(change_rows(GEN, remove_errors_from_verdicts), id="no errors in verdicts"),
        pytest.param(
            change_rows(BIO, raise_scores_beside_judgements), id="better score in a verdict"
        ),
        pytest.param(change_rows(GEN, remove_half_of_the_verdicts), id="fewer verdicts"),
        pytest.param(change_answers(make_contradictions_no_numbers), id="no numbers"),
    ],
)
def test_score_inconsistent_with_samples_is_refused(forge, forger):
    """The check computes every score again from the responses in the samples."""
    forge(forger)

    assert "SCORE_CHANGED" in refusal_codes(forger)


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(set_score("factor_acc,none", math.inf), id="infinite"),
        pytest.param(set_score("my_own_score,none", math.nan), id="undeclared NaN"),
        pytest.param(set_score("factor_acc,none", 1.5), id="share above 1"),
        pytest.param(
            change_results(lambda content: content.update(date=4e9)), id="a date in the year 2096"
        ),
    ],
)
def test_impossible_numbers_are_refused(forge, forger):
    """Such numbers would break the sorting and the plots of the board."""
    forge(forger)

    assert "RESULTS_INVALID" in refusal_codes(forger)


def drop_a_row(rows):
    """Remove a row from the samples."""
    del rows[7]


def repeat_a_row(rows):
    """Put a row in the place of another."""
    rows[7] = rows[8]


@pytest.mark.parametrize("change", [drop_a_row, repeat_a_row])
def test_samples_of_other_rows_than_the_data_are_refused(change, forger):
    """A forger could leave out hard rows, or repeat easy ones."""
    change_rows(FACTOR, change, rehash=True)(forger)

    assert "ROWS_DIFFER" in refusal_codes(forger)


def replace_a_document(rows):
    """Replace a published row by another one, with the hash that lm_eval would give it."""
    row = rows[3]
    row["doc"].update(problem="", location="sample_factor.csv:9999")
    row["doc_hash"] = sha256(json.dumps(row["doc"], indent=2, ensure_ascii=False))


def replace_a_document_but_not_its_hash(rows):
    """Replace a published row by another one."""
    rows[3]["doc"]["location"] = "elsewhere"


def test_another_document_than_the_published_one_is_refused(forger):
    """All hashes of the samples fit the other document, so the check compares the documents."""
    forger.change_samples(FACTOR, replace_a_document, rehash=True)

    assert "WRONG_DATA" in refusal_codes(forger)


def test_another_data_file_than_the_published_one_is_refused(forger):
    """The results name their data by the hash of the file."""

    def name_another_file(content):
        content["configs"][FACTOR]["metadata"]["data"] = {"git_blob": "0" * 40, "rows": 432}

    forger.change_results(name_another_file)

    assert "WRONG_DATA" in refusal_codes(forger)


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(change_rows(FACTOR, make_a_row_right, seal=False), id="hash of the file"),
        pytest.param(
            change_rows(FACTOR, replace_a_document_but_not_its_hash), id="hash of a document"
        ),
    ],
)
def test_samples_with_a_wrong_hash_are_refused(forge, forger):
    """The results and ``submission.json`` have hashes of the samples."""
    forge(forger)

    assert "SAMPLES_CHANGED" in refusal_codes(forger)


def repeat_a_verdict(rows):
    """Give a response the verdict on another."""
    rows[0]["filtered_resps"] = rows[1]["filtered_resps"]


def cut_samples_off(forger):
    """Cut the last row off in its middle."""
    path = forger.samples(FACTOR)
    path.write_bytes(path.read_bytes()[:-100])
    forger.seal()


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(change_rows(GEN, repeat_a_verdict), id="verdict on another response"),
        pytest.param(cut_samples_off, id="cut off"),
    ],
)
def test_unreadable_samples_are_refused(forge, forger):
    forge(forger)

    assert "SAMPLES_INVALID" in refusal_codes(forger)


def test_results_changed_after_packing_are_refused(forger):
    """``submission.json`` has the hash of each file, as it was when the run was packed."""
    forger.change_results(lambda content: content.update(date=0.0), seal=False)

    assert "FILE_CHANGED" in refusal_codes(forger)


def test_results_changed_to_the_same_size_are_refused(forger):
    """The size alone does not show the change, so the content is hashed."""
    content = forger.results.read_bytes()
    forger.results.write_bytes(content.replace(b"float32", b"float16"))

    assert "FILE_CHANGED" in refusal_codes(forger)


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(set_run_config(limit=10), id="stated limit"),
        pytest.param(
            change_results(lambda content: content["n-samples"][FACTOR].update(effective=10)),
            id="fewer documents",
        ),
    ],
)
def test_a_run_on_a_part_of_the_rows_is_refused(forge, forger):
    """A score on the first ten rows cannot be compared with one on all rows."""
    forge(forger)

    assert "LIMIT_RUN" in refusal_codes(forger)


def test_a_missing_file_is_refused(forger):
    """Without its samples a score cannot be computed again."""
    forger.samples(FACTOR).unlink()

    assert "FILE_MISSING" in refusal_codes(forger)


def test_an_unlisted_file_is_refused(forger):
    """Otherwise anything could be published through the board, such as a program."""
    (forger.folder / "model.bin").write_bytes(b"x")

    assert "FILE_EXTRA" in refusal_codes(forger)


def add_and_list_a_file(forger, name, content):
    """Add a file, and list it in ``submission.json``."""
    (forger.folder / name).write_bytes(content)
    entry = {"path": name, "sha256": "0" * 64, "bytes": 0}  # sealing corrects hash and size
    forger.change_submission(lambda submission: submission["files"].append(entry))
    forger.seal()


def test_a_listed_file_that_no_run_writes_is_refused(forger):
    """A forger can list any file in ``submission.json``, which does not make it a result."""
    add_and_list_a_file(forger, "model.bin", b"x")

    assert "FILE_EXTRA" in refusal_codes(forger)


def test_a_link_to_a_file_outside_is_refused(forger):
    """A link could show a file of the machine that checks."""
    path = forger.samples(FACTOR)
    moved_path = path.rename(forger.folder.parent / path.name)
    path.symlink_to(moved_path)

    assert "PATH_ESCAPES" in refusal_codes(forger)


def list_a_path_upwards(submission):
    """List a file outside of the submission."""
    submission["files"][-1]["path"] = "../../etc/passwd"


def break_submission_file(forger):
    """Replace ``submission.json`` by something else."""
    (forger.folder / SUBMISSION_FILE).write_text("{", encoding="utf-8")


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(break_submission_file, id="no JSON"),
        pytest.param(change_submission(list_a_path_upwards), id="path upwards"),
        pytest.param(set_model(revision="main"), id="branch for a revision"),
        pytest.param(set_model(dtype=32), id="number for a text"),
        pytest.param(set_model(name="../x"), id="model without an organisation"),
        pytest.param(set_submission(format=1), id="older format"),
        pytest.param(set_submission(rank=1), id="unknown key"),
    ],
)
def test_invalid_submission_file_is_refused(forge, forger):
    """Whoever sends the file chooses its content, including the paths in it."""
    forge(forger)

    assert "SUBMISSION_INVALID" in refusal_codes(forger)


def test_an_unknown_leaderboard_is_refused(forger):
    """There are no rules by which to check it."""
    set_submission(leaderboard="everything")(forger)

    assert "LEADERBOARD_UNKNOWN" in refusal_codes(forger)


def test_malformed_results_are_refused(forger):
    """The hashes are correct, so only the form of the results is wrong."""
    forger.results.write_text('{"results": 3}', encoding="utf-8")
    forger.seal()

    assert "RESULTS_INVALID" in refusal_codes(forger)


def write_a_secret_into_a_row(forger, secret):
    """Write a secret into a response, as the message of an error may have it."""

    def change(rows):
        text = f"error 401 for {secret}"
        rows[5]["resps"][0][0][4] = text
        rows[5]["filtered_resps"][0][4] = text

    forger.change_samples(FACTOR, change)


def write_a_secret_into_the_model_args(forger, secret):
    """Leave the key of an API in the arguments of the run."""
    forger.change_results(lambda content: content["config"]["model_args"].update(api_key=secret))


def write_a_secret_into_a_note_of_a_task(forger, secret):
    """Leave the key of an API within a longer text."""
    set_metadata(FACTOR, note=f"--model_args\napi_key={secret}")(forger)


def write_a_secret_into_the_revision(forger, secret):
    """Leave the name and password of a user in a URL of ``submission.json``."""
    set_model(revision=f"api:x://{secret}@example.org/x")(forger)


@pytest.mark.parametrize(
    ("write_secret", "secret"),
    [
        (write_a_secret_into_a_row, "hf_" + "a1B2" * 9),
        (write_a_secret_into_the_model_args, "abc"),
        (write_a_secret_into_a_note_of_a_task, "abcdefghijklmnop"),
        (write_a_secret_into_the_revision, "me:secret"),
    ],
)
def test_a_secret_is_refused_and_not_repeated(write_secret, secret, forger):
    """The board is public, and so is the log of the check."""
    write_secret(forger, secret)

    refusals = refusals_of(forger)

    assert "SECRET" in {refusal.code for refusal in refusals}
    for refusal in refusals:
        assert secret not in str(refusal)


@pytest.mark.parametrize("version", ["0.3.0", "0.4.0"])
def test_results_of_another_lm_eval_are_refused(version, forger):
    """The rules allow 0.4.13 and later, below 0.5, since other versions may score differently."""
    forger.change_results(lambda content: content.update(lm_eval_version=version))

    refusals = refusals_of(forger)

    sentences = [refusal.sentence for refusal in refusals if refusal.code == "LM_EVAL_UNKNOWN"]
    assert any(f"lm_eval is '{version}'" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(set_model(dtype="bfloat16"), id="precision"),
        pytest.param(set_run_config(model_sha="a" * 40), id="commit"),
    ],
)
def test_model_differing_from_the_run_is_refused(forge, forger):
    """The board would show the scores of one model under the name of another."""
    forge(forger)

    assert "MODEL_DIFFERS" in refusal_codes(forger)


def remove_a_task(content):
    """Remove a task of the leaderboard from the results."""
    del content["results"][BIO]
    del content["configs"][BIO]


def test_a_missing_task_is_refused(forger):
    """A model must not leave out the task at which it is bad."""
    forger.change_results(remove_a_task)

    assert "TASKS_MISSING" in refusal_codes(forger)


def test_task_outside_the_leaderboard_is_refused(forger):
    """The check has no rules for such a task."""

    def add_arc_easy(content):
        metadata = {"version": 1.0, "suite_version": "0.2.0"}
        content["results"]["arc_easy"] = {"acc,none": 1.0}
        content["configs"]["arc_easy"] = {"task": "arc_easy", "metadata": metadata}

    forger.change_results(add_arc_easy)

    assert "TASKS_EXTRA" in refusal_codes(forger)


def test_score_of_a_group_of_tasks_is_refused(forger):
    """A group has a score in the results, and neither a configuration nor samples."""

    def add_group(content):
        content["results"]["everything"] = {"factor_acc,none": 1.0}

    forger.change_results(add_group)

    assert "TASKS_EXTRA" in refusal_codes(forger)


def set_max_tokens(content):
    """Let the model write longer answers."""
    content["configs"][GEN]["generation_kwargs"]["max_gen_toks"] = 99


def change_a_prompt(rows):
    """Change the prompt of a row, with the hash that lm_eval would give it."""
    for argument in rows[0]["arguments"].values():
        argument["arg_0"] = "Answer well. " + argument["arg_0"]
    rows[0]["prompt_hash"] = sha256(rows[0]["arguments"]["gen_args_0"]["arg_0"])


def change_the_judge_s_prompt(content):
    """State the hash of another prompt of the judge."""
    judge_config = content["configs"][GEN]["metadata"]["judge_config"]
    judge_config["prompt_hashes"]["felm_gen/mark_segments"] = "0123456789abcdef"


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(set_metadata(FACTOR, suite_version="9.9.9"), id="version of the suite"),
        pytest.param(
            change_results(lambda content: content["versions"].update({FACTOR: 2.0})),
            id="version of a task",
        ),
        pytest.param(set_metadata(FACTOR, window=128), id="smaller window"),
        pytest.param(set_metadata(FACTOR, protocol="code"), id="ties go to the first choice"),
        pytest.param(
            change_results(lambda content: content["n-shot"].update({FACTOR: 5})), id="examples"
        ),
        pytest.param(set_results(chat_template="{{ messages }}"), id="chat template"),
        pytest.param(change_results(set_max_tokens), id="longer answers"),
        pytest.param(change_rows(FACTOR, change_a_prompt, rehash=True), id="prompt"),
        pytest.param(change_results(change_the_judge_s_prompt), id="prompt of the judge"),
    ],
)
def test_settings_differing_from_the_leaderboard_are_refused(forge, forger):
    """Scores are comparable only if prompts, windows and judges are the same."""
    forge(forger)

    assert "CONFIG_DIFFERS" in refusal_codes(forger)


def test_too_many_responses_without_a_verdict_are_refused(forger):
    """Responses that a judge leaves unscored are often the hard ones."""
    state_60_unscored_responses = set_score("unscored,judge", 60.0, GEN)
    state_60_unscored_responses(forger)

    assert "UNSCORED_TOO_MANY" in refusal_codes(forger)


def test_a_judge_without_a_certificate_is_refused(forger):
    """Nobody knows how well such a judge agrees with people."""
    certificate_files = ("certificate.json", "certificate.answers.jsonl")

    def remove_certificate(submission):
        files = submission["files"]
        submission["files"] = [file for file in files if file["path"] not in certificate_files]
        submission["certificate"] = None

    forger.change_submission(remove_certificate)
    for name in certificate_files:
        (forger.folder / name).unlink()

    refusals = [refusal for refusal in refusals_of(forger) if refusal.code == "JUDGE_UNCERTIFIED"]

    assert refusals
    assert "certify --judge lexical --sample --out certificate.json" in str(refusals[0])


def change_the_judge_s_temperature(content):
    """State another temperature of the judge."""
    content["configs"][GEN]["metadata"]["judge_config"]["decoding"]["temperature"] = 0.7


def change_certified_prompt(content):
    """Let the certificate be of another prompt."""
    content["prompt_hashes"]["felm_gen/mark_segments"] = "0" * 16


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(
            change_certificate(lambda content: content["judge"].update(backend="openai")),
            id="another judge in the certificate",
        ),
        pytest.param(
            change_results(change_the_judge_s_temperature), id="another judge in the results"
        ),
        pytest.param(change_certificate(change_certified_prompt), id="other prompts"),
        pytest.param(change_certificate(lambda content: content.clear()), id="empty certificate"),
    ],
)
def test_the_certificate_of_another_judge_is_refused(forge, forger):
    """It does not say how well the judge of this submission agrees with people."""
    forge(forger)

    assert "CERTIFICATE_MISMATCH" in refusal_codes(forger)


def write_other_digits(is_true, answer):
    """Write the log-probability of the true choice in Arabic digits, which Python reads."""
    return ["١", *answer[1:]] if is_true else answer


def add_rows_of_a_filter(rows):
    """Add each row again as the result of another filter of lm_eval."""
    rows.extend([{**row, "filter": "best"} for row in rows])


def put_answers_into_prompts(rows):
    """Put the references of a question, which hold its answer, before the prompt."""
    for row in rows:
        request = row["arguments"]["gen_args_0"]
        request["arg_0"] = f"{' '.join(row['doc']['reference_texts'])}\n{request['arg_0']}"


@pytest.mark.parametrize(
    ("forge", "code", "message"),
    [
        pytest.param(
            change_answers(write_other_digits),
            "SAMPLES_INVALID",
            "expected a valid number",
            id="numbers in other digits",
        ),
        pytest.param(
            change_answers(make_contradictions_no_numbers),
            "SCORE_CHANGED",
            "the samples give nan",
            id="contradictions without numbers",
        ),
        pytest.param(
            change_rows(FACTOR, add_rows_of_a_filter),
            "SAMPLES_INVALID",
            "rows of 2 filters",
            id="rows of a second filter",
        ),
        pytest.param(
            change_rows(GEN, put_answers_into_prompts),
            "CONFIG_DIFFERS",
            "asked something",
            id="prompts with the answers",
        ),
        pytest.param(
            change_certificate(lambda content: content.update(identity="nonsense")),
            "CERTIFICATE_MISMATCH",
            "identity",
            id="certificate of nobody",
        ),
        pytest.param(
            set_judge_config(options={"coefficients": "mine.json"}),
            "CONFIG_DIFFERS",
            "the judge's coefficients is 'mine.json'",
            id="own coefficients of the judge",
        ),
        pytest.param(
            set_run_config(model="hf-ralm"), "CONFIG_DIFFERS", "hf-ralm", id="model with retrieval"
        ),
        pytest.param(
            set_run_config(model_args="pretrained=x,peft=org/y"),
            "CONFIG_DIFFERS",
            "what is added to the model is ['peft']",
            id="adapter",
        ),
    ],
)
def test_a_refusal_says_what_is_forged(forge, code, message, forger):
    """A participant whose honest run is refused must be able to find the cause."""
    forge(forger)

    refusals = refusals_of(forger)

    sentences = [refusal.sentence for refusal in refusals if refusal.code == code]
    assert any(message in sentence for sentence in sentences), list(map(str, refusals))


def test_oversized_file_is_refused_before_reading(forger, monkeypatch):
    """A file of many gigabytes must not fill the memory of the machine that checks."""
    monkeypatch.setattr(contents_module, "MAX_FILE", 1000)  # bytes, fewer than the files have

    assert refusal_codes(forger) == {"TOO_LARGE"}


def add_results_of_another_model(forger):
    """Add a copy of the results with the name of another model."""
    content = json.loads(forger.results.read_text(encoding="utf-8"))
    content["model_name"] = "elsewhere/other"
    add_and_list_a_file(
        forger, "results_2026-01-01T00-00-00.000000.json", json.dumps(content).encode()
    )


def test_results_of_two_models_are_refused(forger):
    """A forger could send the best task of each of several models."""
    add_results_of_another_model(forger)

    codes = refusal_codes(forger)

    assert "MIXED_RUNS" in codes
    assert "TASKS_EXTRA" in codes  # each task is there twice


def test_too_many_unscored_responses_are_refused_even_if_stated(forger):
    """The results state correctly that half of the responses are unscored."""
    forger.change_samples(GEN, remove_half_of_the_verdicts)
    recomputed = recompute(read_results_file(forger.results).task(GEN))
    scores = {f"{name},judge": value for name, value in recomputed.metrics.items()}
    forger.change_results(lambda content: content["results"][GEN].update(scores))

    assert "UNSCORED_TOO_MANY" in refusal_codes(forger)


def test_submissions_are_found_below_a_folder(honest, tmp_path):
    """They are in the order of their paths."""
    shutil.copytree(honest, tmp_path / "b" / "x")
    shutil.copytree(honest, tmp_path / "a" / "x")

    assert find_submissions(tmp_path) == [tmp_path / "a" / "x", tmp_path / "b" / "x"]


def test_a_submission_is_found_by_its_own_folder(honest):
    """A user may name the submission itself in place of the folder of all submissions."""
    assert find_submissions(honest) == [honest]


def forge_thinking(forger, stated_tokens, requested_tokens):
    """Forge a run whose model thought before each answer.

    Args:
        forger: The forger of the submission.
        stated_tokens: How many tokens for thinking the tasks state.
        requested_tokens: How many tokens for thinking the requests had.
    """

    def think(rows):
        for row in rows:
            row["arguments"]["gen_args_0"]["arg_2"] = requested_tokens
            (responses,) = row["resps"]
            thought = "<think>Who?\nInstruction: none</think>"
            row["resps"] = [[f"{response}{thought}" for response in responses]]

    for task in (GEN, BIO):
        forger.change_samples(task, think)
        set_metadata(task, thinking_tokens=stated_tokens)(forger)


def test_tokens_for_thinking_are_accepted(forger):
    """Models that think before they answer need more tokens than other models."""
    forge_thinking(forger, stated_tokens=4096, requested_tokens=4096)

    assert refusals_of(forger) == ()


@pytest.mark.parametrize(
    ("stated_tokens", "requested_tokens", "problem"),
    [
        pytest.param(
            40_000, 40_000, "thinking_tokens is 40000, expected 32768", id="more than the maximum"
        ),
        pytest.param(
            4096,
            40_000,
            "its generation arguments are not those of the leaderboard",
            id="more than stated",
        ),
        pytest.param(-5, -5, "thinking_tokens is -5, expected 0", id="negative"),
    ],
)
def test_impossible_tokens_for_thinking_are_refused(
    forger, stated_tokens, requested_tokens, problem
):
    """A run may have up to 32,768 tokens for thinking, and only as many as its results state."""
    forge_thinking(forger, stated_tokens, requested_tokens)

    refusals = refusals_of(forger)

    assert {refusal.code for refusal in refusals} == {"CONFIG_DIFFERS"}
    for refusal in refusals:
        assert problem in refusal.sentence
