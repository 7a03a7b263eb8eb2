import { randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import { expect } from 'vitest'
import { openSealed, sealPlain } from '../../../../../services/runtime/crypto/seal.ts'

/** A key to wrap, and what it belongs to. */
export const key = randomBytes(32)
export const context = { purpose: 'results', organization: 'org_1' }

const backingKey = randomBytes(32)

/** What a provider does with its only key. Both throw for other bytes or another binding. */
export const provider = {
  encrypt: (base64: string, binding: readonly string[]) =>
    sealPlain(backingKey, binding, Buffer.from(base64, 'base64')).toString('base64'),
  decrypt: (base64: string, binding: readonly string[]) =>
    openSealed(backingKey, binding, Buffer.from(base64, 'base64')).toString('base64'),
}

/** Checks the error of a failed action, and returns all that a log could show of it. */
export async function failureOf (
  action: Promise<unknown>, kind: new (...args: never[]) => Error, ...texts: readonly string[]
): Promise<string> {
  const error: unknown = await action.then(() => 'no failure', (thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(kind)
  for (const text of texts) expect((error as Error).message).toContain(text)
  return inspect(error, { depth: Infinity, showHidden: true })
}
