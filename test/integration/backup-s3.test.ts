import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { freePort } from '../../deploy/local/ports.ts'
import { applyMigrations } from '../../deploy/provision/tables.ts'
import { ownDatabase } from '../support/clickhouse/database.ts'
import { backUp, restoreStatement } from '../support/recovery/backups.ts'
import { createSettledJobs } from '../support/recovery/settled-jobs.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { installMoto, startMoto, type Moto } from './root-keys/moto.ts'

const { database, outer, env } = ownDatabase()
const all = connectAll(env)
const jobs = createSettledJobs(all)

let moto: Moto
const bucket = () => `${moto.url}/backups`
const destination = (secret = moto.env['AWS_SECRET_ACCESS_KEY']) =>
  `S3('${bucket()}/{time}', '${moto.env['AWS_ACCESS_KEY_ID']}', '${secret}')`
beforeAll(async () => {
  moto = await startMoto(await installMoto(line => console.log(`moto: ${line}`)), await freePort())
  await moto.createBucket('backups')
  const Statement = { Effect: 'Allow', Action: 's3:*', Resource: '*' }
  await moto.permit({ Version: '2012-10-17', Statement: [Statement] })
  await moto.authorize(true)
  await applyMigrations({ url: env.CLICKHOUSE_URL }, () => {})
})
afterAll(async () => {
  vi.unstubAllEnvs()
  await moto?.stop()
})

describe('a backup in S3', () => {
  it('is restored by the statement of the guide', async () => {
    const { tenant, job, messages } = await jobs.start()
    await jobs.end(messages)
    const before = await jobs.csvOf(tenant, job)
    const { destination: named, files } = await backUp(env, destination())
    expect(files).toBeGreaterThan(10)
    await outer.command(`DROP DATABASE ${database} SYNC`)
    const [, time = 'no time'] = /(\d{4}-\d\d-\d\dT\d{6}Z)/.exec(named) ?? []
    await outer.command(restoreStatement(database, destination().replace('{time}', time)))
    expect(await jobs.csvOf(tenant, job)).toBe(before)
  })

  it('is not made by another secret, and the reason names none', async () => {
    const error = await backUp(env, destination('hidden')).catch((error: unknown) => error)
    expect(String(error)).toMatch(/No backup in S3\('http:.*\(BACKUP_FAILED\): .*S3_ERROR/)
    expect(String(error)).not.toContain('hidden')
  })
})
