// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProvenanceLedger} from "../src/IProvenanceLedger.sol";
import {LedgerFixture} from "./LedgerTest.sol";

/// @dev Any sequence of honest, repeated, forged, paused, revoked and closing calls, against a model that only ever appends.
contract Handler is LedgerFixture {
    bytes32[] private _accs;
    Batch[] private _batches;
    bool private _closed;
    bool private _paused;

    constructor() {
        prepare();
        _accs.push(stream);
    }

    function honest(uint256 leaves, uint256 span) external {
        Batch memory b = nextBatch(stream);
        b.leafCount = uint32(bound(leaves, 1, 1000));
        b.nextOffset = b.firstOffset + b.leafCount + uint64(bound(span, 0, 1000));
        _try(PUBLISHER, b);
    }

    function repeated(uint256 which, address by) external {
        if (_batches.length != 0) _try(by, _batches[which % _batches.length]);
    }

    function forged(uint256 which, address by, uint64 seq, uint64 firstOffset, bytes32 prevAcc, bytes32 root) external {
        Batch memory b = nextBatch(stream);
        if (which & 1 != 0) b.seq = seq;
        if (which & 2 != 0) b.firstOffset = firstOffset;
        if (which & 4 != 0) b.prevAcc = prevAcc;
        if (which & 8 != 0) b.root = root;
        _try(which & 16 != 0 ? by : PUBLISHER, b);
    }

    function pause(bool paused) external {
        vm.prank(ALICE);
        ledger.pauseAnchoring(paused);
        _paused = paused;
    }

    function close(uint256 dice) external {
        if (dice % 16 != 0) return;
        vm.prank(ALICE);
        ledger.closeStream(stream);
        _closed = true;
    }

    function time(uint8 blocks) external {
        height += blocks;
        vm.roll(height);
    }

    /// @dev Sends a batch; whatever is accepted must be what the model would append.
    function _try(address by, Batch memory b) private {
        vm.prank(by);
        try ledger.anchor(b.stream, b.seq, b.prevAcc, b.firstOffset, b.nextOffset, b.leafCount, b.root, b.manifestHash) returns (
            bool anchored
        ) {
            if (!anchored) {
                assertEq(_accs[b.seq], accOf(b), "a quiet repeat is of what stands there");
                return;
            }
            assertTrue(by == PUBLISHER && !_closed && !_paused, "accepted in spite of key, closure or pause");
            assertEq(b.seq, _accs.length, "seq");
            assertEq(b.prevAcc, _accs[_accs.length - 1], "prevAcc");
            assertEq(b.firstOffset, nextOffset(), "firstOffset");
            _accs.push(accOf(b));
            _batches.push(b);
        } catch {}
    }

    function nextOffset() public view returns (uint64) {
        return _batches.length == 0 ? 0 : _batches[_batches.length - 1].nextOffset;
    }

    function checkAll() external view {
        IProvenanceLedger.StreamHead memory head = ledger.head(stream);
        assertEq(head.seq, _batches.length, "seq of the head");
        assertEq(head.nextOffset, nextOffset(), "nextOffset of the head");
        assertTrue(head.closed == _closed, "closed");
        for (uint64 seq = 0; seq < _accs.length; ++seq) {
            assertEq(ledger.accAt(stream, seq), _accs[seq], "an accumulator changed");
        }
    }
}

contract InvariantsTest is LedgerFixture {
    Handler private _handler;

    function setUp() external {
        _handler = new Handler();
    }

    function targetContracts() external view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(_handler);
    }

    function invariant_theLedgerOnlyAppends() external view {
        _handler.checkAll();
    }
}
