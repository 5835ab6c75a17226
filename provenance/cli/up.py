"""``provenance up``: start the embedded chain and set it up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from provenance.cli._frame import emit, folder_option, json_option

if TYPE_CHECKING:
    from pathlib import Path

    from provenance.adapters.anvil import NodeInfo
    from provenance.cli._frame import Json
    from provenance.services.chain_setup import SetUp


@click.command()
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    help="Port to listen on.  [default: the last one, or a free one]",
)
@folder_option
@json_option
def command(port: int | None, folder: Path, as_json: bool) -> None:
    """Start the embedded chain.

    It is anvil, on this machine only, with its state kept in the folder; where it is not on the path, npm
    installs it the first time. The ledger contract is deployed and the folder's keys are enrolled, once. It
    runs until provenance down.

    It is for one machine and one organisation: what rests on it rests on this node's word.

    \b
    Example:
      provenance up
      provenance up --port 8600
    """
    from provenance import bootstrap, bootstrap_chain, config
    from provenance.services.batch_files import list_batches

    settings = config.load(folder)
    node = bootstrap_chain.start_chain(settings, port=port)
    setup = bootstrap_chain.set_up_chain(settings)
    lost = bool(node.recovered) or (setup.deployed and bool(list_batches(bootstrap.batch_store(settings))))
    result: dict[str, Json] = {
        "started": node.started,
        "url": node.url,
        "port": node.port,
        "process": node.pid,
        "chain_id": node.chain_id,
        "contract": _contract(setup),
        "deployed": setup.deployed,
        "recovered": node.recovered,
        "lost_blocks": lost,
    }
    emit(result, as_json=as_json, render=lambda: _lines(node, setup, port, lost=lost))


def _contract(setup: SetUp) -> str:
    return f"0x{(setup.identity.contract or b'').hex()}"


def _lines(node: NodeInfo, setup: SetUp, port: int | None, *, lost: bool) -> list[str]:
    state = "runs" if node.started else "is running already"
    lines = [f"chain {node.chain_id} {state} at {node.url} (process {node.pid})"]
    if not node.started and port not in (None, node.port):
        lines += [f"  to use port {port}, stop it first: provenance down"]
    lines += [f"contract {_contract(setup)}: {'deployed now' if setup.deployed else 'there'}"]
    if lost:
        lines += [f"the chain lost blocks: {node.recovered or 'it is new, and there are batch files'}"]
        lines += ["  provenance batch anchors again, from the batch files, what it lost"]
    return lines
