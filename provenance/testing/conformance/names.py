"""What every `PrivateNames` does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from provenance.core.tokens import SECRET_BYTES, key_token, name_token
from provenance.errors import MalformedError
from provenance.ports import PrivateNames

__all__ = ["PrivateNamesConformance"]

Open: TypeAlias = Callable[[], PrivateNames]


class PrivateNamesConformance:
    """Fill in ``open_names``."""

    @pytest.fixture
    def open_names(self) -> Open:
        raise NotImplementedError

    def test_the_secret_is_of_its_length_and_stays(self, open_names: Open) -> None:
        names = open_names()
        assert len(names.secret()) == SECRET_BYTES
        assert open_names().secret() == names.secret()

    def test_an_unknown_token_has_no_plain_value(self, open_names: Open) -> None:
        assert open_names().plain("ab" * 32) is None

    @pytest.mark.parametrize(
        "plain", ["", "Zoë", "a b'\"\n", "日本", "/srv/data/x.wav", "bad \udcff bytes", "é" * 2000]
    )
    def test_plain_values_come_back_as_they_came(self, open_names: Open, plain: str) -> None:
        open_names().remember([("name", "ab" * 32, plain), ("location", "cd" * 32, "/elsewhere")])
        assert open_names().plain("ab" * 32) == plain

    def test_tokens_of_keys_and_names_lead_back(self, open_names: Open) -> None:
        names = open_names()
        secret = names.secret()
        names.remember(
            [("key", key_token(secret, "Ann"), "Ann"), ("name", name_token(secret, "Ann"), "Ann.wav")]
        )
        assert names.plain(key_token(secret, "Ann")) == "Ann"
        assert names.plain(name_token(secret, "Ann")) == "Ann.wav"
        assert names.plain(key_token(secret, "Bob")) is None

    def test_a_token_remembered_again_has_the_new_value(self, open_names: Open) -> None:
        names = open_names()
        names.remember([("location", "ab" * 32, "/old"), ("location", "cd" * 32, "/other")])
        names.remember([("location", "ab" * 32, "/new")])
        assert (names.plain("ab" * 32), names.plain("cd" * 32)) == ("/new", "/other")

    def test_nothing_may_be_remembered(self, open_names: Open) -> None:
        open_names().remember([])

    @pytest.mark.parametrize(
        ("domain", "token"), [("", "ab" * 32), ("speaker", "ab" * 32), ("key", ""), ("key", "ab" * 31)]
    )
    def test_what_is_no_domain_or_token_is_refused_with_all_of_its_call(
        self, open_names: Open, domain: str, token: str
    ) -> None:
        names = open_names()
        with pytest.raises(MalformedError):
            names.remember([("key", "cd" * 32, "before"), (domain, token, "plain")])
        assert names.plain("cd" * 32) is None

    def test_it_does_not_show_what_it_holds(self, open_names: Open) -> None:
        names = open_names()
        names.remember([("key", "ab" * 32, "Ann Example")])
        assert "Ann" not in repr(names)
        assert repr(names.secret()) not in repr(names)
        assert names.secret().hex() not in repr(names)
