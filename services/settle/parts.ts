import type { Parts } from '../lib/connect.ts'
import type { Wire } from '../lib/wire.ts'
import { createStores } from '../records/stores.ts'
import type { SettleParts } from './stage.ts'

type Connected = Pick<Parts, 'state' | 'clickhouse' | 'recordMac' | 'codec' | 'clock'> &
  { readonly wire: Wire }

/** The parts of the stage on what the process is connected to. */
export function settleParts (
  { BATCH_MESSAGES }: { readonly BATCH_MESSAGES: number }, connected: Connected
): SettleParts {
  return { ...createStores(connected), clock: connected.clock, batch: BATCH_MESSAGES }
}
