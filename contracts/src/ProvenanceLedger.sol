// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProvenanceLedger} from "./IProvenanceLedger.sol";
import {Members} from "./Members.sol";
import {Head, HeadLibrary} from "./lib/Head.sol";
import {Merkle} from "./lib/Merkle.sol";
import {Streams} from "./lib/Streams.sol";

/// @title The ledger contract: streams, and the fence that lets each only grow
/// @notice Described in IProvenanceLedger. No proxy, no owner, no immutables: one runtime code for every deployment of a release.
/// @dev Anchoring writes two slots, a head and a new accumulator, and reads two more, the accumulator before and the sender's key.
contract ProvenanceLedger is IProvenanceLedger, Members {
    mapping(bytes32 stream => Head) private _heads;
    mapping(bytes32 stream => mapping(uint64 seq => bytes32 acc)) private _accs;
    mapping(bytes32 stream => Opening) private _openings;
    mapping(uint8 org => mapping(bytes32 binding => bytes32[])) private _streamsOf;
    bytes32[] private _streams;

    constructor(Founder[] memory founders) Members(founders) {}

    // -------------------------------------------------------------------------------------------------------------- writing

    /// @inheritdoc IProvenanceLedger
    function openStream(bytes32 binding, uint64 startOffset, bytes32 continues, uint8 k, uint184 eligible)
        external
        returns (bytes32 stream)
    {
        uint8 org = _governed();
        if (k != 0 || eligible != 0) revert PolicyUnsupported(k, eligible);
        if (startOffset > Streams.MAX_OFFSET) revert BadOffset(startOffset);
        bytes32[] storage generations = _streamsOf[org][binding];
        uint32 generation = uint32(generations.length);
        if (generation != 0) {
            stream = generations[generation - 1];
            if (!_heads[stream].isClosed()) {
                _requireSameOpening(stream, startOffset, continues);
                return stream;
            }
        }
        ++generation;
        stream = Streams.nameOf(org, generation, startOffset, binding, continues);
        generations.push(stream);
        _streams.push(stream);
        _openings[stream] = Opening(org, generation, startOffset, uint64(block.number), binding, continues);
        _heads[stream] = HeadLibrary.opened(org, startOffset);
        emit StreamOpened(stream, binding, org, generation, startOffset, continues, k, eligible);
    }

    /// @inheritdoc IProvenanceLedger
    function closeStream(bytes32 stream) external {
        uint8 org = _governed();
        Head current = _known(stream);
        if (current.org() != org) revert NotOwner(stream, current.org());
        if (current.isClosed()) return;
        _heads[stream] = current.close();
        emit StreamClosed(stream, org, current.seq(), current.nextOffset(), _accOf(stream, current.seq()));
    }

    /// @inheritdoc IProvenanceLedger
    function anchor(
        bytes32 stream,
        uint64 seq,
        bytes32 prevAcc,
        uint64 firstOffset,
        uint64 nextOffset,
        uint32 leafCount,
        bytes32 root,
        bytes32 manifestHash
    ) external returns (bool) {
        Head current = _known(stream);
        bytes32 acc = Streams.nextAcc(prevAcc, seq, firstOffset, nextOffset, leafCount, root, manifestHash);
        // First of all, so that a repeat is quiet whatever became of key, pause and stream since.
        if (seq != 0 && seq <= current.seq()) {
            bytes32 anchored = _accs[stream][seq];
            if (anchored != acc) revert Conflict(seq, anchored, acc);
            return false;
        }
        _requirePublisher(current.org());
        if (current.isClosed()) revert StreamIsClosed(stream);
        _requireNext(stream, current, seq, prevAcc, firstOffset);
        // No overflow: firstOffset is the head's, and so at most 2^53-1.
        if (leafCount == 0 || nextOffset > Streams.MAX_OFFSET || firstOffset + leafCount > nextOffset) {
            revert BadRange(firstOffset, nextOffset, leafCount);
        }
        _heads[stream] = current.advanced(seq, nextOffset);
        _accs[stream][seq] = acc;
        emit Anchored(stream, seq, msg.sender, firstOffset, nextOffset, leafCount, root, manifestHash, acc, current.lastBlock());
        return true;
    }

    // -------------------------------------------------------------------------------------------------------------- reading

    /// @inheritdoc IProvenanceLedger
    function head(bytes32 stream) external view returns (StreamHead memory) {
        Head current = _heads[stream];
        if (current.org() == 0) return StreamHead(0, 0, 0, 0, false, 0);
        return StreamHead(
            current.seq(),
            current.nextOffset(),
            current.lastBlock(),
            current.org(),
            current.isClosed(),
            _accOf(stream, current.seq())
        );
    }

    /// @inheritdoc IProvenanceLedger
    function accAt(bytes32 stream, uint64 seq) external view returns (bytes32) {
        if (seq > _known(stream).seq()) revert NotAnchored(stream, seq);
        return _accOf(stream, seq);
    }

    /// @inheritdoc IProvenanceLedger
    function opening(bytes32 stream) external view returns (Opening memory) {
        _known(stream);
        return _openings[stream];
    }

    /// @inheritdoc IProvenanceLedger
    function streamCount() external view returns (uint256) {
        return _streams.length;
    }

    /// @inheritdoc IProvenanceLedger
    function streams(uint256 from, uint256 limit) external view returns (bytes32[] memory page) {
        uint256 count = _streams.length;
        uint256 rest = from < count ? count - from : 0;
        page = new bytes32[](limit < rest ? limit : rest);
        for (uint256 i = 0; i < page.length; ++i) {
            page[i] = _streams[from + i];
        }
    }

    /// @inheritdoc IProvenanceLedger
    function streamsOf(uint8 org, bytes32 binding) external view returns (bytes32[] memory) {
        return _streamsOf[org][binding];
    }

    /// @inheritdoc IProvenanceLedger
    function checkInclusion(
        bytes32 stream,
        uint64 seq,
        Witness calldata witness,
        bytes32 leafHash,
        uint64 index,
        bytes32[] calldata path
    ) external view {
        if (seq == 0 || seq > _known(stream).seq()) revert NotAnchored(stream, seq);
        bytes32 offered = Streams.nextAcc(
            _accOf(stream, seq - 1),
            seq,
            witness.firstOffset,
            witness.nextOffset,
            witness.leafCount,
            witness.root,
            witness.manifestHash
        );
        bytes32 anchored = _accs[stream][seq];
        if (offered != anchored) revert BadWitness(seq, anchored, offered);
        bytes32 computed = Merkle.rootFrom(leafHash, index, witness.leafCount, path);
        if (computed != witness.root) revert NotIncluded(witness.root, computed);
    }

    // -------------------------------------------------------------------------------------------------------------- private

    function _known(bytes32 stream) private view returns (Head current) {
        current = _heads[stream];
        if (current.org() == 0) revert UnknownStream(stream);
    }

    /// @dev acc(0) is the stream's name and takes no slot.
    function _accOf(bytes32 stream, uint64 seq) private view returns (bytes32) {
        return seq == 0 ? stream : _accs[stream][seq];
    }

    /// @dev The fence. Without prevAcc, a transaction sent again after a reorganisation could land on another history.
    function _requireNext(bytes32 stream, Head current, uint64 seq, bytes32 prevAcc, uint64 firstOffset) private view {
        bytes32 acc = _accOf(stream, current.seq());
        if (seq != current.seq() + 1 || prevAcc != acc || firstOffset != current.nextOffset()) {
            revert NotNext(current.seq(), current.nextOffset(), acc);
        }
    }

    function _requireSameOpening(bytes32 stream, uint64 startOffset, bytes32 continues) private view {
        Opening storage known = _openings[stream];
        if (known.startOffset != startOffset || known.continues != continues) revert BindingIsOpen(stream);
    }
}
