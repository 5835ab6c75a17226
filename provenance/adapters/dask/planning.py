"""From handles to a graph: which stages run in one task, which are shared, what the workers are told once.

A stage that one narrow stage alone reads is computed in that one's task (a `Chain`); what several read is a
task of its own, and so is computed once however many sinks there are. A chain is a key of the graph that
all its tasks refer to: its function and arguments go to each worker once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from provenance.adapters.dask.operations import Piece, piece_of
from provenance.adapters.dask.steps import Chain, Step, run_chain, take_records
from provenance.adapters.dask.stored import load_stored
from provenance.core.completeness import is_sink

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence

    from provenance.adapters.dask.emission import Outlet
    from provenance.adapters.dask.handles import Node

__all__ = ["Plan", "ancestors", "plan"]


@dataclass(slots=True)
class Plan:
    """A graph, and the keys of it that are wanted, with what they are: (node, number)."""

    graph: dict[Any, Any] = field(default_factory=dict)
    wanted: dict[str, tuple[Node, int]] = field(default_factory=dict)

    def want_records(self, node: Node) -> None:
        """Ask for the records of a node's partitions, and not for their data; in a replay."""
        for number in range(node.partitions):
            key = f"records-{node.key(number)}"
            self.graph[key] = (take_records, node.key(number))
            self.wanted[key] = (node, number)


def ancestors(targets: Iterable[Node], ready: Container[Node] = ()) -> list[Node]:
    """The targets and what they are made from, parents first; not what lies behind what is ready."""
    ordered: dict[int, Node] = {}
    waiting = [(node, False) for node in reversed(list(targets))]
    while waiting:
        node, seen = waiting.pop()
        if id(node) in ordered:
            continue
        if seen:
            ordered[id(node)] = node
            continue
        waiting.append((node, True))
        if node not in ready:
            waiting += [(parent, False) for parent in reversed(node.parents)]
    return list(ordered.values())


def plan(
    targets: Sequence[Node],
    outlet: Outlet | None,
    *,
    ready: Mapping[Node, Mapping[str, Any]] | None = None,
    stop: bool = False,
) -> Plan:
    """The graph that computes the targets.

    Args:
        targets: the nodes whose partitions are wanted.
        outlet: where records go; with None nothing is emitted, and the records are what is wanted.
        ready: nodes that were computed and kept, with what to put into the graph for them.
        stop: whether a file that cannot be used ends the run.
    """
    ready = ready or {}
    builder = _Builder(outlet, stop, ready)
    nodes = ancestors(targets, ready)
    consumers = Counter(id(parent) for node in nodes if node not in ready for parent in node.parents)
    heads = [node for node in nodes if _is_head(node, nodes, targets, consumers, ready)]
    done = Plan()
    for node in heads:
        if node in ready:
            done.graph.update(ready[node])
        else:
            builder.add(node, done.graph, {id(head) for head in heads})
    if outlet is None:
        for node in heads:
            done.want_records(node)
        return done
    for target in targets:
        done.wanted.update({target.key(number): (target, number) for number in range(target.partitions)})
    return done


def _is_head(
    node: Node,
    nodes: Sequence[Node],
    targets: Sequence[Node],
    consumers: Counter[int],
    ready: Mapping[Node, Any],
) -> bool:
    """Whether the node's partitions are values of the graph; the others exist within a task only."""
    if node in targets or node in ready or node.is_stored or consumers[id(node)] != 1:
        return True
    (child,) = (other for other in nodes if node in other.parents)
    return child.is_wide or len(child.parents) != 1


@dataclass(frozen=True, slots=True)
class _Builder:
    outlet: Outlet | None
    stop: bool
    ready: Mapping[Node, Any]

    def add(self, node: Node, graph: dict[Any, Any], heads: set[int]) -> None:
        """Add the tasks of a head, with the nodes that run in them."""
        if node.is_stored:
            for number in range(node.partitions):
                graph[node.key(number)] = (load_stored, node.payloads[number])
            return
        members = [node]
        while members[0].parents and not members[0].is_wide and id(members[0].parents[0]) not in heads:
            members.insert(0, members[0].parents[0])
        first = members[0]
        chain = Chain(tuple(self._step(member) for member in members), self.outlet)
        chain_key = f"chain-{node.key(0)}"
        graph[chain_key] = chain
        graph.update(first.graph)
        if first.split is not None:
            self._add_pieces(first, graph)
        for number in range(node.partitions):
            payload = first.payloads[number] if first.payloads else None
            if first.raw:
                payload = first.raw[number]
            graph[node.key(number)] = (run_chain, chain_key, number, payload, self._inputs(first, number))

    def _step(self, node: Node) -> Step:
        return Step(
            run=node.stage.run,
            stage=node.record,
            name=node.name,
            operation=node.operation,
            schema=node.schema,
            stop_on_bad_input=self.stop,
            is_sink=is_sink(node.stage),
        )

    def _inputs(self, node: Node, number: int) -> list[str]:
        if node.pieces is None:
            return [parent.key(number) for parent in node.parents]
        (parent,) = node.parents
        return [
            parent.key(piece.number) if piece.value is None else _piece_key(node, number, piece.number)
            for piece in node.pieces[number]
        ]

    def _add_pieces(self, node: Node, graph: dict[Any, Any]) -> None:
        """Each parent partition is cut once, and each piece goes where it is needed and nowhere else."""
        (parent,) = node.parents
        for number, pieces in enumerate(node.pieces or ()):
            for piece in pieces:
                if piece.value is None:
                    continue
                split_key = f"split-{node.key(piece.number)}"
                graph[split_key] = (node.split.split, parent.key(piece.number))
                graph[_piece_key(node, number, piece.number)] = (piece_of, split_key, Piece(piece.value))


def _piece_key(node: Node, number: int, parent_number: int) -> str:
    return f"piece-{node.key(number)}-{parent_number}"
