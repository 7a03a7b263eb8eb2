import { readFileSync } from 'node:fs'

/** Concatenates Lua files in this order, as Redis has no modules. */
export function joinLua (...files: readonly URL[]): string {
  return files.map((file) => readFileSync(file, 'utf8')).join('\n')
}

/** The recovery guard: the first file of every script that moves money. */
export const GUARD_LUA = new URL('./recovery-guard.lua', import.meta.url)

/** The movements of money, shared by every script that makes any. */
export const WALLET_LUA = new URL('./wallet.lua', import.meta.url)
