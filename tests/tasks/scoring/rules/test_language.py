import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.records.errors import InputError
from ropewalk.records.score import Failed
from ropewalk.tasks.scoring.rules.language import LANGUAGES, Language, scripts
from tests.tasks.scoring.rules.asked import asked, judged, scored

TEXTS = {
    "en": "The quick brown fox, naïve and ﬁne.",
    "zh": "敏捷的棕色狐狸跳过懒狗。",
    "ja": "素早い茶色の狐が怠け者の犬を飛び越える。ﾃｽﾄ",
    "ko": "빠른 갈색 여우가 게으른 개를 뛰어넘는다.",
    "ru": "Быстрая коричневая лиса.",
    "el": "Η γρήγορη καφέ αλεπού.",
    "ar": "الثعلب البني السريع",
    "he": "השועל החום המהיר",
    "hi": "तेज भूरी लोमड़ी",
    "th": "สุนัขจิ้งจอกสีน้ำตาล",
}


def test_each_language_is_its_own_and_no_other() -> None:
    for said, text in TEXTS.items():
        for asked_for in TEXTS:
            assert scored(Language(), text, language=asked_for) == (said == asked_for), (said, asked_for)
            assert scored(Language(asked_for), text) == (said == asked_for)


def test_letters_count_and_nothing_else() -> None:
    assert scripts("ab, 12 ж!") == {"LATIN": 2, "CYRILLIC": 1}
    assert scripts("ＡＢ") == {"LATIN": 2}, "full width"
    assert judged(Language("en"), "12 + 30 = 42") == Failed("wrong_format", "the completion has no letter")
    assert scored(Language("zh", share=0.8), "用 print 打印出全部的结果和它们的平均值以及方差吧") == 1
    assert scored(Language("zh"), "用 print 打印结果") == 0


@given(st.text(alphabet="abcжш中", min_size=1, max_size=30), st.sampled_from(["en", "ru", "zh"]))
def test_the_share_is_what_decides(text: str, language: str) -> None:
    own = sum(c in {"en": "abc", "ru": "жш", "zh": "中"}[language] for c in text)
    assert scored(Language(language, share=0.5), text) == (own >= 0.5 * len(text))
    assert scored(Language(language, share=0.5), text[::-1]) == scored(Language(language, share=0.5), text)


def test_what_is_no_language() -> None:
    with pytest.raises(InputError, match="unknown language 'english': give a code such as"):
        Language("english")
    assert "no language" in str(Language().info_fault(asked()))
    assert "unknown language 7" in str(Language().info_fault(asked(language=7)))
    assert Language().info_fault(asked(language="de")) is None and "de" in LANGUAGES
    with pytest.raises(InputError, match="share"):
        Language("en", share=0)
