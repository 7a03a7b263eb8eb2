import { afterAll, describe, expect, it } from 'vitest'
import { CATALOGUE } from './catalogue.ts'
import { createRunner } from './run.ts'
import { faultTable } from './table.ts'

/** The same each time, so that a red run means a change; `npm run faults` takes any other. */
const seed = Number(process.env['FAULTS_SEED'] ?? 1)
const runner = createRunner()
afterAll(async () => { await runner.close() })

describe('what happens when', () => {
  const quick = CATALOGUE.filter(fault => fault.quick)
  it.each(quick.map(fault => [fault.about, fault] as const))('%s', async (_about, fault) => {
    const say = (line: string) => console.log(`${fault.name}: ${line}`)
    const outcome = await runner.run(fault, { seed, full: false, say })
    console.log(faultTable([outcome]))
    expect(outcome.breaches).toEqual([])
    expect(outcome.injected).toBeGreaterThan(0)
  })
})
