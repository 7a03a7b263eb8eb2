/** The ledgers agree by these on which of them compares and mends; both are in one slot. */
export const LEADER_KEY = '{ledger}:leader'
export const FENCE_KEY = '{ledger}:fence'
