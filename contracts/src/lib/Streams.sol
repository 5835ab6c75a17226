// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title A stream's name and its accumulator (spec/anchoring.md, "Stream")
library Streams {
    /// @dev The largest offset and seq: what every JSON reader holds exactly.
    uint64 internal constant MAX_OFFSET = 2 ** 53 - 1;

    /// @notice The name of a stream of this contract on this chain: it cannot be taken by another.
    function nameOf(uint8 org, uint32 generation, uint64 startOffset, bytes32 binding, bytes32 continues)
        internal
        view
        returns (bytes32)
    {
        return sha256(
            abi.encodePacked(
                "provenance-ledger:stream:1", block.chainid, address(this), org, generation, startOffset, binding, continues
            )
        );
    }

    /// @notice acc(n), from acc(n-1) and all that batch n says.
    function nextAcc(
        bytes32 prevAcc,
        uint64 seq,
        uint64 firstOffset,
        uint64 nextOffset,
        uint32 leafCount,
        bytes32 root,
        bytes32 manifestHash
    ) internal pure returns (bytes32) {
        return sha256(abi.encodePacked(bytes1(0x02), prevAcc, seq, firstOffset, nextOffset, leafCount, root, manifestHash));
    }
}
