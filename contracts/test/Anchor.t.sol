// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProvenanceLedger} from "../src/IProvenanceLedger.sol";
import {LedgerTest} from "./LedgerTest.sol";
import {Vm} from "./Vm.sol";

/// @dev The fence.
contract AnchorTest is LedgerTest {
    function notNext() private view returns (bytes memory) {
        IProvenanceLedger.StreamHead memory head = ledger.head(stream);
        return abi.encodeWithSelector(IProvenanceLedger.NotNext.selector, head.seq, head.nextOffset, head.acc);
    }

    function test_firstAndSecond() public {
        for (uint64 seq = 1; seq <= 2; ++seq) {
            vm.roll(100 + seq);
            Batch memory b = nextBatch(stream);
            assertTrue(anchor(PUBLISHER, b), "anchored");
            IProvenanceLedger.StreamHead memory head = ledger.head(stream);
            assertEq(head.seq, seq, "seq");
            assertEq(head.nextOffset, 4 * seq, "nextOffset");
            assertEq(head.lastBlock, 100 + seq, "lastBlock");
            assertEq(head.acc, accOf(b), "acc");
            assertEq(ledger.accAt(stream, seq), accOf(b), "accAt");
        }
    }

    function test_eventChainsBlocks() public {
        vm.roll(105);
        anchor(PUBLISHER, nextBatch(stream));
        vm.roll(120);
        Batch memory b = nextBatch(stream);
        vm.recordLogs();
        anchor(PUBLISHER, b);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        assertEq(logs.length, 1, "events");
        assertEq(
            logs[0].topics[0],
            keccak256("Anchored(bytes32,uint64,address,uint64,uint64,uint32,bytes32,bytes32,bytes32,uint64)"),
            "signature"
        );
        assertEq(logs[0].topics[1], stream, "stream");
        assertEq(logs[0].topics[2], bytes32(uint256(2)), "seq");
        assertEq(logs[0].topics[3], bytes32(uint256(uint160(PUBLISHER))), "publisher");
        assertEq(logs[0].data.length, 224, "length");
        assertEq(
            keccak256(logs[0].data),
            keccak256(abi.encode(b.firstOffset, b.nextOffset, b.leafCount, b.root, b.manifestHash, accOf(b), uint64(105))),
            "data"
        );
    }

    function test_firstEventHasNoneBeforeIt() public {
        vm.roll(300);
        vm.recordLogs();
        anchor(PUBLISHER, nextBatch(stream));
        (,,,,,, uint64 prevBlock) =
            abi.decode(vm.getRecordedLogs()[0].data, (uint64, uint64, uint32, bytes32, bytes32, bytes32, uint64));
        assertEq(prevBlock, 0, "prevBlock");
    }

    function testFuzz_repeatIsQuietWhateverBecameOfTheRest(uint256 seq, uint256 state, address by) public {
        Batch[] memory batches = new Batch[](5);
        for (uint256 i = 0; i < 5; ++i) {
            batches[i] = nextBatch(stream);
            anchor(PUBLISHER, batches[i]);
        }
        if (state & 1 != 0) {
            vm.prank(ALICE);
            ledger.closeStream(stream);
        }
        if (state & 2 != 0) {
            vm.prank(ALICE);
            ledger.pauseAnchoring(true);
        }
        if (state & 4 != 0) {
            vm.prank(ALICE);
            ledger.revokeKey(PUBLISHER, 1);
        }
        IProvenanceLedger.StreamHead memory before = ledger.head(stream);
        vm.recordLogs();
        assertFalse(anchor(by, batches[bound(seq, 0, 4)]), "anchored");
        assertEq(vm.getRecordedLogs().length, 0, "events");
        assertEq(keccak256(abi.encode(ledger.head(stream))), keccak256(abi.encode(before)), "head");
    }

    /// @dev Any difference in an anchored batch is a conflict, and the head stays.
    function testFuzz_otherBatchConflicts(uint256 seq, uint256 field, uint256 flip) public {
        Batch[] memory batches = new Batch[](3);
        for (uint256 i = 0; i < 3; ++i) {
            batches[i] = nextBatch(stream);
            anchor(PUBLISHER, batches[i]);
        }
        Batch memory b = batches[bound(seq, 0, 2)];
        bytes32 anchored = accOf(b);
        mutate(b, bound(field, 0, 5), flip);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.Conflict.selector, b.seq, anchored, accOf(b)));
        anchor(PUBLISHER, b);
    }

    function mutate(Batch memory b, uint256 field, uint256 flip) private pure {
        if (field == 0) b.prevAcc ^= bytes32(1 << (flip % 256));
        if (field == 1) b.firstOffset ^= uint64(1 << (flip % 64));
        if (field == 2) b.nextOffset ^= uint64(1 << (flip % 64));
        if (field == 3) b.leafCount ^= uint32(1 << (flip % 32));
        if (field == 4) b.root ^= bytes32(1 << (flip % 256));
        if (field == 5) b.manifestHash ^= bytes32(1 << (flip % 256));
    }

    function testFuzz_fence(uint64 seq, uint64 firstOffset, uint256 flip) public {
        anchorMany(2);
        Batch memory b = nextBatch(stream);
        vm.assume(seq == 0 || seq > 3);
        b.seq = seq;
        vm.expectRevert(notNext());
        anchor(PUBLISHER, b);

        b = nextBatch(stream);
        vm.assume(firstOffset != b.firstOffset);
        b.firstOffset = firstOffset;
        vm.expectRevert(notNext());
        anchor(PUBLISHER, b);

        b = nextBatch(stream);
        b.prevAcc ^= bytes32(1 << (flip % 256));
        vm.expectRevert(notNext());
        anchor(PUBLISHER, b);
    }

    function test_ranges() public {
        Batch memory b = nextBatch(stream);
        b.leafCount = 0;
        expectBadRange(b);
        b = nextBatch(stream);
        b.leafCount = 5;
        expectBadRange(b);
        b = nextBatch(stream);
        b.nextOffset = b.firstOffset;
        expectBadRange(b);
        b = nextBatch(stream);
        b.nextOffset = MAX_OFFSET + 1;
        expectBadRange(b);
        b.nextOffset = MAX_OFFSET;
        assertTrue(anchor(PUBLISHER, b), "up to the limit");
        b = nextBatch(stream);
        b.leafCount = type(uint32).max;
        b.nextOffset = type(uint64).max;
        expectBadRange(b);
    }

    function expectBadRange(Batch memory b) private {
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.BadRange.selector, b.firstOffset, b.nextOffset, b.leafCount));
        anchor(PUBLISHER, b);
    }

    function test_onlyPublishersOfTheOwner() public {
        vm.prank(BOB);
        ledger.setKey(address(0xB2), 2);
        vm.prank(ALICE);
        ledger.setKey(address(0xE), 4);
        address[4] memory others = [ALICE, STRANGER, address(0xB2), address(0xE)];
        for (uint256 i = 0; i < others.length; ++i) {
            Batch memory b = nextBatch(stream);
            vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.NotPublisher.selector, others[i], 1));
            anchor(others[i], b);
        }
    }

    function test_governanceMayPublishIfItSaysSo() public {
        vm.prank(ALICE);
        ledger.setKey(ALICE, 2);
        assertTrue(anchor(ALICE, nextBatch(stream)), "anchored");
    }

    function test_notAfterRevocationPauseOrClosure() public {
        vm.prank(ALICE);
        ledger.pauseAnchoring(true);
        Batch memory b = nextBatch(stream);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.OrganisationIsPaused.selector, 1));
        anchor(PUBLISHER, b);
        vm.prank(ALICE);
        ledger.pauseAnchoring(false);
        assertTrue(anchor(PUBLISHER, b), "after the pause");

        vm.prank(ALICE);
        ledger.closeStream(stream);
        b = nextBatch(stream);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.StreamIsClosed.selector, stream));
        anchor(PUBLISHER, b);

        vm.prank(ALICE);
        ledger.revokeKey(PUBLISHER, 50);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.NotPublisher.selector, PUBLISHER, 1));
        anchor(PUBLISHER, b);
    }

    function test_unknownStream() public {
        Batch memory b = nextBatch(stream);
        b.stream = bytes32(uint256(1));
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.UnknownStream.selector, b.stream));
        anchor(PUBLISHER, b);
    }
}
