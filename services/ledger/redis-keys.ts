import { globalKey } from '../platform/redis.ts'

/** The lease and the fencing token of the leading ledger. */
export const LEADER_KEY = globalKey('leader')
export const FENCE_KEY = globalKey('fence')

/** String: the last export of journal heads, as it was sent. */
export const EXPORTED_KEY = globalKey('head-exported')
