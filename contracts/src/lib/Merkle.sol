// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProvenanceLedger} from "../IProvenanceLedger.sol";

/// @title Inclusion in an RFC 6962 tree (RFC 9162, section 2.1.3.2)
library Merkle {
    /// @notice The root that a path leads to, from a leaf at `index` in a tree of `size` leaves.
    /// @dev Reverts unless the index lies in the tree and the path is exactly as long as index and size give.
    function rootFrom(bytes32 leafHash, uint256 index, uint256 size, bytes32[] calldata path) internal view returns (bytes32 node) {
        if (index >= size) revert IProvenanceLedger.BadPath(index, size, path.length);
        // Number of the node on its level, and of the level's last node.
        uint256 number = index;
        uint256 last = size - 1;
        node = leafHash;
        for (uint256 i = 0; i < path.length; ++i) {
            if (last == 0) revert IProvenanceLedger.BadPath(index, size, path.length);
            if (number & 1 == 1 || number == last) {
                node = _hash(path[i], node);
                // A last node without a right sibling rises through the levels that have none for it.
                while (number & 1 == 0 && number != 0) {
                    number >>= 1;
                    last >>= 1;
                }
            } else {
                node = _hash(node, path[i]);
            }
            number >>= 1;
            last >>= 1;
        }
        if (last != 0) revert IProvenanceLedger.BadPath(index, size, path.length);
    }

    /// @dev SHA-256(0x01 || left || right) by the precompile at address 2. The 65 bytes are laid behind the free memory pointer, which
    /// stays: the next call overwrites them. The answer lands in scratch space. The precompile fails only without gas.
    function _hash(bytes32 left, bytes32 right) private view returns (bytes32 node) {
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore8(data, 0x01)
            mstore(add(data, 0x01), left)
            mstore(add(data, 0x21), right)
            if iszero(staticcall(gas(), 0x02, data, 0x41, 0x00, 0x20)) { revert(0x00, 0x00) }
            node := mload(0x00)
        }
    }
}
