/** The ledgers agree by these on which of them compares and mends; both are in one slot. */
export const LEADER_KEY = '{ledger}:leader'
export const FENCE_KEY = '{ledger}:fence'

/** String: the last export of the journal's heads, as it was exported. */
export const EXPORTED_KEY = '{ledger}:head-exported'

/** String: the run of the server in which jobs that were erased have been erased once more. */
export const ERASED_IN_KEY = '{ledger}:erased-in'

/** String: the moment, in ms, up to which Redis has all erasures: whatever it lost came later. */
export const ERASED_UNTIL_KEY = '{ledger}:erased-until'
