"""The report: its figures, its words, and what must never stand in it."""

from __future__ import annotations

import datetime as dt
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from provenance.adapters.report_html import render
from provenance.adapters.report_html.drawing import HEIGHT, WIDTH, draw
from provenance.core.descriptor import decode_descriptor
from provenance.core.evidence import Evidence
from provenance.core.kinds import Run
from provenance.core.lists import ListHead, encode_list, list_name
from provenance.core.records import Subject
from provenance.core.runs import encode_environment, environment_name
from provenance.errors import ConfigError
from provenance.services.report import build_report
from tests.services.audit_world import COUNT, World
from tests.services.test_audit_replay import FakeReplayer, other_value

NOW = dt.datetime(2026, 2, 1, 12, 0, tzinfo=dt.UTC)
TITLE = "Voices <script>alert(1)</script> & others"
DESCRIPTOR = f"""
name = "voices"
version = "1"
title = "{TITLE}"
licence = "CC-BY-SA-3.0"
names_are_personal = true
description = "Read aloud."
[[rights_holders]]
name = "Example Ltd"
role = "producer"
address = "https://example.org"
[[sources]]
title = "Studio"
collection = "read from a script"
collected_from = 2020-01-01
collected_until = 2020-12-31
opt_outs = "none seen"
[[consent]]
document = "{"cd" * 32}"
scope = "recordings"
purpose = "training"
territory = "EU"
expires = 2035-12-31
""".encode()
EMPTY = {"sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    descriptor = decode_descriptor(DESCRIPTOR)
    world.dataset = descriptor.dataset()
    world.store.put(f"datasets/{descriptor.sha256.hex()}.toml", DESCRIPTOR)
    environment, data = encode_environment(
        {"python": {"version": "3.11"}, "threads": 2, "packages": ["a", "b"]}
    )
    world.environments = ListHead.over([environment])
    world.store.put(list_name(world.environments), encode_list([environment]))
    world.store.put(environment_name(environment), data)
    original = world.sign

    def sign(thing, signer=None):
        if isinstance(thing, Run):
            thing = replace(thing, environments=world.environments, seeds={"order": 7})
        return original(thing, signer)

    world.sign = sign
    world.start()
    world.compute()
    token = world.raw[1].subjects[0].name
    marked = Subject(f"{token}#rejected:too-short", EMPTY)
    world.feature[1] = replace(world.feature[1], subjects=(marked,))
    used = replace(
        world.stored[1].inputs[0], record=world.id_of(world.feature[1]), name=marked.name, digest=EMPTY
    )
    world.stored[1] = replace(world.stored[1], inputs=(used,), subjects=(), rows=0, rejected="too-short")
    world.emit()
    world.seal()
    world.train()
    shards = [world.id_of(one) for one in world.stored]
    world.store.put(list_name(ListHead.over(shards)), encode_list(shards))
    world.anchor()
    return world


def report_of(world, run=None, *, level="data", **changes):
    return build_report(world.ports(**changes), run, level=level, now=NOW, version="0.1.0")


def test_figures_and_what_they_rest_on(world):
    report = report_of(world)
    figures = {figure.label: figure for figure in report.figures}
    assert figures["stored partitions"].value == str(COUNT)
    assert figures["rejected files"].value == "1"
    assert figures["raw files read again"].evidence is Evidence.COMPUTED
    assert {figure.evidence for figure in report.figures} == {Evidence.NODES_WORD, Evidence.COMPUTED}
    assert not any("read again" in figure.label for figure in report_of(world, level="chain").figures)


def test_a_rejected_file_stands_once_at_its_first_stage(world):
    token = world.raw[1].subjects[0].name
    assert report_of(world).rejections == ((token, "feature", "too-short"),)


def test_what_is_asserted(world):
    report = report_of(world)
    (dataset,) = report.datasets
    assert dataset.descriptor.title == TITLE
    assert dataset.signer == next(iter(world.keys))
    (environment,) = report.environments
    assert dict(environment.facts) == {"python version": "3.11", "threads": "2", "packages": "a, b"}
    (training,) = report.trainings
    assert (training.stage, training.shards_hold) == ("store", True)
    assert report.run.anchors[-1].block


def test_what_the_batch_store_lost_is_not_made_up(world):
    lists = [
        name for name in world.store.objects if name.startswith(("lists/", "environments/", "datasets/"))
    ]
    for name in lists:
        world.store.objects[name] = b"other"
    report = report_of(world)
    assert (report.datasets[0].descriptor, report.environments) == (None, ())
    assert report.trainings[0].shards_hold is None
    assert "descriptor file itself is not" in render(report)
    for name in lists:
        del world.store.objects[name]
    assert report_of(world).datasets[0].descriptor is None


def test_a_training_on_shards_that_are_none(world):
    eaten = [bytes(32)]
    head = ListHead.over(eaten)
    world.store.put(list_name(head), encode_list(eaten))
    original = world.sign
    world.sign = lambda thing, signer=None: original(replace(thing, shards=head), signer)
    world.train()
    world.anchor()
    report = report_of(world)
    assert [training.shards_hold for training in report.trainings] == [True, False]
    assert "not all are counted ones" in render(report)


def test_a_run_that_is_not_there(world, tmp_path):
    with pytest.raises(ConfigError, match="expected 4 to 64 hex digits"):
        report_of(world, "no")
    empty = World(tmp_path / "empty")
    empty.start()
    empty.anchor()
    with pytest.raises(ConfigError) as raised:
        report_of(empty)
    assert raised.value.reason == "no-sealed-run"


# --------------------------------------------------------------------------------------------------- the page


class Page(HTMLParser):
    """Counts what a page opens, and refuses what is not closed."""

    VOID = frozenset({"meta", "rect", "path", "br"})

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_loads_nothing_and_runs_nothing(world):
    text = render(report_of(world))
    page = Page(text)
    assert not {"script", "link", "img", "iframe", "object", "form"} & set(page.tags)
    assert not {"src", "href", "onload", "onclick"} & {name for name, _ in page.attributes}
    assert "url(" not in re.sub(r'marker-end="url\(#head\)"', "", text)
    assert "@import" not in text
    assert "default-src 'none'" in text


def test_what_comes_from_outside_is_escaped(world):
    text = render(report_of(world))
    assert "alert(1)" in text
    assert "<script" not in text


def test_names_are_tokens(world):
    (world.folder / "raw/speaker 0/2.wav").write_bytes(b"changed")
    (world.folder / "store/p00003/mel/c/0").write_bytes(b"changed")
    text = render(report_of(world))
    assert "raw-changed" in text
    assert world.raw[2].subjects[0].name in text
    for plain in ("speaker", ".wav", str(world.folder)):
        assert plain not in text.replace("speakers", "")


def test_every_part_is_on_the_page(world):
    text = render(report_of(world))
    for part in (
        "The audit passed",
        "on a node&#39;s word",
        "Example Ltd",
        "Studio",
        "read from a script",
        "2035-12-31",
        "order = 7",
        "too-short",
        "61,472",
        world.run_id.hex(),
        world.run.name,
        "7 of stage store",
        "all are counted ones of this run",
        "2026-02-01 12:00:00 UTC",
        "asserted",
        "sampled",
    ):
        assert part in text, part
    assert text.count("proved</span>") == 1, "in the legend, and nowhere else"


@pytest.mark.parametrize(
    ("damage", "headline"),
    [
        (lambda world: world.flip(world.batch_names()[1], -20), "The audit failed"),
        (lambda world: world.train(), "Anchors are pending"),
        (lambda world: world.names._plain.clear(), "Not all could be reached"),
    ],
)
def test_headlines(world, damage, headline):
    damage(world)
    assert headline in render(report_of(world))


def test_findings_and_verdicts(world):
    world.flip(world.batch_names()[1], -20)
    replayer = FakeReplayer(world, changes={("feature", 2): other_value})
    text = render(report_of(world, level="replay", replayer=replayer))
    for part in ("batch-changed", "replay-failed", "seq 2", "offset 9", "bit-exact", "failed"):
        assert part in text, part
    Page(text)


def test_a_run_without_its_record_and_seal(world):
    world.run_id = world.sign(replace(world.run, nonce=b"x" * 16))
    keys = dict(world.keys)
    world.anchor()
    text = render(report_of(world, world.run_id.hex(), level="chain", keys=keys))
    assert "not complete" in text
    assert "not sealed" in text
    Page(text)


def test_very_much_is_counted(world, monkeypatch):
    monkeypatch.setattr("provenance.services.audit.runs._NAMED", 0)
    monkeypatch.setattr("provenance.services.audit.findings._MOST_OF_A_KIND", 1)
    for number in (2, 4):
        (world.folder / f"raw/speaker 0/{number}.wav").write_bytes(b"changed")
    report = report_of(world)
    assert [one.value for one in report.figures if one.label == "rejected files, or more"] == ["0"]
    assert "1 more of <code>raw-changed</code>" in render(report)


def test_without_jinja2_the_extra_is_named(world, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ConfigError) as raised:
        render(report_of(world))
    assert raised.value.remedy == "Install provenance-ledger[report]."


# ------------------------------------------------------------------------------------------------ the drawing


class Drawn:
    def __init__(self, name, *parents, is_sink=False):
        self.id = self.name = name
        self.parents, self.is_sink = parents, is_sink


def places(drawing):
    return {box.stage.name: (box.x, box.y) for box in drawing.boxes}


def test_a_stage_stands_below_all_its_parents():
    drawing = draw(
        [Drawn("d", "b", "c"), Drawn("c", "b"), Drawn("b", "a"), Drawn("a"), Drawn("e", "a", is_sink=True)]
    )
    at = places(drawing)
    assert at["a"][1] < at["b"][1] < at["c"][1] < at["d"][1]
    assert at["b"][1] == at["e"][1]
    assert len(drawing.edges) == 5
    assert {box.kind for box in drawing.boxes} == {"source", "stage", "sink"}
    for box in drawing.boxes:
        assert 0 <= box.x <= drawing.width - WIDTH
        assert 0 <= box.y <= drawing.height - HEIGHT


def test_no_two_boxes_lie_on_one_another():
    drawing = draw([Drawn("a"), *(Drawn(f"b{n}", "a") for n in range(5)), Drawn("c", "b0", "b4")])
    assert len(set(places(drawing).values())) == 7


def test_odd_drawings():
    assert draw([]).boxes == ()
    (box,) = draw([Drawn("a" * 60, "of another run")]).boxes
    assert box.label.endswith("…")
    ring = draw([Drawn("a", "b"), Drawn("b", "a")])
    assert len(ring.boxes) == 2, "no hash allows it, and it ends all the same"
