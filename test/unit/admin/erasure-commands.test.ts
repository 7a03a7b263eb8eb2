import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { confirmErasure } from '../../../services/admin/organizations.ts'

/** The outcome of a question at a terminal that gets this input. */
async function confirmWith (input: string, isTTY = true) {
  const streams = {
    input: Object.assign(new PassThrough(), { isTTY }),
    errors: Object.assign(new PassThrough(), { isTTY }),
  }
  streams.input.end(input)
  const outcome = await confirmErasure('org_1', streams).catch((error: Error) => error.message)
  streams.errors.end()
  return { outcome, asked: await text(streams.errors) }
}

it('an erasure is confirmed by the id of the organization', async () => {
  const { outcome, asked } = await confirmWith('org_1\n')
  expect(outcome).toBeUndefined()
  expect(asked).toContain('all data of org_1 unreadable for ever. Type its id to confirm: ')
})

it.each(['org_2\n', 'yes\n', '\n', ''])('an erasure is not confirmed by %j', async answer => {
  expect((await confirmWith(answer)).outcome).toBe('the answer is not org_1: nothing was erased.')
})

it('an erasure is refused without a terminal, and nothing is asked', async () => {
  const { outcome, asked } = await confirmWith('org_1\n', false)
  expect([outcome, asked]).toEqual([expect.stringContaining('pass --yes'), ''])
})
