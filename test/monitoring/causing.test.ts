import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { createAccessLog } from '../../services/accounts/access-log/access-log.ts'
import { SCOPES } from '../../services/accounts/api-keys.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { createPauses } from '../../services/admin/pause.ts'
import { withWorkspace } from '../../services/admin/deps.ts'
import { taggedTenant } from '../../services/money/redis-keys.ts'
import { causing, watching } from '../support/deploy/causing.ts'
import { leaveToLedger } from '../support/redis/unlock.ts'
import { whileFrozen, whileStuttering } from '../support/stacks/processes.ts'
import { startAll } from '../support/stacks/services.ts'
import { openWorkspaceCommands } from '../support/workspace.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { stackEnv } from '../support/stacks/stack.ts'

const env = stackEnv()
const redis = closeAfterAll(openRedis(env.REDIS_STATE_URL ?? ''))
const commands = openWorkspaceCommands(env)
const { environment, vendor, untilFiring, untilOver, job, serviceOf, partOf } = await causing()

/** The outcome of these jobs does not matter here. */
const send = () => { environment.live.createJob(job('phone-validation')).catch(() => {}) }

describe('an alert fires, and ends with its cause', () => {
  it('for a stage that hangs', async () => {
    await whileFrozen(serviceOf('lookup-1'), async () => {
      const sending = setInterval(send, 1_000)
      await untilFiring(
        'TargetDown', 'GroupStandsStill', 'PreflightsRefused', 'TooManyUnavailable',
        'ErrorBudgetBurns'
      ).finally(() => clearInterval(sending))
    })
  })

  it('for a stage that is not there', async () => {
    const services = environment.services.list().filter(({ name }) => name !== 'feed-1')
    await watching(services, watch => watch.untilFiring('StageMissing'))
  })

  it('for a paused stage, until it is resumed', async () => {
    const pauses = createPauses(redis)
    await pauses.pause({ stage: 'deliver', by: 'test', reason: '' })
    await untilFiring('StagePaused')
    await pauses.resume('deliver')
    await untilOver('StagePaused')
  })

  it('for money that was changed by hand, until the journal is trusted', async () => {
    const tenant = `${environment.orgId}.live`
    await leaveToLedger(redis, tenant)
    const before = await environment.live.balance()
    await redis.hincrby(`w:${taggedTenant(tenant)}`, 'available', 1)
    await untilFiring('TenantsFrozen')
    const thaw = ['thaw', '--org', environment.orgId]
    expect(await commands.workspace(env, ...thaw)).toMatchObject({ state: 'frozen' })
    expect(await commands.workspace(env, ...thaw, '--trust', 'journal'))
      .toMatchObject({ state: 'thawed' })
    expect(await environment.live.balance()).toEqual(before)
    expect(await environment.breaches()).toEqual([])
  })

  it('for a process that ends over and over', async () => {
    const { services } = environment
    for (let times = 0; times < 3; times++) {
      services.kill('publish-1', 'SIGKILL')
      await sleep(500)
      await services.untilReady()
      await sleep(2_500)
    }
    await untilFiring('RestartLoop')
  })

  it('for a process that is late with everything', async () => {
    await whileStuttering(serviceOf('publish-1'), () => untilFiring('EventLoopBlocked'))
  })

  it('for a process that holds much, until it is started again', async () => {
    const preload = 'process.on("SIGUSR2",()=>{globalThis.held=Buffer.alloc(300_000_000,1)})'
    const full = await startAll({
      env,
      stages: ['deliver'],
      overrides: { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(preload)}` },
    })
    try {
      await watching(full.list(), async watch => {
        full.kill('deliver-1', 'SIGUSR2')
        await watch.untilFiring('MemoryHigh')
        full.kill('deliver-1', 'SIGTERM')
        await full.untilReady()
        await watch.untilOver('MemoryHigh')
      })
    } finally {
      await full.stop()
    }
  })

  it('for a clock that is wrong, until it is set', async () => {
    const preload = new URL('../faults/skewed-clock.ts', import.meta.url).pathname
    const skewed = await startAll({
      env,
      stages: ['deliver'],
      overrides: { NODE_OPTIONS: `--import=${preload}`, CLOCK_OFFSET_MS: '5000' },
    })
    try {
      await watching(skewed.list(), async watch => {
        await watch.untilFiring('RedisClockOffset')
        skewed.kill('deliver-1', 'SIGUSR2')
        await watch.untilOver('RedisClockOffset')
      })
    } finally {
      await skewed.stop()
    }
  })

  it('for Redis that hangs', async () => {
    const { live, breaches } = environment
    await vendor.behave('slow')
    const small = await live.createJob(job('whatsapp'))
    const bulk = await live.createJob(job('whatsapp', { rows: 1_200 }))
    await whileFrozen(partOf('redis-state'), () =>
      untilFiring('StageBlocked', 'NotReady', 'SmallJobsLate', 'BulkJobsLate'))
    await vendor.behave('well')
    // Completed, or given up where the shortened time of stalled jobs passed meanwhile.
    for (const { id } of [small, bulk]) await live.waitForEnd(id)
    expect(await breaches()).toEqual([])
  })

  it('for Kafka that hangs', async () => {
    const { orgId } = environment
    await whileFrozen(partOf('kafka'), async () => {
      const movement = { id: 'by-hand', amountMicros: 1, reason: 'test' }
      await withWorkspace(env, async ({ wallet, apiKeys }) => {
        await wallet.topUp(`${orgId}.live`, movement)
        await apiKeys.create({ orgId, mode: 'test', scopes: SCOPES })
      })
      await createAccessLog(redis).append({
        organization: orgId, actor: { kind: 'operator', id: 'test' }, action: 'balance.topped_up',
      })
      await untilFiring(
        'OutboxNotShipped', 'AccountsNotShipped', 'AccessLogNotShipped', 'LagUnknown')
    })
  })

  it('for ClickHouse that hangs', async () => {
    const { live, breaches } = environment
    const created = await live.createJob(job('phone-validation'))
    await live.waitForEnd(created.id)
    await whileFrozen(partOf('clickhouse'), async () => {
      send()
      await untilFiring('EventsLate')
    })
    await untilOver('EventsLate')
    expect(await breaches()).toEqual([])
  })
})
