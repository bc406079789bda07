from pathlib import Path

from bench.suite.leaderboard import measure


def test_made_up_submissions_are_accepted_and_built(tmp_path: Path) -> None:
    sizes = {"wiki_factor": 50, "news_factor": 50, "expert_factor": 50}
    here = Path.cwd()
    found = measure(3, tmp_path, runs=1, sizes=sizes)
    assert (found.num_submissions, found.num_rows, len(found.check_seconds)) == (3, 150, 3)
    assert (tmp_path / "site" / "index.html").read_text().count("rank 1") >= 3
    assert 0 < found.first_view < found.site
    assert Path.cwd() == here
