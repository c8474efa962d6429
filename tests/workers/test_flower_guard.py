"""Who may see Flower."""

import pytest

from tinymemory.errors import ConfigError
from workers.commands.flower import ensure_guarded


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost", "127.0.0.2"])
def test_this_machine_may_without_a_login(address: str) -> None:
    ensure_guarded(address, has_login=False)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "", "10.0.0.4", "host.example"])
def test_a_network_may_not_unless_there_is_a_login(address: str) -> None:
    ensure_guarded(address, has_login=True)

    with pytest.raises(ConfigError, match="--basic-auth user:password"):
        ensure_guarded(address, has_login=False)
