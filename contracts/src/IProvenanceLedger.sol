// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @title The ledger that several organisations keep together: one Merkle root per batch of records
/// @notice An organisation opens a stream for each partition of its event log and anchors the log's batches in it, without a gap.
/// The contract is the fence: it accepts a batch only if it continues the stream's head, so a crashed, repeated or second batcher
/// can neither lose nor double one. Nobody can rewrite, and no key survives deployment that could change the code.
/// @dev Formats: spec/anchoring.md. Integers that are hashed are big-endian and packed; offsets and seq are at most 2^53-1.
interface IProvenanceLedger {
    // ---------------------------------------------------------------------------------------------------------------- types

    /// @notice An organisation that is a member from the start.
    /// @param name its short name, UTF-8, padded with zero bytes; never empty
    /// @param governance the address that governs the organisation's keys and streams
    struct Founder {
        bytes32 name;
        address governance;
    }

    /// @notice A member. `governance` is its governing address; `paused` says that it has stopped its own new anchors.
    struct Organisation {
        bytes32 name;
        address governance;
        uint64 joinedBlock;
        bool paused;
    }

    /// @notice An address of an organisation.
    /// @param org the organisation, 1 to 183; 0 for an address that belongs to none
    /// @param roles any of GOVERNANCE (1), PUBLISHER (2) and ENDORSER (4), added together
    /// @param paused whether the organisation has paused its new anchors
    /// @param revoked whether the key may do nothing any more; never undone
    /// @param suspectSince the block since which what the key did is suspect; meaningless unless revoked
    struct Key {
        uint8 org;
        uint8 roles;
        bool paused;
        bool revoked;
        uint64 suspectSince;
    }

    /// @notice An Ed25519 key with which an organisation signs records.
    /// @param listedBlock the block in which it was listed; 0 if it never was
    struct RecordKey {
        uint64 listedBlock;
        bool revoked;
        uint64 suspectSince;
    }

    /// @notice What a stream's name was made of, and the block in which it was opened.
    /// @param org the owner
    /// @param generation counts the streams of one (organisation, binding), from 1
    /// @param startOffset the log offset of the first leaf
    /// @param openedBlock the block that holds the StreamOpened event
    /// @param binding which partition of which log; spec/anchoring.md, "Stream"
    /// @param continues the last good position of a predecessor, hashed, or 0
    struct Opening {
        uint8 org;
        uint32 generation;
        uint64 startOffset;
        uint64 openedBlock;
        bytes32 binding;
        bytes32 continues;
    }

    /// @notice Where a stream stands.
    /// @param seq number of batches anchored
    /// @param nextOffset the log offset that the next batch must begin with
    /// @param lastBlock block of the last Anchored event, 0 until there is one
    /// @param org the owner; 0 if there is no such stream
    /// @param closed whether nothing can be anchored any more
    /// @param acc the accumulator at `seq`; the stream's name at seq 0
    struct StreamHead {
        uint64 seq;
        uint64 nextOffset;
        uint64 lastBlock;
        uint8 org;
        bool closed;
        bytes32 acc;
    }

    /// @notice What an anchored batch holds; the accumulator checks it, so that it need not be stored.
    struct Witness {
        uint64 firstOffset;
        uint64 nextOffset;
        uint32 leafCount;
        bytes32 root;
        bytes32 manifestHash;
    }

    // --------------------------------------------------------------------------------------------------------------- events

    /// @notice A batch was anchored. `prevBlock` is the block of the stream's event before this one, 0 at seq 1, so that a stream is
    /// read backwards from its head without a scan.
    event Anchored(
        bytes32 indexed stream,
        uint64 indexed seq,
        address indexed publisher,
        uint64 firstOffset,
        uint64 nextOffset,
        uint32 leafCount,
        bytes32 root,
        bytes32 manifestHash,
        bytes32 acc,
        uint64 prevBlock
    );

    /// @notice A stream was opened; all that its name is made of but chain and contract. `k` of the organisations in the bitmap
    /// `eligible` must endorse its batches.
    event StreamOpened(
        bytes32 indexed stream,
        bytes32 indexed binding,
        uint8 indexed org,
        uint32 generation,
        uint64 startOffset,
        bytes32 continues,
        uint8 k,
        uint184 eligible
    );

    /// @notice A stream was closed behind this position.
    event StreamClosed(bytes32 indexed stream, uint8 indexed org, uint64 seq, uint64 nextOffset, bytes32 acc);

    /// @notice An organisation became a member.
    event OrganisationJoined(uint8 indexed org, address indexed governance, bytes32 name);

    /// @notice An address of an organisation has these roles from now on.
    event KeySet(address indexed key, uint8 indexed org, uint8 roles);

    /// @notice An address may do nothing any more, and what it did since `suspectSince` is suspect.
    event KeyRevoked(address indexed key, uint8 indexed org, uint64 suspectSince);

    /// @notice An organisation signs records with this Ed25519 key from now on.
    event RecordKeyListed(uint8 indexed org, bytes32 indexed recordKey);

    /// @notice An organisation's Ed25519 key is no longer good, and what it signed since `suspectSince` is suspect.
    event RecordKeyRevoked(uint8 indexed org, bytes32 indexed recordKey, uint64 suspectSince);

    /// @notice An organisation stopped its own new anchors, or allowed them again.
    event AnchoringPaused(uint8 indexed org, bool paused);

    // --------------------------------------------------------------------------------------------------------------- errors

    /// @notice There is no such stream.
    error UnknownStream(bytes32 stream);
    /// @notice Another batch stands at this seq: two batchers disagree, or the log was changed.
    error Conflict(uint64 seq, bytes32 anchored, bytes32 offered);
    /// @notice The batch does not continue the head, which is given.
    error NotNext(uint64 seq, uint64 nextOffset, bytes32 acc);
    /// @notice Offsets beyond 2^53-1, or a number of leaves that the range cannot hold.
    error BadRange(uint64 firstOffset, uint64 nextOffset, uint32 leafCount);
    /// @notice Nothing can be anchored in a closed stream.
    error StreamIsClosed(bytes32 stream);
    /// @notice The organisation has paused its new anchors.
    error OrganisationIsPaused(uint8 org);
    /// @notice The sender does not have the role in the organisation whose stream this is.
    error NotPublisher(address sender, uint8 org);
    /// @notice The sender governs no organisation.
    error NotGovernance(address sender);
    /// @notice The stream belongs to another organisation.
    error NotOwner(bytes32 stream, uint8 org);
    /// @notice The organisation's stream for this binding is still open: close it first.
    error BindingIsOpen(bytes32 stream);
    /// @notice The start offset is beyond 2^53-1.
    error BadOffset(uint64 startOffset);
    /// @notice Endorsement policies are not offered by this release: k and eligible must be 0.
    error PolicyUnsupported(uint8 k, uint184 eligible);
    /// @notice The address belongs to another organisation, for ever.
    error KeyBelongsTo(address key, uint8 org);
    /// @notice A revoked key stays revoked, and its suspect time can only be moved back.
    error KeyIsRevoked(uint64 suspectSince);
    /// @notice The address is not one of the sender's organisation.
    error UnknownKey(address key);
    /// @notice The sender's organisation never listed this Ed25519 key.
    error UnknownRecordKey(bytes32 recordKey);
    /// @notice A governance key is replaced by a ballot of the members, not by itself.
    error GovernanceKey(address key);
    /// @notice These roles cannot be given.
    error BadRoles(uint8 roles);
    /// @notice A block in the future.
    error BadBlock(uint64 suspectSince, uint256 current);
    /// @notice The organisation has as many keys as it may have.
    error TooManyKeys(uint256 limit);
    /// @notice No founders, more than 183, one without a name, or one with the zero address.
    error BadFounder(uint256 index);
    /// @notice Nothing is anchored at this seq.
    error NotAnchored(bytes32 stream, uint64 seq);
    /// @notice The witness is not what was anchored.
    error BadWitness(uint64 seq, bytes32 anchored, bytes32 offered);
    /// @notice The path's length is not what index and tree size give, or the index is not in the tree.
    error BadPath(uint256 index, uint256 size, uint256 length);
    /// @notice The path leads to another root.
    error NotIncluded(bytes32 root, bytes32 computed);

    // -------------------------------------------------------------------------------------------------------------- streams

    /// @notice Opens a stream for a partition of the sender's log. A repeat while that very stream is open changes nothing.
    /// @param binding which partition of which log
    /// @param startOffset the log offset of the first leaf
    /// @param continues the hashed last good position of a predecessor, or 0
    /// @param k how many organisations must endorse; 0 in this release
    /// @param eligible bitmap of the organisations that may; 0 in this release
    /// @return stream the stream's name
    function openStream(bytes32 binding, uint64 startOffset, bytes32 continues, uint8 k, uint184 eligible)
        external
        returns (bytes32 stream);

    /// @notice Closes a stream of the sender's organisation, for good. A repeat changes nothing.
    function closeStream(bytes32 stream) external;

    /// @notice Anchors the next batch. A repeat of an anchored batch, at any seq and by anyone, changes nothing.
    /// @param stream the stream's name
    /// @param seq the batch's number, from 1
    /// @param prevAcc the accumulator before it: the history that the batch was made upon
    /// @param firstOffset the head's nextOffset
    /// @param nextOffset the offset behind the last leaf
    /// @param leafCount number of leaves, at least 1
    /// @param root RFC 6962 tree head of the leaves
    /// @param manifestHash SHA-256 of the batch's manifest
    /// @return anchored true, or false for a repeat
    function anchor(
        bytes32 stream,
        uint64 seq,
        bytes32 prevAcc,
        uint64 firstOffset,
        uint64 nextOffset,
        uint32 leafCount,
        bytes32 root,
        bytes32 manifestHash
    ) external returns (bool anchored);

    /// @notice Where a stream stands; all zero if there is none.
    function head(bytes32 stream) external view returns (StreamHead memory);

    /// @notice The accumulator at a seq; the stream's name at 0. Reverts where nothing is anchored.
    function accAt(bytes32 stream, uint64 seq) external view returns (bytes32 acc);

    /// @notice What a stream's name was made of. Reverts for an unknown one.
    function opening(bytes32 stream) external view returns (Opening memory);

    /// @notice Number of streams ever opened.
    function streamCount() external view returns (uint256);

    /// @notice At most `limit` streams in the order of their opening, beginning with number `from` (the first is 0).
    function streams(uint256 from, uint256 limit) external view returns (bytes32[] memory);

    /// @notice All generations of one organisation's stream for a binding, oldest first.
    function streamsOf(uint8 org, bytes32 binding) external view returns (bytes32[] memory);

    /// @notice Reverts unless the leaf stands in the anchored batch. For other contracts.
    /// @param witness the batch as it was anchored; the tree's size comes from it
    /// @param leafHash RFC 6962 leaf hash of the record
    /// @param index the leaf's number in the batch, from 0
    /// @param path RFC 9162 inclusion proof, from the leaf to the root
    function checkInclusion(
        bytes32 stream,
        uint64 seq,
        Witness calldata witness,
        bytes32 leafHash,
        uint64 index,
        bytes32[] calldata path
    ) external view;

    // -------------------------------------------------------------------------------------------------------- organisations

    /// @notice Gives an address of the sender's organisation its roles, or takes in a new address. Belonging is for ever.
    /// @dev Nobody asks the address: a member can take in one that another meant to use, who then uses another.
    /// @param roles PUBLISHER (2), ENDORSER (4) or both; 0 only for the governance key, which keeps GOVERNANCE (1) whatever is given
    function setKey(address key, uint8 roles) external;

    /// @notice Revokes an address of the sender's organisation. A repeat changes nothing; an earlier block widens the suspicion.
    /// @param suspectSince the block since which what the key did is suspect; the present one if nothing is
    function revokeKey(address key, uint64 suspectSince) external;

    /// @notice Lists an Ed25519 key with which the sender's organisation signs records. A repeat changes nothing.
    function listRecordKey(bytes32 recordKey) external;

    /// @notice Revokes an Ed25519 key of the sender's organisation; as revokeKey.
    function revokeRecordKey(bytes32 recordKey, uint64 suspectSince) external;

    /// @notice Stops the sender's organisation's own new anchors, or allows them again. A repeat changes nothing.
    function pauseAnchoring(bool paused) external;

    /// @notice Number of organisations; they are numbered from 1.
    function organisationCount() external view returns (uint8);

    /// @notice An organisation; all zero if there is none with this number.
    function organisation(uint8 org) external view returns (Organisation memory);

    /// @notice An organisation's addresses that are not revoked.
    function keysOf(uint8 org) external view returns (address[] memory);

    /// @notice What an address may do; all zero if it belongs to nobody.
    function keyOf(address key) external view returns (Key memory);

    /// @notice An organisation's Ed25519 keys that are not revoked.
    function recordKeysOf(uint8 org) external view returns (bytes32[] memory);

    /// @notice An Ed25519 key of an organisation; all zero if it was never listed.
    function recordKeyOf(uint8 org, bytes32 recordKey) external view returns (RecordKey memory);
}
