"""What `tinymemory` itself offers: every public name, each part loaded when it is first named."""

import subprocess
import sys

import pytest

import tinymemory
import tinymemory.documents
import tinymemory.engines.cortex


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout.strip()


@pytest.mark.parametrize("name", tinymemory.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(tinymemory, name) is not None


def test_what_a_host_builds_an_engine_or_a_document_with_comes_from_the_package() -> None:
    assert tinymemory.Timing is tinymemory.engines.cortex.Timing
    assert tinymemory.BearerSource is tinymemory.engines.cortex.BearerSource
    assert tinymemory.brain_document is tinymemory.documents.brain_document
    assert tinymemory.Converters is tinymemory.documents.Converters


def test_importing_the_package_loads_no_engine_and_no_converter() -> None:
    shown = run_python(
        "import sys, tinymemory; print([name for name in ('tinymemory.documents',"
        " 'tinymemory.engines.cortex', 'tinymemory.engines.sqlite') if name in sys.modules])"
    )

    assert shown == "[]"


def test_a_name_that_needs_an_extra_says_which_when_it_is_missing() -> None:
    shown = run_python(
        "import sys; sys.modules['pebble'] = None\n"
        "from tinymemory import *\n"
        "try:\n    from tinymemory import brain_document\n"
        "except TinyMemoryError as error:\n    print(error)"
    )

    assert shown == "configuration error: brain_document needs pebble: pip install 'tinymemory[documents]'"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tinymemory.nothing  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportAttributeAccessIssue]  # asks for what is not there
