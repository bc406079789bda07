"""Makes the claims on which ``certify --setting check_mutations`` measures judges.

    python -m bench.check.mutations

The texts are those of this benchmark. factor-gen's rules make a contradiction of each true
sentence, as far as they can.
"""

import json
import shutil
import tempfile
from pathlib import Path

from bench.check.texts import GENRES, read_documents
from factor_gen.cli import main as factor_gen
from lm_factuality.benchmarks import factor
from lm_factuality.ground.files import write_lines, write_text

_SETTINGS = """\
name: mutations
corpus: {path: corpus.jsonl, unwrap: false, license: MIT, source: the texts of bench/check}
select: {position: last, draws: 1, once: false, min_words: 4}
generate: rules
filter: none
choose: {contradictions: 1}
"""


def main() -> None:
    """Write both files into the package of FACTOR."""
    target = Path(factor.__file__).parent
    documents = []
    corpus = []
    for genre in GENRES:
        for number, document in enumerate(read_documents(genre), start=1):
            key = f"{genre}{number:02}"
            documents.append({"id": key, "title": document.title, "text": document.text})
            for index, statement in enumerate(document.sentences, start=1):
                others = [
                    other.says or other.claim
                    for other in document.sentences
                    if other is not statement
                ]
                # factor-gen takes the last sentence of each document.
                text = f"{document.title}\n{' '.join(others)} {statement.claim}"
                corpus.append({"id": f"{key}-{index}", "title": document.title, "text": text})

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_lines(folder / "corpus.jsonl", map(json.dumps, corpus))
        write_text(folder / "mutations.yaml", _SETTINGS)
        factor_gen(["build", str(folder / "mutations.yaml"), "--out", str(folder / "out")])
        shutil.copy(folder / "out" / "mutations.csv", target / "mutations.csv")
    write_lines(target / "mutations.jsonl", map(json.dumps, documents))


if __name__ == "__main__":
    main()
