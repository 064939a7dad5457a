"""The small shell says what the system's own tools say, on a table of command lines; what it does not know is told."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ropewalk.tasks.environments.inside import shell
from ropewalk.tasks.environments.inside.words import Trouble, statements

FILES = {
    "a.txt": "one\ntwo\nthree\nfour\n",
    "b.txt": "pear 3\napple 10\nfig 2\napple 10\n",
    "c.csv": "id,name,tons\n1,salt,20\n2,tar,7\n3,,5\n",
    "empty": "",
    "log/x.log": "error 1\nok\nERROR 2\nan error\n",
    "log/deep/y.log": "fine\n\nerror 3\n",
    "odd name.txt": "a.b*c\n[x]\n$5\n",
}
LINES = [
    "cat a.txt",
    "cat a.txt b.txt",
    "cat -n a.txt",
    "cat < a.txt",
    "cat empty",
    "cat 'odd name.txt'",
    "head -2 a.txt",
    "head -n 3 a.txt",
    "head -n 1 a.txt b.txt",
    "tail -2 a.txt",
    "tail -n +3 a.txt",
    "tail -n 1 a.txt",
    "head -c 5 a.txt",
    "wc -l a.txt",
    "wc -l < a.txt",
    "wc -w b.txt",
    "cat a.txt | wc -c",
    "grep t a.txt",
    "grep -n t a.txt",
    "grep -c o a.txt",
    "grep -v t a.txt",
    "grep -i error log/x.log",
    "grep -rn error log",
    "grep -rl error log",
    "grep -E 'one|three' a.txt",
    "grep 'o\\|x' a.txt",
    "grep -o 'o[a-z]' a.txt",
    "grep -w error log/x.log",
    "grep -x ok log/x.log",
    "grep -F 'b*c' 'odd name.txt'",
    "grep '\\[x\\]' 'odd name.txt'",
    "grep -A1 one a.txt",
    "grep -B1 four a.txt",
    "grep -m1 o a.txt",
    "grep -e one -e two a.txt",
    "grep -q one a.txt && echo yes",
    "grep zzz a.txt || echo no",
    "grep '^t' a.txt",
    "grep '[0-9]\\+' b.txt",
    "grep -h error log/x.log log/deep/y.log",
    "grep -E 'o{1}' a.txt",
    "grep 'e\\{2\\}' a.txt",
    "sed -n 2p a.txt",
    "sed -n 2,3p a.txt",
    "sed -n '2,$p' a.txt",
    "sed 2d a.txt",
    "sed '$d' a.txt",
    "sed 's/o/0/' a.txt",
    "sed 's/o/0/g' a.txt",
    "sed 's/\\(o\\)\\(.\\)/\\2\\1/' a.txt",
    "sed -E 's/(o)(.)/[\\2\\1]/' a.txt",
    "sed 's/o/<&>/' a.txt",
    "sed 's|o|/|' a.txt",
    "sed -n '/two/p' a.txt",
    "sed '/two/d' a.txt",
    "sed -n '/two/,/four/p' a.txt",
    "sed -n '/o/,+1p' a.txt",
    "sed -e 's/one/1/' -e 's/two/2/' a.txt",
    "sed 's/one/1/;s/two/2/' a.txt",
    "sed 's/O/x/I' a.txt",
    "sed -n 's/t/T/p' a.txt",
    "sed -n '$=' a.txt",
    "sed 2q a.txt",
    "sed 's/e/E/2' a.txt",
    "sed '1,2s/o/0/' a.txt",
    "sed 's/^/> /' a.txt",
    "sort b.txt",
    "sort -r b.txt",
    "sort -k2 -n b.txt",
    "sort -u b.txt",
    "sort -t, -k3 -n c.csv",
    "sort b.txt | uniq",
    "sort b.txt | uniq -d",
    "sort -n -r -k 2 b.txt",
    "cut -d, -f2 c.csv",
    "cut -d, -f1,3 c.csv",
    "cut -d, -f2- c.csv",
    "cut -c1-2 a.txt",
    "cut -d' ' -f2 b.txt",
    "cat a.txt | tr a-z A-Z",
    "cat a.txt | tr -d o",
    "cat a.txt | tr o 0 | head -1",
    "echo 'aabb' | tr -s ab",
    "echo hi",
    "echo 'a  b' c",
    'echo "x y"',
    "echo a > n; cat n",
    "echo a > n; echo b >> n; cat n",
    "echo -n > n; wc -c < n",
    "ls",
    "ls *.txt",
    "ls log",
    "ls -1 log",
    "cp a.txt z && cat z",
    "mv a.txt z; ls",
    "rm a.txt; ls",
    "mkdir -p p/q; ls p",
    "touch t; cat t",
    "rm -r log; ls",
    "cp a.txt log; cat log/a.txt",
    "cd log; cat x.log",
    "find . -name '*.log' | sort",
    "find log -type f | sort",
    "find . -type d | sort",
    "cat nope || echo missing",
    "cat nope; echo next",
    "cat nope && echo never",
    "true_is_not_here || echo no",
    "cat <<'END' > h; cat h\nline $x\n'quoted'\nEND",
    "cat <<END | wc -l\na\nb\nEND",
    "echo a \\\n  b",
    "echo 'two\nlines'",
    "# only a comment",
    "echo a # b",
    "cat a.txt | grep o | sort | head -1",
    "cat a.txt 2>/dev/null",
    "echo \\$5",
    "grep '\\$5' 'odd name.txt'",
    "echo a;echo b",
    "echo 'it'\"'\"'s'",
]


def folder(place: Path) -> Path:
    for name, text in FILES.items():
        (place / "work" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "work" / name).write_text(text)
    (place / "own").mkdir()
    return place


def said(
    place: Path, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str, bool]:
    monkeypatch.chdir(place / "own")
    good = True
    try:
        shell.start(line)
    except SystemExit:
        good = False
    out, error = capsys.readouterr()
    return out, error, good


def plain(text: str) -> str:
    """Without what may differ: marks of folders, and the blanks before numbers."""
    return "\n".join(line.rstrip("/").lstrip() for line in text.splitlines())


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_it_says_what_the_systems_tools_say(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash to compare with")
    theirs = folder(tmp_path / "theirs") / "work"
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}
    done = subprocess.run([bash, "-c", line], cwd=theirs, env=environment, capture_output=True, text=True, check=False)
    out, _, good = said(folder(tmp_path / "mine"), line, capsys, monkeypatch)
    assert plain(out) == plain(done.stdout)
    assert good == (done.returncode == 0)
    mine = tmp_path / "mine" / "work"
    assert sorted(p.relative_to(mine).as_posix() for p in mine.rglob("*")) == sorted(
        p.relative_to(theirs).as_posix() for p in theirs.rglob("*")
    )


TROUBLE = [
    ("echo $HOME", "no variables"),
    ("echo `ls`", "no variables"),
    ("echo $(ls)", "no variables"),
    ('echo "$x"', "no variables"),
    ("curl x", "curl: not known here"),
    ("awk '{print}' a.txt", "awk: not known"),
    ("python3 x.py", "not known"),
    ("bash -c ls", "not known"),
    ("sleep 100 &", "background"),
    ("echo 'a", "quote is not closed"),
    ("echo a |", "a command is missing"),
    ("| cat", "a command is missing"),
    ("&& ls", "nothing stands before"),
    ("cat >", "needs a file"),
    ("cat << END\nx", "ends the text"),
    ("cat", "name a file"),
    ("head -n x a.txt", "is no number"),
    ("head -z a.txt", "no option -z"),
    ("grep", "expression is missing"),
    ("grep '(' -E a.txt", "malformed"),
    ("sed", "script is missing"),
    ("sed 's/a/' a.txt", "sed: "),
    ("sed 'y/a/b/' a.txt", "sed: commands are"),
    ("sed '2!d' a.txt", "! is not known"),
    ("sed 's/(/x/' -E a.txt", "malformed"),
    ("sed 's/a/\\9/' b.txt", "malformed"),
    ("cut a.txt", "cut: give"),
    ("cut -f0 a.txt", "no field"),
    ("tr a", "tr: give two sets"),
    ("find . -exec rm", "find: tests are"),
    ("find nope", "no such folder"),
    ("ls nope", "no such file"),
    ("rm log", "is a folder"),
    ("rm nope", "No such file"),
    ("cp a.txt", "give a file"),
    ("mv a b c", "several files go to a folder"),
    ("mkdir", "name a file or a folder"),
    ("cd nope", "No such file"),
    ("cat log", "is a folder"),
    ("echo x > log", "Is a directory"),
    ("sort -k x b.txt", "sort"),
    ("cat a\0b", "null"),
]


@pytest.mark.parametrize(("line", "words"), TROUBLE, ids=range(len(TROUBLE)))
def test_what_it_does_not_know_is_a_line_on_stderr(
    line: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, error, good = said(folder(tmp_path), line, capsys, monkeypatch)
    assert words in error and not good and len(error.strip().splitlines()) == 1


@given(line=st.text(alphabet=st.sampled_from([*"ab'\"\\|;<>&#$`*?[]() \n-", "é"]), max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_line_is_words_or_trouble(line: str) -> None:
    try:
        for words, join in statements(line):
            assert words and join in ("&&", "||", ";")
    except Trouble as error:
        assert str(error)


def test_a_quoted_word_is_no_operator_and_no_pattern() -> None:
    ((words, _),) = statements("echo '|' \\; \"&&\" 'a*'")
    assert list(map(str, words)) == ["echo", "|", ";", "&&", "a*"]
    assert sys.modules["ropewalk.tasks.environments.inside.shell"].COMMANDS.keys() == shell.COMMANDS.keys()
