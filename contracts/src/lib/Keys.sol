// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @dev What an address may do, in one slot, so that anchoring reads one: org (bits 0 to 7), roles (8 to 15), paused (16),
/// revoked (17), suspectSince (64 to 127). 0 is an address of nobody.
type KeyState is uint256;

using KeyStateLibrary for KeyState global;

/// @dev A key's roles, added together.
uint8 constant GOVERNANCE = 1;
uint8 constant PUBLISHER = 2;
uint8 constant ENDORSER = 4;

/// @title Reading and making the states of keys
library KeyStateLibrary {
    uint256 private constant PAUSED = 1 << 16;
    uint256 private constant REVOKED = 1 << 17;

    /// @notice A key of an organisation.
    function make(uint8 org_, uint8 roles_, bool paused_) internal pure returns (KeyState) {
        return KeyState.wrap(uint256(org_) | uint256(roles_) << 8 | (paused_ ? PAUSED : 0));
    }

    /// @notice The key, no longer of use, and suspect since a block.
    function revoke(KeyState key, uint64 suspectSince_) internal pure returns (KeyState) {
        return KeyState.wrap(uint256(key.org()) | uint256(key.roles()) << 8 | REVOKED | uint256(suspectSince_) << 64);
    }

    /// @notice Whether a key that is not revoked has a role in an organisation.
    function may(KeyState key, uint8 role, uint8 org_) internal pure returns (bool) {
        return key.org() == org_ && key.roles() & role != 0 && !key.isRevoked();
    }

    function org(KeyState key) internal pure returns (uint8) {
        return uint8(KeyState.unwrap(key));
    }

    function roles(KeyState key) internal pure returns (uint8) {
        return uint8(KeyState.unwrap(key) >> 8);
    }

    function isPaused(KeyState key) internal pure returns (bool) {
        return KeyState.unwrap(key) & PAUSED != 0;
    }

    function isRevoked(KeyState key) internal pure returns (bool) {
        return KeyState.unwrap(key) & REVOKED != 0;
    }

    function suspectSince(KeyState key) internal pure returns (uint64) {
        return uint64(KeyState.unwrap(key) >> 64);
    }
}
