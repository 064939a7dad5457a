"""Copyleft does not get into the default install unseen."""

import pytest

from scripts import licences


@pytest.mark.parametrize(
    "stated",
    ["GPL-3.0-or-later", "LGPLv3", "AGPL-3.0-only", "GNU Lesser General Public License v2 (LGPLv2)", "GNU GPL", ""],
)
def test_copyleft_and_silence_are_refused(stated: str) -> None:
    assert licences.problem("planted", stated)


@pytest.mark.parametrize("stated", ["MIT", "Apache-2.0 WITH LLVM-exception", "BSD-3-Clause", "PSF-2.0", "MIT-CMU"])
def test_permissive_is_taken(stated: str) -> None:
    assert licences.problem("planted", stated) is None


def test_file_level_copyleft_needs_a_reason() -> None:
    assert licences.problem("planted", "MPL-2.0 AND MIT")
    assert licences.problem("tqdm", "MPL-2.0 AND MIT") is None


def test_the_walk_reaches_what_is_needed_indirectly() -> None:
    assert {"ropewalk", "torch", "transformers", "tqdm", "markupsafe"} <= set(licences.closure("ropewalk"))
