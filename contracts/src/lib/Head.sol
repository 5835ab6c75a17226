// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @dev A stream's head in one slot: seq (bits 0 to 63), nextOffset (64 to 127), lastBlock (128 to 191), org (192 to 199),
/// closed (200). 0 is no stream, for organisations are numbered from 1.
type Head is uint256;

using HeadLibrary for Head global;

/// @title Reading and making heads
library HeadLibrary {
    uint256 private constant CLOSED = 1 << 200;

    /// @notice The head of a stream that was opened just now: nothing is anchored, so there is no last block.
    function opened(uint8 org_, uint64 startOffset) internal pure returns (Head) {
        return _pack(0, startOffset, 0, org_);
    }

    /// @notice The head after a batch that was anchored just now.
    function advanced(Head head, uint64 seq_, uint64 nextOffset_) internal view returns (Head) {
        return _pack(seq_, nextOffset_, uint64(block.number), head.org());
    }

    /// @notice The same head, closed.
    function close(Head head) internal pure returns (Head) {
        return Head.wrap(Head.unwrap(head) | CLOSED);
    }

    function seq(Head head) internal pure returns (uint64) {
        return uint64(Head.unwrap(head));
    }

    function nextOffset(Head head) internal pure returns (uint64) {
        return uint64(Head.unwrap(head) >> 64);
    }

    function lastBlock(Head head) internal pure returns (uint64) {
        return uint64(Head.unwrap(head) >> 128);
    }

    function org(Head head) internal pure returns (uint8) {
        return uint8(Head.unwrap(head) >> 192);
    }

    function isClosed(Head head) internal pure returns (bool) {
        return Head.unwrap(head) & CLOSED != 0;
    }

    function _pack(uint64 seq_, uint64 nextOffset_, uint64 lastBlock_, uint8 org_) private pure returns (Head) {
        return Head.wrap(uint256(seq_) | uint256(nextOffset_) << 64 | uint256(lastBlock_) << 128 | uint256(org_) << 192);
    }
}
