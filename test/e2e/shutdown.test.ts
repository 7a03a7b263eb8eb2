import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runJob, startWorld, type World } from '../support/world.ts'

let world: World
beforeAll(async () => { world = await startWorld() })
afterAll(async () => { await world.stop() })

type Line = { readonly level: number, readonly logger?: string }

/**
 * What the services logged above the severity of information. The broker's client speaks up while
 * coordinators move; that is its own affair.
 */
function complaints (): readonly Line[] {
  const folder = join(world.services.dataDir, 'logs')
  return readdirSync(folder)
    .flatMap(name => readFileSync(join(folder, name), 'utf8').trim().split('\n'))
    .filter(line => line.startsWith('{')).map(line => JSON.parse(line) as Line)
    .filter(({ level, logger }) => level > 30 && logger !== 'kafkajs')
}

async function untilRestarted (name: string): Promise<void> {
  const restarts = () => world.services.list().find(service => service.name === name)?.restarts ?? 0
  while (restarts() === 0) await new Promise(resolve => setTimeout(resolve, 50))
}

describe('SIGTERM', () => {
  it('ends every service in order, without a complaint, and the next start goes on', async () => {
    const request = { service: 'phone-validation', inputs: ['+12127365000'], forceFresh: true }
    expect((await runJob(world.live, request)).job.status).toBe('completed')
    const names = world.services.list().map(({ name }) => name)
    for (const name of names) world.services.kill(name, 'SIGTERM')
    await Promise.all(names.map(untilRestarted))
    await world.services.untilReady()
    expect(complaints()).toEqual([])
    expect((await runJob(world.live, request)).job.status).toBe('completed')
  })
})
