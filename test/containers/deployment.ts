import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { createClient, type Client } from '../../services/client/client.ts'
import { writeSecrets } from '../support/deploy/compose.ts'
import { root } from '../support/sources.ts'
import { blocksOf } from '../support/guides/guide.ts'
import type { Engine } from './engine.ts'
import { cacheFolder } from '../support/deploy/tools.ts'

const PAGE = 'deploy/docs/deployment.md'
const DOCUMENTED_IMAGE = 'verification-jobs:0.1.0'
const COMPOSE = 'docker compose -f deploy/compose.yaml'
/** Of builds, for the next run. */
const KEPT_LAYERS = '6gb'
/** For a minute or two, while containers start again. */
const RETRIES = 60
const POLL_MS = 500

/** A container as `docker compose ps` describes it. */
type Container = {
  readonly ID: string
  readonly Service: string
}

/** The project's files on an engine, by the commands of the guide to deployment. */
export type Deployment = {
  /** Runs the one command of the guide that holds this text, and the words that are added. */
  readonly documented: (text: string, ...more: readonly string[]) => Promise<string>
  /** Runs a command of Compose. */
  readonly compose: (...words: readonly string[]) => Promise<string>
  /** A command of operators, with its result. */
  readonly admin: <T>(...words: readonly string[]) => Promise<T>
  readonly containers: () => Promise<readonly Container[]>
  /** Kills the first process of a container from outside, until Docker has started it again. */
  readonly kill: (service: string) => Promise<void>
  /** Builds another image, as of a new release, and has the services use it. */
  readonly upgrade: () => Promise<void>
  /** The result of its health check. */
  readonly health: (service: string) => Promise<string>
  /** How often Docker started a container again. */
  readonly restarts: (service: string) => Promise<number>
  /** A client over TLS, which trusts the gateway. */
  readonly client: (apiKey: string) => Promise<Client>
  /** Removes its containers, volumes and image. */
  readonly remove: () => Promise<void>
}

/** Ports of 127.0.0.1 for what Compose publishes. */
export type Ports = Readonly<Record<'interface' | 'page' | 'prometheus' | 'grafana', number>>

/** Beside a deployment of the same machine: a project, secrets, ports and image of its own. */
export function createDeployment (engine: Engine, ports: Ports): Deployment {
  // Where a started engine sees it, too.
  const folder = `${cacheFolder()}/containers`
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { mode: 0o700 })
  writeSecrets(`${folder}/secrets.env`)
  const env = {
    COMPOSE_PROJECT_NAME: 'verification-jobs-test',
    COMPOSE_ENV_FILES: `${folder}/secrets.env`,
    IMAGE: 'verification-jobs:test',
    ...Object.fromEntries(Object.entries(ports)
      .map(([name, port]) => [`PORT_${name.toUpperCase()}`, String(port)])),
  }
  const shell = (command: string) => engine.run(['sh', '-c', command], env)
  const compose = (...words: readonly string[]) => shell([COMPOSE, ...words].join(' '))
  const containers = async () => (await compose('ps', '--all', '--format', 'json')).trim()
    .split('\n').map(line => JSON.parse(line) as Container)
  const inspect = async (service: string, format: string) => {
    const { ID: id } = (await containers()).find(({ Service: name }) => name === service) ?? {}
    return (await engine.run(['docker', 'inspect', '--format', format, String(id)])).trim()
  }
  const health = (service: string) => inspect(service, '{{.State.Health.Status}}')
  const documented: Deployment['documented'] = (text, ...more) =>
    shell([documentedCommand(text).replace(DOCUMENTED_IMAGE, env.IMAGE), ...more].join(' '))
  return {
    documented,
    compose,
    admin: async (...words) =>
      JSON.parse(await compose('run', '--rm', 'admin', '--json', ...words)),
    containers,
    kill: async service => {
      const pid = await inspect(service, '{{.State.Pid}}')
      await engine.run(['docker', 'run', '--rm', '--pid', 'host', '--user', '0',
        '--entrypoint', 'sh', env.IMAGE, '-c', `kill -KILL ${pid}`])
      const isBack = async () => await inspect(service, '{{.State.Pid}}') !== pid &&
        await health(service) === 'healthy'
      while (!await isBack()) await sleep(POLL_MS)
    },
    upgrade: async () => {
      await documented('docker build', '--label release=next')
      await compose('up', '-d', '--wait')
    },
    health,
    restarts: async service => Number(await inspect(service, '{{.RestartCount}}')),
    client: async apiKey => {
      await shell(documentedCommand(' cp ').replace(/ \.$/, ` ${folder}`))
      const authority = readFileSync(join(folder, 'root.crt'), 'utf8')
      setDefaultCACertificates([...getCACertificates('default'), authority])
      const baseUrl = `https://localhost:${ports.interface}/api/v1`
      return createClient({ baseUrl, apiKey, retries: RETRIES })
    },
    remove: async () => {
      await compose('--profile', 'commands', 'down', '--volumes', '--remove-orphans')
      rmSync(folder, { recursive: true, force: true })
      await engine.run(['docker', 'image', 'rm', '--force', env.IMAGE])
      if (engine.kind === 'found') return
      await engine.run(['docker', 'builder', 'prune', '--force', '--keep-storage', KEPT_LAYERS])
    },
  }
}

/** The line of the guide with this text, not of a cluster; throws unless there is one. */
function documentedCommand (text: string): string {
  const found = blocksOf(PAGE, readFileSync(join(root, PAGE), 'utf8'))
    .filter(({ language }) => language === 'sh')
    .flatMap(({ content }) => content.split('\n'))
    .filter(line => line.startsWith('docker ') && line.includes(text) && !line.includes(' kind '))
  const [command, ...others] = found
  if (command !== undefined && others.length === 0) return command.replace(/ +#.*$/, '')
  throw new Error(`${PAGE} has ${found.length} commands with "${text}", expected one`)
}
