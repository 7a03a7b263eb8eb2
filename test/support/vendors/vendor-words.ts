/** Words of the vendor that no customer may read. */
export const VENDOR_NAME = 'Zyxoria'
export const VENDOR_HOST = 'eu3.zyxoria-lookup.example'
export const TASK = 'tsk_9f8e7d6c5b4a3921'
export const TRACE = 'trace-77aa88bb99cc'
export const VENDOR_KEY = 'zyx_live_0f1e2d3c4b5a'

export const CANARIES = [VENDOR_NAME, VENDOR_HOST, TASK, TRACE, VENDOR_KEY, 'E_77'] as const

/** How the vendor behaves by default. */
export type VendorMode =
  | 'well' | 'slow' | 'half' | 'recovering'
  | 'shuffled' | 'short' | 'long' | 'swapped' | 'contradicting' | 'wrong' | 'none' | 'nulls'
  | 'limiting' | 'down' | 'broken' | 'refusing' | 'garbage' | 'erring' | 'puzzling' | 'moved'
  | 'huge' | 'reset' | 'hanging' | 'cut' | 'dripping'

/** What came since the mode was set. */
export type VendorState = {
  readonly calls: number
  /** Unix milliseconds of each of them. */
  readonly callsAtMs: readonly number[]
  readonly rows: number
  readonly numbers: readonly string[]
}
