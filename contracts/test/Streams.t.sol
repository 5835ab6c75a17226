// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProvenanceLedger} from "../src/IProvenanceLedger.sol";
import {LedgerTest} from "./LedgerTest.sol";
import {Vm} from "./Vm.sol";

/// @dev Opening, naming and closing.
contract StreamsTest is LedgerTest {
    function nameOf(uint8 org, uint32 generation, uint64 start, bytes32 binding, bytes32 continues) private view returns (bytes32) {
        return sha256(
            bytes.concat(
                "provenance-ledger:stream:1",
                bytes32(block.chainid),
                bytes20(address(ledger)),
                bytes1(org),
                bytes4(generation),
                bytes8(start),
                binding,
                continues
            )
        );
    }

    function testFuzz_nameCoversEveryField(uint64 id, uint64 start, bytes32 binding, bytes32 continues) public {
        start = uint64(bound(start, 0, MAX_OFFSET));
        vm.assume(binding != BINDING);
        vm.chainId(bound(id, 1, type(uint64).max));
        bytes32 name = open(BOB, binding, start, continues);
        assertEq(name, nameOf(2, 1, start, binding, continues), "name");
        IProvenanceLedger.Opening memory opening = ledger.opening(name);
        assertEq(opening.org, 2, "org");
        assertEq(opening.generation, 1, "generation");
        assertEq(opening.startOffset, start, "start");
        assertEq(opening.openedBlock, 100, "block");
        assertEq(opening.binding, binding, "binding");
        assertEq(opening.continues, continues, "continues");
    }

    function test_openedStream() public view {
        IProvenanceLedger.StreamHead memory head = ledger.head(stream);
        assertEq(head.seq, 0, "seq");
        assertEq(head.acc, stream, "acc(0)");
        assertEq(head.lastBlock, 0, "lastBlock");
        assertEq(head.org, 1, "org");
        assertFalse(head.closed, "closed");
        assertEq(ledger.accAt(stream, 0), stream, "accAt(0)");
        assertEq(ledger.streamCount(), 1, "count");
    }

    function test_openEmitsOneEvent() public {
        vm.recordLogs();
        bytes32 name = open(BOB, BINDING, 7, bytes32(uint256(9)));
        Vm.Log[] memory logs = vm.getRecordedLogs();
        assertEq(logs.length, 1, "events");
        assertEq(
            logs[0].topics[0], keccak256("StreamOpened(bytes32,bytes32,uint8,uint32,uint64,bytes32,uint8,uint184)"), "signature"
        );
        assertEq(logs[0].topics[1], name, "stream");
        assertEq(logs[0].topics[2], BINDING, "binding");
        assertEq(logs[0].topics[3], bytes32(uint256(2)), "org");
        assertEq(keccak256(logs[0].data), keccak256(abi.encode(1, 7, bytes32(uint256(9)), 0, 0)), "data");
    }

    function test_repeatedOpeningIsQuiet() public {
        anchorMany(2);
        vm.recordLogs();
        assertEq(open(ALICE, BINDING, 0, 0), stream, "same stream");
        assertEq(vm.getRecordedLogs().length, 0, "events");
        assertEq(ledger.streamCount(), 1, "count");
    }

    function test_otherOpeningWhileOpenReverts() public {
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.BindingIsOpen.selector, stream));
        open(ALICE, BINDING, 1, 0);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.BindingIsOpen.selector, stream));
        open(ALICE, BINDING, 0, bytes32(uint256(1)));
    }

    function test_generationsAreCountedPerOrganisationAndBinding() public {
        assertEq(ledger.opening(open(BOB, BINDING, 0, 0)).generation, 1, "another organisation's");
        assertEq(ledger.opening(open(ALICE, keccak256("other"), 0, 0)).generation, 1, "another binding's");
        vm.prank(ALICE);
        ledger.closeStream(stream);
        bytes32 second = open(ALICE, BINDING, 0, 0);
        assertEq(second, nameOf(1, 2, 0, BINDING, 0), "second generation");
        bytes32[] memory generations = ledger.streamsOf(1, BINDING);
        assertEq(generations.length, 2, "generations");
        assertEq(generations[0], stream, "first");
        assertEq(generations[1], second, "second");
    }

    function test_pagesOfStreams() public {
        bytes32 second = open(BOB, BINDING, 0, 0);
        assertEq(ledger.streams(0, 10).length, 2, "all");
        assertEq(ledger.streams(1, 1)[0], second, "page");
        assertEq(ledger.streams(2, 1).length, 0, "behind the last");
        assertEq(ledger.streams(type(uint256).max, type(uint256).max).length, 0, "far behind");
        assertEq(ledger.streams(1, type(uint256).max).length, 1, "no overflow");
    }

    function test_openingRefused() public {
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.PolicyUnsupported.selector, 1, 0));
        vm.prank(BOB);
        ledger.openStream(BINDING, 0, 0, 1, 0);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.PolicyUnsupported.selector, 0, 2));
        vm.prank(BOB);
        ledger.openStream(BINDING, 0, 0, 0, 2);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.BadOffset.selector, MAX_OFFSET + 1));
        open(BOB, BINDING, MAX_OFFSET + 1, 0);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.NotGovernance.selector, PUBLISHER));
        open(PUBLISHER, BINDING, 0, 0);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.NotGovernance.selector, STRANGER));
        open(STRANGER, BINDING, 0, 0);
    }

    function test_close() public {
        anchorMany(2);
        bytes32 acc = ledger.accAt(stream, 2);
        vm.recordLogs();
        vm.prank(ALICE);
        ledger.closeStream(stream);
        Vm.Log[] memory logs = vm.getRecordedLogs();
        assertEq(logs.length, 1, "events");
        assertEq(logs[0].topics[0], keccak256("StreamClosed(bytes32,uint8,uint64,uint64,bytes32)"), "signature");
        assertEq(keccak256(logs[0].data), keccak256(abi.encode(2, 8, acc)), "data");
        IProvenanceLedger.StreamHead memory head = ledger.head(stream);
        assertTrue(head.closed, "closed");
        assertEq(head.seq, 2, "seq stays");
        assertEq(head.lastBlock, 102, "lastBlock stays");
        vm.recordLogs();
        vm.prank(ALICE);
        ledger.closeStream(stream);
        assertEq(vm.getRecordedLogs().length, 0, "a repeat is quiet");
    }

    function test_closeRefused() public {
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.NotOwner.selector, stream, 1));
        vm.prank(BOB);
        ledger.closeStream(stream);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.NotGovernance.selector, PUBLISHER));
        vm.prank(PUBLISHER);
        ledger.closeStream(stream);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.UnknownStream.selector, bytes32(uint256(1))));
        vm.prank(ALICE);
        ledger.closeStream(bytes32(uint256(1)));
    }

    function test_unknownStream() public {
        bytes32 none = bytes32(uint256(1));
        assertEq(keccak256(abi.encode(ledger.head(none))), keccak256(new bytes(192)), "head is all zero");
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.UnknownStream.selector, none));
        ledger.accAt(none, 0);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.UnknownStream.selector, none));
        ledger.opening(none);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.NotAnchored.selector, stream, 1));
        ledger.accAt(stream, 1);
    }
}
