// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProvenanceLedger} from "../src/IProvenanceLedger.sol";
import {LedgerTest} from "./LedgerTest.sol";
import {Vm} from "./Vm.sol";

/// @dev Organisations and their keys.
contract MembersTest is LedgerTest {
    bytes32 private constant RECORD_KEY = keccak256("ed25519");

    function expectOneEvent(bytes memory signature, bytes memory data) private {
        Vm.Log[] memory logs = vm.getRecordedLogs();
        assertEq(logs.length, 1, "events");
        assertEq(logs[0].topics[0], keccak256(signature), "signature");
        assertEq(keccak256(logs[0].data), keccak256(data), "data");
    }

    /// @dev An external call, so that its revert can be expected.
    function deployed(IProvenanceLedger.Founder[] memory founders) external returns (IProvenanceLedger) {
        return deploy(founders);
    }

    function test_founders() public view {
        assertEq(ledger.organisationCount(), 2, "count");
        IProvenanceLedger.Organisation memory bob = ledger.organisation(2);
        assertEq(bob.name, "Bob", "name");
        assertEq(bob.governance, BOB, "governance");
        assertEq(bob.joinedBlock, 100, "block");
        assertEq(ledger.organisation(3).governance, address(0), "no third");
        assertEq(ledger.keyOf(BOB).roles, 1, "roles");
        assertEq(ledger.keysOf(2)[0], BOB, "keys");
    }

    function test_foundersRefused() public {
        IProvenanceLedger.Founder[] memory founders = new IProvenanceLedger.Founder[](0);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.BadFounder.selector, 0));
        this.deployed(founders);
        founders = new IProvenanceLedger.Founder[](184);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.BadFounder.selector, 184));
        this.deployed(founders);
        founders = new IProvenanceLedger.Founder[](2);
        founders[0] = IProvenanceLedger.Founder("A", ALICE);
        founders[1] = IProvenanceLedger.Founder("B", address(0));
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.BadFounder.selector, 1));
        this.deployed(founders);
        founders[1] = IProvenanceLedger.Founder("", BOB);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.BadFounder.selector, 1));
        this.deployed(founders);
        founders[1] = IProvenanceLedger.Founder("B", ALICE);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.KeyBelongsTo.selector, ALICE, 1));
        this.deployed(founders);
    }

    function test_setKey() public {
        vm.recordLogs();
        vm.prank(ALICE);
        ledger.setKey(address(0xE), 4);
        expectOneEvent("KeySet(address,uint8,uint8)", abi.encode(4));
        vm.recordLogs();
        vm.prank(ALICE);
        ledger.setKey(address(0xE), 4);
        assertEq(vm.getRecordedLogs().length, 0, "a repeat is quiet");
        vm.prank(ALICE);
        ledger.setKey(address(0xE), 6);
        assertEq(ledger.keyOf(address(0xE)).roles, 6, "roles");
        assertEq(ledger.keysOf(1).length, 3, "listed once");
    }

    function test_setKeyRefused() public {
        vm.prank(ALICE);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.BadRoles.selector, 1));
        ledger.setKey(STRANGER, 1);
        vm.prank(ALICE);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.BadRoles.selector, 10));
        ledger.setKey(STRANGER, 10);
        vm.prank(ALICE);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.BadRoles.selector, 0));
        ledger.setKey(PUBLISHER, 0);
        vm.prank(BOB);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.KeyBelongsTo.selector, PUBLISHER, 1));
        ledger.setKey(PUBLISHER, 2);
        vm.prank(BOB);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.KeyBelongsTo.selector, ALICE, 1));
        ledger.setKey(ALICE, 2);
        vm.prank(PUBLISHER);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.NotGovernance.selector, PUBLISHER));
        ledger.setKey(STRANGER, 2);
    }

    function test_governanceKeyKeepsItsRole() public {
        vm.prank(ALICE);
        ledger.setKey(ALICE, 6);
        assertEq(ledger.keyOf(ALICE).roles, 7, "all");
        vm.prank(ALICE);
        ledger.setKey(ALICE, 0);
        assertEq(ledger.keyOf(ALICE).roles, 1, "governance alone");
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.GovernanceKey.selector, ALICE));
        vm.prank(ALICE);
        ledger.revokeKey(ALICE, 1);
    }

    function test_revocation() public {
        vm.recordLogs();
        vm.prank(ALICE);
        ledger.revokeKey(PUBLISHER, 90);
        expectOneEvent("KeyRevoked(address,uint8,uint64)", abi.encode(90));
        IProvenanceLedger.Key memory key = ledger.keyOf(PUBLISHER);
        assertTrue(key.revoked, "revoked");
        assertEq(key.org, 1, "belongs for ever");
        assertEq(key.suspectSince, 90, "suspectSince");
        assertEq(ledger.keysOf(1).length, 1, "no longer listed");

        vm.recordLogs();
        vm.prank(ALICE);
        ledger.revokeKey(PUBLISHER, 90);
        assertEq(vm.getRecordedLogs().length, 0, "a repeat is quiet");
        vm.prank(ALICE);
        ledger.revokeKey(PUBLISHER, 80);
        assertEq(ledger.keyOf(PUBLISHER).suspectSince, 80, "earlier");
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.KeyIsRevoked.selector, 80));
        vm.prank(ALICE);
        ledger.revokeKey(PUBLISHER, 81);
    }

    function test_revocationIsForEver() public {
        vm.prank(ALICE);
        ledger.revokeKey(PUBLISHER, 90);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.KeyIsRevoked.selector, 90));
        vm.prank(ALICE);
        ledger.setKey(PUBLISHER, 2);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.KeyBelongsTo.selector, PUBLISHER, 1));
        vm.prank(BOB);
        ledger.setKey(PUBLISHER, 2);
        vm.prank(ALICE);
        ledger.pauseAnchoring(true);
        vm.prank(ALICE);
        ledger.pauseAnchoring(false);
        assertTrue(ledger.keyOf(PUBLISHER).revoked, "a pause does not revive");
    }

    function test_revocationRefused() public {
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.BadBlock.selector, 101, 100));
        vm.prank(ALICE);
        ledger.revokeKey(PUBLISHER, 101);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.UnknownKey.selector, PUBLISHER));
        vm.prank(BOB);
        ledger.revokeKey(PUBLISHER, 1);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.UnknownKey.selector, STRANGER));
        vm.prank(ALICE);
        ledger.revokeKey(STRANGER, 1);
    }

    function test_pauseReachesEveryKey() public {
        vm.recordLogs();
        vm.prank(ALICE);
        ledger.pauseAnchoring(true);
        expectOneEvent("AnchoringPaused(uint8,bool)", abi.encode(true));
        vm.prank(ALICE);
        ledger.setKey(address(0xE), 6);
        address[] memory keys = ledger.keysOf(1);
        for (uint256 i = 0; i < keys.length; ++i) {
            assertTrue(ledger.keyOf(keys[i]).paused, "paused");
        }
        assertTrue(ledger.organisation(1).paused, "organisation");
        assertFalse(ledger.keyOf(BOB).paused, "another's are not");
        vm.recordLogs();
        vm.prank(ALICE);
        ledger.pauseAnchoring(true);
        assertEq(vm.getRecordedLogs().length, 0, "a repeat is quiet");
        vm.prank(ALICE);
        ledger.pauseAnchoring(false);
        for (uint256 i = 0; i < keys.length; ++i) {
            assertFalse(ledger.keyOf(keys[i]).paused, "no longer");
        }
        assertEq(ledger.keyOf(address(0xE)).roles, 6, "roles stay");
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.NotGovernance.selector, PUBLISHER));
        vm.prank(PUBLISHER);
        ledger.pauseAnchoring(true);
    }

    function test_sixtyFourKeysAtOnce() public {
        for (uint160 i = 1; i <= 62; ++i) {
            vm.prank(ALICE);
            ledger.setKey(address(0x10000 + i), 2);
        }
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.TooManyKeys.selector, 64));
        vm.prank(ALICE);
        ledger.setKey(STRANGER, 2);
        vm.prank(ALICE);
        ledger.pauseAnchoring(true);
        vm.prank(ALICE);
        ledger.revokeKey(PUBLISHER, 1);
        vm.prank(ALICE);
        ledger.setKey(STRANGER, 2);
        assertEq(ledger.keysOf(1).length, 64, "a revoked key makes room");
    }

    function test_recordKeys() public {
        vm.recordLogs();
        vm.prank(ALICE);
        ledger.listRecordKey(RECORD_KEY);
        expectOneEvent("RecordKeyListed(uint8,bytes32)", "");
        vm.recordLogs();
        vm.prank(ALICE);
        ledger.listRecordKey(RECORD_KEY);
        assertEq(vm.getRecordedLogs().length, 0, "a repeat is quiet");
        assertEq(ledger.recordKeysOf(1)[0], RECORD_KEY, "listed");
        assertEq(ledger.recordKeyOf(1, RECORD_KEY).listedBlock, 100, "block");
        assertEq(ledger.recordKeyOf(2, RECORD_KEY).listedBlock, 0, "not another's");

        vm.recordLogs();
        vm.prank(ALICE);
        ledger.revokeRecordKey(RECORD_KEY, 99);
        expectOneEvent("RecordKeyRevoked(uint8,bytes32,uint64)", abi.encode(99));
        vm.recordLogs();
        vm.prank(ALICE);
        ledger.revokeRecordKey(RECORD_KEY, 99);
        assertEq(vm.getRecordedLogs().length, 0, "a repeat is quiet");
        IProvenanceLedger.RecordKey memory key = ledger.recordKeyOf(1, RECORD_KEY);
        assertTrue(key.revoked, "revoked");
        assertEq(key.suspectSince, 99, "suspectSince");
        assertEq(ledger.recordKeysOf(1).length, 0, "no longer listed");
    }

    function test_recordKeysRefused() public {
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.UnknownRecordKey.selector, RECORD_KEY));
        vm.prank(ALICE);
        ledger.revokeRecordKey(RECORD_KEY, 1);
        vm.prank(ALICE);
        ledger.listRecordKey(RECORD_KEY);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.BadBlock.selector, 101, 100));
        vm.prank(ALICE);
        ledger.revokeRecordKey(RECORD_KEY, 101);
        vm.prank(ALICE);
        ledger.revokeRecordKey(RECORD_KEY, 50);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.KeyIsRevoked.selector, 50));
        vm.prank(ALICE);
        ledger.listRecordKey(RECORD_KEY);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.NotGovernance.selector, PUBLISHER));
        vm.prank(PUBLISHER);
        ledger.listRecordKey(RECORD_KEY);
        for (uint256 i = 0; i < 64; ++i) {
            vm.prank(BOB);
            ledger.listRecordKey(bytes32(i));
        }
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.TooManyKeys.selector, 64));
        vm.prank(BOB);
        ledger.listRecordKey(RECORD_KEY);
    }
}
