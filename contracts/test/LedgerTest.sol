// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProvenanceLedger} from "../src/IProvenanceLedger.sol";
import {TestBase} from "./Vm.sol";

/// @dev Two organisations, one stream of the first, and batches that are told by their seq.
abstract contract LedgerFixture is TestBase {
    struct Batch {
        bytes32 stream;
        uint64 seq;
        bytes32 prevAcc;
        uint64 firstOffset;
        uint64 nextOffset;
        uint32 leafCount;
        bytes32 root;
        bytes32 manifestHash;
    }

    address internal constant ALICE = address(0xA11CE);
    address internal constant BOB = address(0xB0B);
    address internal constant PUBLISHER = address(0xF00D);
    address internal constant STRANGER = address(0xBAD);
    bytes32 internal constant BINDING = keccak256("binding");
    uint64 internal constant MAX_OFFSET = 2 ** 53 - 1;

    IProvenanceLedger internal ledger;
    uint64 internal height = 100;
    bytes32 internal stream;

    function prepare() internal {
        vm.roll(height);
        IProvenanceLedger.Founder[] memory founders = new IProvenanceLedger.Founder[](2);
        founders[0] = IProvenanceLedger.Founder("Alice", ALICE);
        founders[1] = IProvenanceLedger.Founder("Bob", BOB);
        ledger = deploy(founders);
        vm.prank(ALICE);
        ledger.setKey(PUBLISHER, 2);
        stream = open(ALICE, BINDING, 0, 0);
    }

    /// @dev Deploys what the package ships; reverts with the constructor's error.
    function deploy(IProvenanceLedger.Founder[] memory founders) internal returns (IProvenanceLedger deployed) {
        string memory artifact = vm.readFile("../provenance/contract/ProvenanceLedger.json");
        bytes memory code = bytes.concat(vm.parseJsonBytes(artifact, ".bytecode"), abi.encode(founders));
        assembly ("memory-safe") {
            deployed := create(0, add(code, 0x20), mload(code))
            if iszero(deployed) {
                returndatacopy(code, 0, returndatasize())
                revert(code, returndatasize())
            }
        }
    }

    function open(address by, bytes32 binding, uint64 startOffset, bytes32 continues) internal returns (bytes32) {
        vm.prank(by);
        return ledger.openStream(binding, startOffset, continues, 0, 0);
    }

    /// @dev The batch that continues the stream's head: three leaves in four offsets.
    function nextBatch(bytes32 of_) internal view returns (Batch memory) {
        IProvenanceLedger.StreamHead memory head = ledger.head(of_);
        uint64 seq = head.seq + 1;
        return Batch(
            of_,
            seq,
            head.acc,
            head.nextOffset,
            head.nextOffset + 4,
            3,
            keccak256(abi.encode("root", seq)),
            keccak256(abi.encode("manifest", seq))
        );
    }

    function accOf(Batch memory b) internal pure returns (bytes32) {
        return sha256(
            bytes.concat(
                hex"02",
                b.prevAcc,
                bytes8(b.seq),
                bytes8(b.firstOffset),
                bytes8(b.nextOffset),
                bytes4(b.leafCount),
                b.root,
                b.manifestHash
            )
        );
    }

    function anchor(address by, Batch memory b) internal returns (bool) {
        vm.prank(by);
        return ledger.anchor(b.stream, b.seq, b.prevAcc, b.firstOffset, b.nextOffset, b.leafCount, b.root, b.manifestHash);
    }

    function anchorMany(uint256 count) internal {
        for (uint256 i = 0; i < count; ++i) {
            vm.roll(++height);
            anchor(PUBLISHER, nextBatch(stream));
        }
    }
}

/// @dev Each test has a ledger of its own.
abstract contract LedgerTest is LedgerFixture {
    function setUp() external {
        prepare();
    }
}
