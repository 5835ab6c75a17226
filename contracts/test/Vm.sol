// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

/// @dev The few cheat codes that these tests use; forge answers them at a fixed address.
interface Vm {
    struct Log {
        bytes32[] topics;
        bytes data;
        address emitter;
    }

    function prank(address sender) external;
    function roll(uint256 number) external;
    function chainId(uint256 id) external;
    function assume(bool condition) external pure;
    function expectRevert(bytes calldata data) external;
    function readFile(string calldata path) external view returns (string memory);
    function parseJsonBytes(string calldata json, string calldata key) external pure returns (bytes memory);
    function recordLogs() external;
    function getRecordedLogs() external returns (Log[] memory);
}

/// @dev What every test begins with.
abstract contract TestBase {
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    error NotEqual(string what, bytes32 expected, bytes32 actual);

    function assertEq(bytes32 actual, bytes32 expected, string memory what) internal pure {
        if (actual != expected) revert NotEqual(what, expected, actual);
    }

    function assertEq(uint256 actual, uint256 expected, string memory what) internal pure {
        assertEq(bytes32(actual), bytes32(expected), what);
    }

    function assertEq(address actual, address expected, string memory what) internal pure {
        assertEq(bytes32(uint256(uint160(actual))), bytes32(uint256(uint160(expected))), what);
    }

    function assertTrue(bool value, string memory what) internal pure {
        assertEq(value ? 1 : 0, 1, what);
    }

    function assertFalse(bool value, string memory what) internal pure {
        assertEq(value ? 1 : 0, 0, what);
    }

    function bound(uint256 value, uint256 low, uint256 high) internal pure returns (uint256) {
        return low + value % (high - low + 1);
    }
}
