import { afterAll, beforeAll, expect, it } from 'vitest'
import { runAudit } from '../../../services/workspace/audit-command.ts'
import './points.ts'
import { proves } from './rows.ts'
import { shared, start, stop } from './support.ts'

beforeAll(start)
afterAll(stop)

it('all of it ' + proves('leaves rows and money that add up'), async () => {
  const breaches = async () => (await runAudit(shared().world.env)).breaches
  const shown = async () => (await breaches()).map(breach => JSON.stringify(breach)).join('\n')
  await expect.poll(shown, { timeout: 90_000, interval: 500 }).toBe('')
})
