import { expect, it } from 'vitest'
import { shipping } from '../../../services/workspace/shipping.ts'

const shown = async (isShipped: boolean) => {
  const accounts = { areShipped: async () => isShipped }
  return await shipping(async () => ({ id: 'key_1' }))({ accounts } as never, {})
}

it('a task that changes accounts says when the change is in Redis alone', async () => {
  expect(await shown(true)).toEqual({ id: 'key_1' })
  expect(await shown(false)).toEqual({
    id: 'key_1', warning: expect.stringContaining('in Redis alone so far') as string,
  })
})
