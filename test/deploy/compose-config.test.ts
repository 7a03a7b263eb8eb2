import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  composeFile, composeModel, envOf, writeSecrets, type Model, type Service,
} from '../support/deploy/compose.ts'
import { installCompose, runTool } from '../support/deploy/tools.ts'
import { newFolder } from '../support/folder.ts'

const folder = newFolder('verification-jobs-compose-')

/** What compose itself makes of the file, with the variables of an env file and no others. */
async function config (envFile: string) {
  const env = { HOME: folder, COMPOSE_DISABLE_ENV_FILE: '1' }
  const profiles = ['--profile', 'commands', '--profile', 'traces']
  const args = ['-f', composeFile, ...profiles, '--env-file', envFile, 'config', '--format', 'json']
  return await runTool(await installCompose(() => {}), args, env)
}

/** The fields that the tests of the project's file compare, in one form. */
const fieldsOf = (service: Service) => ({
  image: service.image,
  isBuilt: service.build !== undefined,
  command: service.command?.join(' ').replace(/\$\$/g, '$') ?? null,
  entrypoint: service.entrypoint?.join(' ') ?? null,
  environment: Object.fromEntries(Object.entries<string | null>(service.environment ?? {})
    .filter(([, value]) => value !== null)),
  dependsOn: Object.entries(service.depends_on ?? {})
    .map(([name, { condition }]) => `${name} ${condition}`).toSorted(),
  networks: Object.keys(service.networks ?? {}).toSorted(),
  ports: (service.ports ?? []).map(port => port.host_ip),
  profiles: service.profiles ?? [],
  volumes: (service.volumes ?? []).map(({ type, source }) => `${type} ${source}`),
  memory: Number(service.mem_limit),
  readOnly: service.read_only === true,
  dropped: service.cap_drop,
  options: service.security_opt,
  health: service.healthcheck?.test?.join(' ').replace(/\$\$/g, '$') ??
    service.healthcheck?.disable,
})

describe('compose itself', () => {
  it('makes of the file what the other tests read in it', async () => {
    const secrets = join(folder, 'secrets.env')
    writeSecrets(secrets)
    const { code, output } = await config(secrets)
    expect([code, code === 0 ? '' : output]).toEqual([0, ''])
    const theirs = JSON.parse(output) as Model
    const ours = composeModel(envOf(readFileSync(secrets, 'utf8')))
    const sorted = ({ services }: Model) => Object.fromEntries(Object.entries(services)
      .toSorted(([a], [b]) => a < b ? -1 : 1).map(([name, one]) => [name, fieldsOf(one)]))
    expect(sorted(ours)).toEqual(sorted(theirs))
  })

  it('says what to do when there are no secrets', async () => {
    const { code, output } = await config('/dev/null')
    expect(code).not.toBe(0)
    expect(output).toContain('run node deploy/secrets.ts first')
  })
})
