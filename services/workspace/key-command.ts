import Type from 'typebox'
import { createAccountRecords, type AccountRecords } from '../accounts/records.ts'
import { commonConfig, loadConfig, pick } from '../lib/config.ts'
import { createKeyRing, type KeyRing } from '../lib/key-ring.ts'
import type { Environment } from './environment.ts'
import { holdersIn } from './key-holders.ts'
import { rewrapAll, takeStock, type Holders, type Stock } from './key-stock.ts'
import { shippingNote } from './shipping.ts'
import { withStores } from './stores.ts'

const config = Type.Object(pick(commonConfig, ['KEY_RING', 'KEY_ACTIVE']))

/** What each key of the ring wraps. */
export async function listKeys (env: Environment): Promise<Stock & { readonly note: string }> {
  const stock = await withRing(env, takeStock)
  return { ...stock, note: noteOf(stock) }
}

/** Wraps everything by the active key, and says what is left. */
export async function rewrapKeys (env: Environment) {
  return await withRing(env, async parts => {
    const done = await rewrapAll(parts)
    return { ...done, note: noteOf(done), ...await shippingNote(parts.accounts) }
  })
}

type RingParts = {
  readonly ring: KeyRing
  readonly holders: Holders
  readonly accounts: AccountRecords
}

async function withRing<T> (env: Environment, work: (parts: RingParts) => Promise<T>): Promise<T> {
  const ring = createKeyRing(loadConfig(config, env))
  return await withStores(env, stores => work({
    ring, holders: holdersIn(stores, ring), accounts: createAccountRecords(stores.redis),
  }))
}

/** What to do next, in words. */
export function noteOf ({ lacking, keys }: Stock): string {
  if (lacking.length > 0) {
    return `KEY_RING lacks ${lacking.join(', ')}, which is needed: put it back.`
  }
  const free = keys.filter(({ isFree }) => isFree).map(({ kid }) => kid)
  if (free.length === 0) return 'Every other key than the active one is needed: "keys rewrap".'
  return `Nothing is wrapped by ${free.join(', ')}: it may be taken out of KEY_RING once no ` +
    'process has it as KEY_ACTIVE.'
}
