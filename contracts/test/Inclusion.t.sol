// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProvenanceLedger} from "../src/IProvenanceLedger.sol";
import {LedgerTest} from "./LedgerTest.sol";

/// @dev Inclusion against a slow reference: RFC 6962, section 2.1, word for word.
contract InclusionTest is LedgerTest {
    function leaf(uint256 i) private pure returns (bytes32) {
        return sha256(bytes.concat(hex"00", bytes32(i)));
    }

    function split(uint256 n) private pure returns (uint256 k) {
        k = 1;
        while (k * 2 < n) k *= 2;
    }

    /// @dev The tree head of the n leaves from `start` on.
    function treeHead(uint256 start, uint256 n) private pure returns (bytes32) {
        if (n == 1) return leaf(start);
        uint256 k = split(n);
        return sha256(bytes.concat(hex"01", treeHead(start, k), treeHead(start + k, n - k)));
    }

    /// @dev PATH(m, D[n]) of the leaves from `start` on.
    function treePath(uint256 m, uint256 start, uint256 n) private pure returns (bytes32[] memory path) {
        if (n == 1) return path;
        uint256 k = split(n);
        bytes32[] memory below = m < k ? treePath(m, start, k) : treePath(m - k, start + k, n - k);
        path = new bytes32[](below.length + 1);
        for (uint256 i = 0; i < below.length; ++i) {
            path[i] = below[i];
        }
        path[below.length] = m < k ? treeHead(start + k, n - k) : treeHead(start, k);
    }

    function anchorTree(uint256 size) private returns (IProvenanceLedger.Witness memory) {
        Batch memory b = nextBatch(stream);
        b.leafCount = uint32(size);
        b.nextOffset = b.firstOffset + uint64(size);
        b.root = treeHead(0, size);
        anchor(PUBLISHER, b);
        return IProvenanceLedger.Witness(b.firstOffset, b.nextOffset, b.leafCount, b.root, b.manifestHash);
    }

    function testFuzz_everyLeaf(uint256 size, uint256 index) public {
        anchorMany(1);
        size = bound(size, 1, 100);
        index = bound(index, 0, size - 1);
        IProvenanceLedger.Witness memory witness = anchorTree(size);
        ledger.checkInclusion(stream, 2, witness, leaf(index), uint64(index), treePath(index, 0, size));
    }

    function testFuzz_changedByte(uint256 size, uint256 index, uint256 where, uint256 flip) public {
        size = bound(size, 1, 40);
        index = bound(index, 0, size - 1);
        IProvenanceLedger.Witness memory witness = anchorTree(size);
        bytes32[] memory path = treePath(index, 0, size);
        bytes32 leafHash = leaf(index);
        where = bound(where, 0, path.length);
        if (where == path.length) leafHash ^= bytes32(1 << (flip % 256));
        else path[where] ^= bytes32(1 << (flip % 256));
        assertFails(IProvenanceLedger.NotIncluded.selector, witness, leafHash, index, path);
    }

    function testFuzz_otherIndex(uint256 size, uint256 index, uint64 other) public {
        size = bound(size, 1, 40);
        index = bound(index, 0, size - 1);
        vm.assume(other != index);
        IProvenanceLedger.Witness memory witness = anchorTree(size);
        assertFails(bytes4(0), witness, leaf(index), other, treePath(index, 0, size));
        if (other >= size) {
            assertFails(IProvenanceLedger.BadPath.selector, witness, leaf(index), other, treePath(index, 0, size));
        }
    }

    function testFuzz_otherLength(uint256 size, uint256 index, uint256 length) public {
        size = bound(size, 1, 40);
        index = bound(index, 0, size - 1);
        bytes32[] memory path = treePath(index, 0, size);
        length = bound(length, 0, 9);
        vm.assume(length != path.length);
        bytes32[] memory other = new bytes32[](length);
        for (uint256 i = 0; i < length && i < path.length; ++i) {
            other[i] = path[i];
        }
        assertFails(IProvenanceLedger.BadPath.selector, anchorTree(size), leaf(index), index, other);
    }

    function testFuzz_otherWitness(uint256 field, uint256 flip) public {
        IProvenanceLedger.Witness memory w = anchorTree(5);
        field = bound(field, 0, 4);
        if (field == 0) w.firstOffset ^= uint64(1 << (flip % 64));
        if (field == 1) w.nextOffset ^= uint64(1 << (flip % 64));
        if (field == 2) w.leafCount ^= uint32(1 << (flip % 32));
        if (field == 3) w.root ^= bytes32(1 << (flip % 256));
        if (field == 4) w.manifestHash ^= bytes32(1 << (flip % 256));
        assertFails(IProvenanceLedger.BadWitness.selector, w, leaf(0), 0, treePath(0, 0, 5));
    }

    function test_nothingAnchored() public {
        IProvenanceLedger.Witness memory witness = anchorTree(1);
        bytes32 only = leaf(0);
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.NotAnchored.selector, stream, 0));
        ledger.checkInclusion(stream, 0, witness, only, 0, new bytes32[](0));
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.NotAnchored.selector, stream, 2));
        ledger.checkInclusion(stream, 2, witness, only, 0, new bytes32[](0));
        vm.expectRevert(abi.encodeWithSelector(IProvenanceLedger.UnknownStream.selector, bytes32(0)));
        ledger.checkInclusion(0, 1, witness, only, 0, new bytes32[](0));
    }

    /// @dev What checking a path of so many levels costs, all turns to one side.
    function gasOf(uint256 levels, bool last) private returns (uint256 used) {
        bytes32[] memory path = new bytes32[](levels);
        bytes32 node = leaf(0);
        for (uint256 i = 0; i < levels; ++i) {
            path[i] = leaf(i + 1);
            node = sha256(last ? bytes.concat(hex"01", path[i], node) : bytes.concat(hex"01", node, path[i]));
        }
        Batch memory b = nextBatch(stream);
        b.leafCount = uint32(1 << levels);
        b.nextOffset = b.firstOffset + b.leafCount;
        b.root = node;
        anchor(PUBLISHER, b);
        IProvenanceLedger.Witness memory witness =
            IProvenanceLedger.Witness(b.firstOffset, b.nextOffset, b.leafCount, b.root, b.manifestHash);
        bytes memory data =
            abi.encodeCall(IProvenanceLedger.checkInclusion, (stream, b.seq, witness, leaf(0), last ? b.leafCount - 1 : 0, path));
        (address to, bool ok) = (address(ledger), true);
        assembly ("memory-safe") {
            used := gas()
            ok := staticcall(gas(), to, add(data, 0x20), mload(data), 0, 0)
            used := sub(used, gas())
        }
        assertTrue(ok, "included");
    }

    function test_gasOfALevel() public {
        for (uint256 side = 0; side < 2; ++side) {
            uint256 shorter = gasOf(10, side == 1);
            assertEq((gasOf(20, side == 1) - shorter) / 10, 439 + side, "gas of each level");
        }
    }

    /// @dev The check fails with this error; with any, if the selector is 0.
    function assertFails(
        bytes4 selector,
        IProvenanceLedger.Witness memory witness,
        bytes32 leafHash,
        uint256 index,
        bytes32[] memory path
    ) private view {
        try ledger.checkInclusion(stream, 1, witness, leafHash, uint64(index), path) {
            assertTrue(false, "accepted");
        } catch (bytes memory reason) {
            assertTrue(selector == 0 || bytes4(reason) == selector, "reason");
        }
    }
}
