/** The lease and the fencing token of the leading ledger; both are in one slot. */
export const LEADER_KEY = '{ledger}:leader'
export const FENCE_KEY = '{ledger}:fence'

/** String: the last export of journal heads, as it was sent. */
export const EXPORTED_KEY = '{ledger}:head-exported'

/** String: the run of the server in which erased jobs were re-erased. */
export const ERASED_IN_KEY = '{ledger}:erased-in'

/** String: the time, in ms, up to which Redis has all erasures. */
export const ERASED_UNTIL_KEY = '{ledger}:erased-until'
