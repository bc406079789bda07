"""Names on disk."""

from lm_factuality.benchmarks.biographies.generations import question_about, read_names


def test_ambigbio_has_497_names_and_their_questions(shared):
    names = read_names(shared / "data" / "ambigbio" / "AmbigBio.csv")
    assert len(names) == 497
    assert names[0] == "Manuel Suárez"
    assert "James O'Connell" in names
    lines = (shared / "data" / "ambigbio" / "AmbigBio.csv").read_text(encoding="utf-8").splitlines()
    assert [question_about(name) for name in names] == [line.split("\t")[0] for line in lines]


def test_names_are_read_from_lines(tmp_path):
    path = tmp_path / "names.txt"
    path.write_bytes("\ufeffAda Lind (disambiguation)\r\n\r\nÉmile Røst\r\nAda Lind\r\n".encode())
    assert read_names(path) == ["Ada Lind", "Émile Røst"]
    assert question_about("Ada Lind") == "Tell me a bio of Ada Lind"
