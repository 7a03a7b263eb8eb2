import { readFileSync } from 'node:fs'

/**
 * Lua has no modules in Redis: the parts are put behind one another, each file once, in this order.
 */
export function joinLua (...files: readonly URL[]): string {
  return files.map((file) => readFileSync(file, 'utf8')).join('\n')
}

/** The gate every script begins with that moves money. */
export const GATE_LUA = new URL('./recovery-guard.lua', import.meta.url)

/** The movements of money every script that moves any is made from. */
export const WALLET_LUA = new URL('./wallet.lua', import.meta.url)
