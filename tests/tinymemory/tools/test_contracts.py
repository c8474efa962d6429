"""What every host's model is told is frozen; `BLESS_TOOL_CONTRACTS=1` changes it on purpose."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tinymemory import EngineDescriptor, FetchMode, MemoryTools, ReferenceEngine

FIXTURE = Path(__file__).parents[2] / "fixtures" / "tool_contracts.json"


class Serving(ReferenceEngine):
    """The reference engine, serving only some modes."""

    def __init__(self, *modes: FetchMode) -> None:
        super().__init__()
        self.modes = modes

    @property
    def descriptor(self) -> EngineDescriptor:
        return super().descriptor.model_copy(update={"fetch_modes": self.modes})


def test_the_contracts_are_the_frozen_ones(tools: MemoryTools) -> None:
    contracts = [spec.model_dump(mode="json") for spec in tools.specs()]
    if os.environ.get("BLESS_TOOL_CONTRACTS") == "1":
        FIXTURE.write_text(json.dumps(contracts, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

    assert contracts == json.loads(FIXTURE.read_text(encoding="utf-8")), (
        "what models are told has changed: run with BLESS_TOOL_CONTRACTS=1 if that is meant"
    )


def test_there_are_seven_tools_in_their_order(tools: MemoryTools) -> None:
    assert [spec.name for spec in tools.specs()] == [
        "memory_recall",
        "memory_fetch",
        "memory_list",
        "memory_get",
        "memory_explore",
        "memory_store",
        "memory_forget",
    ]


@pytest.mark.parametrize(
    "modes", [(FetchMode.HYBRID,), (FetchMode.VECTOR, FetchMode.KEYWORD), tuple(FetchMode)]
)
def test_the_mode_enum_lists_exactly_the_engines_modes(modes: tuple[FetchMode, ...]) -> None:
    fetch = next(spec for spec in MemoryTools(Serving(*modes)).specs() if spec.name == "memory_fetch")

    assert fetch.parameters["properties"]["mode"]["enum"] == list(modes)


def test_an_engine_that_serves_no_mode_gets_no_fetch_tool() -> None:
    assert "memory_fetch" not in [spec.name for spec in MemoryTools(Serving()).specs()]


def test_the_facets_are_all_but_the_namespace(tools: MemoryTools) -> None:
    explore = next(spec for spec in tools.specs() if spec.name == "memory_explore")

    assert " ".join(explore.parameters["properties"]["facet"]["enum"]) == (
        "kind source source_id workspace folder file_path language repo url thread agent tool_call tag"
    )


def test_a_host_that_changes_a_schema_changes_its_own_copy(tools: MemoryTools) -> None:
    changed: Any = tools.specs()[0].parameters
    changed["properties"]["filter"]["properties"].clear()

    assert tools.specs()[0].parameters["properties"]["filter"]["properties"]


FILTERING = {"memory_recall", "memory_fetch", "memory_list", "memory_explore", "memory_forget"}


def test_the_models_filter_has_twelve_fields(tools: MemoryTools) -> None:
    filters = {
        spec.name: spec.parameters["properties"]["filter"]
        for spec in tools.specs()
        if "filter" in spec.parameters["properties"]
    }

    assert filters.keys() == FILTERING
    for schema in filters.values():
        assert " ".join(schema["properties"]) == (
            "kinds sources tags_any workspace folder file_path repo url thread_id agent_id "
            "observed_after observed_before"
        )
