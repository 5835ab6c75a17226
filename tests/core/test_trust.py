"""The trust file: strict, for whatever is misspelt in it may be a safeguard."""

from __future__ import annotations

import pytest

from provenance.core.evidence import BlockEvidence, decode_evidence, encode_evidence
from provenance.core.records import key_id
from provenance.core.trust import MAX_BYTES, Member, Pin, Trust, Validators, decode_trust, encode_trust
from provenance.errors import MalformedError

WHOLE = Trust(
    chain_id=2**256 - 1,
    consensus="qbft",
    contract=bytes(range(20)),
    depth=12,
    code_hash=b"\xaa" * 32,
    members=(Member(1, 'a "quoted" name\n\x7f é 🎙', b"\x01" * 32), Member(1, "second key", b"\x02" * 32)),
    validators=(Validators(0, 2, (b"\x03" * 20, b"\x04" * 20)), Validators(9, 3, (), contract_mode=True)),
    endorsements_needed=2,
    pins=(Pin(7, b"\x05" * 32),),
)
SMALL = '[chain]\nid = 1\nconsensus = "none"\n[contract]\naddress = "%s"\n' % ("ab" * 20)


@pytest.mark.parametrize("trust", [WHOLE, Trust(1, "none", b"c" * 20)])
def test_what_is_written_is_read(trust):
    assert decode_trust(encode_trust(trust)) == trust


def test_the_form_is_that_of_the_specification():
    text = encode_trust(WHOLE)
    for part in ("[chain]", "[contract]", "[[members]]", "[[validators]]", "[endorsement]", "[[pins]]"):
        assert f"{part}\n" in text


def test_what_may_be_left_out():
    trust = decode_trust(SMALL)
    assert trust == Trust(1, "none", b"\xab" * 20)
    assert decode_trust(SMALL.replace("abab", "0xABab", 1)) == trust, "0x and case are Ethereum's habits"


def test_keys_and_members():
    assert WHOLE.keys[key_id(b"\x02" * 32)] == b"\x02" * 32
    assert WHOLE.member_of(key_id(b"\x02" * 32)).name == "second key"
    with pytest.raises(KeyError):
        WHOLE.member_of("")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "trust-keys"),
        ("= 1", "trust-toml"),
        ("a = " + "[" * 5000, "trust-toml"),
        ("a = " + "9" * 5000, "trust-toml"),
        (" " * (MAX_BYTES + 1), "trust-size"),
        ("chain = 1\ncontract = 2", "trust-value"),
        (SMALL + "[chains]\n", "trust-keys"),
        (SMALL + 'code-hash = "00"\n', "trust-keys"),
        (SMALL + 'code_hash = "00"\n', "trust-value"),
        (SMALL + "code_hash = 0\n", "trust-value"),
        (SMALL.replace("id = 1", "id = -1"), "trust-value"),
        (SMALL.replace("id = 1", "id = true"), "trust-value"),
        (SMALL.replace("id = 1", 'id = "1"'), "trust-value"),
        (SMALL.replace("id = 1", "id = %d" % 2**256), "trust-value"),  # noqa: UP031
        (SMALL.replace("id = 1", ""), "trust-keys"),
        (SMALL.replace("none", "raft"), "trust-value"),
        (SMALL.replace('"none"', "[]"), "trust-value"),
        (SMALL.replace("id = 1", "id = 1\ndepth = -1"), "trust-value"),
        (SMALL.replace("abab", "abag", 1), "trust-value"),
        (SMALL.replace("abab", "ab", 1), "trust-value"),
        ("members = 3\n" + SMALL, "trust-value"),
        ("members = [3]\n" + SMALL, "trust-value"),
        (SMALL + "[[members]]\norg = 1\nname = 'x'\n", "trust-keys"),
        (SMALL + f"[[members]]\norg = 0\nname = 'x'\ned25519 = '{'00' * 32}'\n", "trust-value"),
        (SMALL + f"[[members]]\norg = 184\nname = 'x'\ned25519 = '{'00' * 32}'\n", "trust-value"),
        (SMALL + f"[[members]]\norg = 1\nname = ''\ned25519 = '{'00' * 32}'\n", "trust-value"),
        (SMALL + f"[[members]]\norg = 1\nname = 2\ned25519 = '{'00' * 32}'\n", "trust-value"),
        (SMALL + f"[[members]]\norg = 1\nname = 'x'\ned25519 = '{'00' * 31}'\n", "trust-value"),
        (SMALL + "[[validators]]\nfrom = 0\norganisation = 1\naddresses = '00'\n", "trust-value"),
        (SMALL + "[[validators]]\nfrom = 0\norganisation = 1\naddresses = ['00']\n", "trust-value"),
        (
            SMALL + "[[validators]]\nfrom = 0\norganisation = 1\naddresses = []\ncontract_mode = 1\n",
            "trust-value",
        ),
        (SMALL + "[endorsement]\nneed = 200\n", "trust-value"),
        (SMALL + "[endorsement]\nneeded = 1\n", "trust-keys"),
        (SMALL + "[[pins]]\nnumber = 1\nhash = 'zz'\n", "trust-value"),
    ],
)
def test_what_is_refused(text, reason):
    with pytest.raises(MalformedError) as raised:
        decode_trust(text)
    assert (raised.value.reason, raised.value.exit_code) == (reason, 2)


def test_the_key_is_named():
    with pytest.raises(MalformedError, match=r"members\[1\]\.ed25519: expected 64 hex digits"):
        decode_trust(
            SMALL
            + f"[[members]]\norg = 1\nname = 'x'\ned25519 = '{'00' * 32}'\n"
            + "[[members]]\norg = 1\nname = 'x'\ned25519 = 'mistyped'\n"
        )


# ---------------------------------------------------------------------------------------- evidence of a block


EVIDENCE = BlockEvidence(12, b"\x01" * 32, b"\x02" * 32, 3)


def test_evidence_is_read_as_it_was_written():
    assert decode_evidence(encode_evidence(EVIDENCE)) == EVIDENCE


@pytest.mark.parametrize(
    "value", [None, [], {}, {"headers": []}, {**encode_evidence(EVIDENCE), "headers": []}]
)
def test_evidence_of_another_form(value):
    with pytest.raises(MalformedError) as raised:
        decode_evidence(value)
    assert raised.value.remedy.startswith("Verify it with a version")


@pytest.mark.parametrize("key", ["block_number", "block_hash", "transaction", "log_index"])
@pytest.mark.parametrize("value", [None, True, -1, 2**63, "", "0" * 63, "0" * 65, "A" * 64, "g" * 64, b"0"])
def test_evidence_with_another_value(key, value):
    with pytest.raises(MalformedError, match=key):
        decode_evidence({**encode_evidence(EVIDENCE), key: value})
