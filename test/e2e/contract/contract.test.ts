import { afterAll, beforeAll, expect, it } from 'vitest'
import { runAudit } from '../../../services/workspace/audit-command.ts'
import './points.ts'
import { proves } from './rows.ts'
import { shared, start, stop } from './support.ts'

beforeAll(start)
afterAll(stop)

it('all of it ' + proves('leaves rows and money that add up'), async () => {
  const breaches = async () => (await runAudit(shared().world.env)).breaches
  await expect.poll(breaches, { timeout: 20_000, interval: 500 }).toEqual([])
})
