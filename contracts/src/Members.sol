// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IProvenanceLedger} from "./IProvenanceLedger.sol";
import {ENDORSER, GOVERNANCE, KeyState, KeyStateLibrary, PUBLISHER} from "./lib/Keys.sol";

/// @title The member organisations and their keys
/// @notice The founders are members from deployment on. Each organisation's governance key sets and revokes the organisation's other
/// keys; nobody governs another organisation's, and nobody governs the contract.
abstract contract Members is IProvenanceLedger {
    /// @dev One bit each in an `eligible` bitmap of 184, whose bit 0 is not used.
    uint256 private constant MAX_ORGANISATIONS = 183;
    /// @dev Pausing walks an organisation's keys: this bounds its gas.
    uint256 private constant MAX_KEYS = 64;

    uint8 private _organisationCount;
    mapping(uint8 org => Organisation) private _organisations;
    mapping(address key => KeyState) private _keys;
    mapping(uint8 org => address[]) private _keysOf;
    mapping(uint8 org => mapping(bytes32 recordKey => RecordKey)) private _recordKeys;
    mapping(uint8 org => bytes32[]) private _recordKeysOf;

    constructor(Founder[] memory founders) {
        uint256 count = founders.length;
        if (count == 0 || count > MAX_ORGANISATIONS) revert BadFounder(count);
        for (uint256 i = 0; i < count; ++i) {
            if (founders[i].name == 0 || founders[i].governance == address(0)) revert BadFounder(i);
            _join(founders[i].name, founders[i].governance);
        }
    }

    // ----------------------------------------------------------------------------------------------------------------- keys

    /// @inheritdoc IProvenanceLedger
    function setKey(address key, uint8 roles) external {
        uint8 org = _governed();
        KeyState state = _keys[key];
        if (state.org() != 0 && state.org() != org) revert KeyBelongsTo(key, state.org());
        if (state.isRevoked()) revert KeyIsRevoked(state.suspectSince());
        bool governs = state.roles() & GOVERNANCE != 0;
        if (roles & ~(PUBLISHER | ENDORSER) != 0 || (roles == 0 && !governs)) revert BadRoles(roles);
        if (governs) roles |= GOVERNANCE;
        if (state.roles() == roles) return;
        if (state.org() == 0) _admit(org, key);
        _keys[key] = KeyStateLibrary.make(org, roles, _organisations[org].paused);
        emit KeySet(key, org, roles);
    }

    /// @inheritdoc IProvenanceLedger
    function revokeKey(address key, uint64 suspectSince) external {
        uint8 org = _governed();
        KeyState state = _keys[key];
        if (state.org() != org) revert UnknownKey(key);
        if (state.roles() & GOVERNANCE != 0) revert GovernanceKey(key);
        if (!_widens(state.isRevoked(), state.suspectSince(), suspectSince)) return;
        if (!state.isRevoked()) _dismiss(org, key);
        _keys[key] = state.revoke(suspectSince);
        emit KeyRevoked(key, org, suspectSince);
    }

    /// @inheritdoc IProvenanceLedger
    function listRecordKey(bytes32 recordKey) external {
        uint8 org = _governed();
        RecordKey storage state = _recordKeys[org][recordKey];
        if (state.revoked) revert KeyIsRevoked(state.suspectSince);
        if (state.listedBlock != 0) return;
        bytes32[] storage listed = _recordKeysOf[org];
        if (listed.length == MAX_KEYS) revert TooManyKeys(MAX_KEYS);
        listed.push(recordKey);
        state.listedBlock = uint64(block.number);
        emit RecordKeyListed(org, recordKey);
    }

    /// @inheritdoc IProvenanceLedger
    function revokeRecordKey(bytes32 recordKey, uint64 suspectSince) external {
        uint8 org = _governed();
        RecordKey storage state = _recordKeys[org][recordKey];
        if (state.listedBlock == 0) revert UnknownRecordKey(recordKey);
        if (!_widens(state.revoked, state.suspectSince, suspectSince)) return;
        if (!state.revoked) _unlist(org, recordKey);
        state.revoked = true;
        state.suspectSince = suspectSince;
        emit RecordKeyRevoked(org, recordKey, suspectSince);
    }

    /// @inheritdoc IProvenanceLedger
    function pauseAnchoring(bool paused) external {
        uint8 org = _governed();
        if (_organisations[org].paused == paused) return;
        _organisations[org].paused = paused;
        address[] storage keys = _keysOf[org];
        for (uint256 i = 0; i < keys.length; ++i) {
            _keys[keys[i]] = KeyStateLibrary.make(org, _keys[keys[i]].roles(), paused);
        }
        emit AnchoringPaused(org, paused);
    }

    // ---------------------------------------------------------------------------------------------------------------- views

    /// @inheritdoc IProvenanceLedger
    function organisationCount() external view returns (uint8) {
        return _organisationCount;
    }

    /// @inheritdoc IProvenanceLedger
    function organisation(uint8 org) external view returns (Organisation memory) {
        return _organisations[org];
    }

    /// @inheritdoc IProvenanceLedger
    function keysOf(uint8 org) external view returns (address[] memory) {
        return _keysOf[org];
    }

    /// @inheritdoc IProvenanceLedger
    function keyOf(address key) external view returns (Key memory) {
        KeyState state = _keys[key];
        return Key(state.org(), state.roles(), state.isPaused(), state.isRevoked(), state.suspectSince());
    }

    /// @inheritdoc IProvenanceLedger
    function recordKeysOf(uint8 org) external view returns (bytes32[] memory) {
        return _recordKeysOf[org];
    }

    /// @inheritdoc IProvenanceLedger
    function recordKeyOf(uint8 org, bytes32 recordKey) external view returns (RecordKey memory) {
        return _recordKeys[org][recordKey];
    }

    // ------------------------------------------------------------------------------------------------------------- internal

    /// @dev The organisation that the sender governs.
    function _governed() internal view returns (uint8) {
        KeyState state = _keys[msg.sender];
        if (!state.may(GOVERNANCE, state.org())) revert NotGovernance(msg.sender);
        return state.org();
    }

    /// @dev Reverts unless the sender may anchor for the organisation now.
    function _requirePublisher(uint8 org) internal view {
        KeyState state = _keys[msg.sender];
        if (!state.may(PUBLISHER, org)) revert NotPublisher(msg.sender, org);
        if (state.isPaused()) revert OrganisationIsPaused(org);
    }

    function _join(bytes32 name, address governance) private {
        uint8 other = _keys[governance].org();
        if (other != 0) revert KeyBelongsTo(governance, other);
        uint8 org = ++_organisationCount;
        _organisations[org] = Organisation(name, governance, uint64(block.number), false);
        _admit(org, governance);
        _keys[governance] = KeyStateLibrary.make(org, GOVERNANCE, false);
        emit OrganisationJoined(org, governance, name);
    }

    function _admit(uint8 org, address key) private {
        address[] storage keys = _keysOf[org];
        if (keys.length == MAX_KEYS) revert TooManyKeys(MAX_KEYS);
        keys.push(key);
    }

    function _dismiss(uint8 org, address key) private {
        address[] storage keys = _keysOf[org];
        uint256 i = 0;
        while (keys[i] != key) ++i;
        keys[i] = keys[keys.length - 1];
        keys.pop();
    }

    function _unlist(uint8 org, bytes32 recordKey) private {
        bytes32[] storage listed = _recordKeysOf[org];
        uint256 i = 0;
        while (listed[i] != recordKey) ++i;
        listed[i] = listed[listed.length - 1];
        listed.pop();
    }

    /// @dev Whether a revocation says something new; reverts where it would take suspicion back.
    function _widens(bool revoked, uint64 known, uint64 offered) private view returns (bool) {
        if (offered > block.number) revert BadBlock(offered, block.number);
        if (!revoked) return true;
        if (offered > known) revert KeyIsRevoked(known);
        return offered < known;
    }
}
