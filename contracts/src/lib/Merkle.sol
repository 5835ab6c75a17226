// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProvenanceLedger} from "../IProvenanceLedger.sol";

/// @title Inclusion in an RFC 6962 tree (RFC 9162, section 2.1.3.2)
library Merkle {
    /// @notice The root that a path leads to, from a leaf at `index` in a tree of `size` leaves.
    /// @dev Reverts unless the index lies in the tree and the path is exactly as long as index and size give.
    ///
    /// In assembly, for this is all that a level costs: place is the number of the node on its level, last the level's last. A node is
    /// SHA-256(0x01 || left || right) by the precompile at address 2; the 65 bytes are laid behind the free memory pointer, which
    /// stays, and the answer lands in scratch space.
    function rootFrom(bytes32 leafHash, uint256 index, uint256 size, bytes32[] calldata path) internal view returns (bytes32 node) {
        if (index >= size) revert IProvenanceLedger.BadPath(index, size, path.length);
        uint256 last = size - 1;
        bool tooLong;
        node = leafHash;
        assembly ("memory-safe") {
            let place := index
            let data := mload(0x40)
            let left := add(data, 0x01)
            let right := add(data, 0x21)
            mstore8(data, 0x01)
            let end := add(path.offset, shl(5, path.length))
            for { let item := path.offset } lt(item, end) { item := add(item, 0x20) } {
                if iszero(last) {
                    tooLong := 1
                    break
                }
                switch or(and(place, 1), eq(place, last))
                case 0 {
                    mstore(left, node)
                    mstore(right, calldataload(item))
                }
                default {
                    mstore(left, calldataload(item))
                    mstore(right, node)
                    // A last node that is a left one has no sibling: it rises to the level where it is a right one.
                    for {} iszero(or(and(place, 1), iszero(place))) {} {
                        place := shr(1, place)
                        last := shr(1, last)
                    }
                }
                // Fails only without gas.
                if iszero(staticcall(gas(), 0x02, data, 0x41, 0x00, 0x20)) { revert(0x00, 0x00) }
                node := mload(0x00)
                place := shr(1, place)
                last := shr(1, last)
            }
        }
        if (tooLong || last != 0) revert IProvenanceLedger.BadPath(index, size, path.length);
    }
}
