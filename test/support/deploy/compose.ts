import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { newFolder } from '../folder.ts'
import { root } from '../sources.ts'
import { yamlOf } from './yaml.ts'

export type Service = {
  readonly image: string
  readonly build?: unknown
  readonly command: readonly string[] | null
  readonly entrypoint: readonly string[] | null
  readonly environment: Readonly<Record<string, string>>
  readonly depends_on: Readonly<Record<string, { readonly condition: string }>>
  readonly healthcheck?: { readonly disable?: boolean, readonly test?: readonly string[] }
  readonly networks: Readonly<Record<string, unknown>>
  readonly ports: readonly { readonly host_ip: string }[]
  readonly profiles: readonly string[]
  readonly volumes: readonly { readonly type: string, readonly source: string }[]
  readonly cap_drop: readonly string[]
  readonly cap_add?: readonly string[]
  readonly read_only: boolean
  /** In bytes. */
  readonly mem_limit: number
  readonly security_opt: readonly string[]
}
export type Model = {
  readonly services: Readonly<Record<string, Service>>
  readonly networks: Readonly<Record<string, { readonly internal?: boolean }>>
}

type Env = Readonly<Record<string, string>>
/** A service as it may be written, with the short forms that the file uses. */
type Written = {
  readonly [key in keyof Service]?: unknown
}

export const composeFile = join(root, 'deploy/compose.yaml')

/**
 * What compose makes of the project's file with these variables and no others, as far as tests
 * read it; `compose-config.test.ts` compares it with compose's own output. Throws the file's
 * own message where a required variable is missing.
 */
export function composeModel (env: Env): Model {
  const [file] = yamlOf(readFileSync(composeFile, 'utf8')) as readonly [{
    readonly services: Readonly<Record<string, Written>>
    readonly networks: Model['networks']
  }]
  const services = Object.entries(file.services).map(([name, written]) =>
    [name, normalized(filled(written, env) as Written)] as const)
  return { services: Object.fromEntries(services), networks: file.networks }
}

/** An env file as compose reads it: `NAME=value` lines, quotes and comments apart. */
export function envOf (text: string): Env {
  return Object.fromEntries(text.split('\n').flatMap(line => {
    const [, name, value = ''] = /^([A-Z_]+)=(.*)$/.exec(line) ?? []
    return name === undefined ? [] : [[name, value.replace(/^'(.*)'$/, '$1')]]
  }))
}

/** Adds missing secrets to a file by `deploy/secrets.ts`, and returns what that prints. */
export function writeSecrets (file: string): string {
  return execFileSync(process.execPath, [join(root, 'deploy/secrets.ts'), '--file', file], {
    encoding: 'utf8',
  })
}

/** New secrets, as compose reads them from the file that `deploy/secrets.ts` makes. */
export function newSecrets (): Env {
  const folder = newFolder('secrets-')
  try {
    writeSecrets(join(folder, '.env'))
    return envOf(readFileSync(join(folder, '.env'), 'utf8'))
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Replaces `${NAME}`, `${NAME:-default}` and `${NAME:?message}` in every text of a value. */
function filled (value: unknown, env: Env): unknown {
  if (typeof value === 'string') {
    return value.replace(/\$\$|\$\{\w+(?::[-?][^}]*)?\}/g, variable => {
      const [, name = '', kind = '', rest = ''] =
        /^\$\{(\w+)(?::([-?])([^}]*))?\}$/.exec(variable) ?? []
      if (name === '') return '$'
      if (env[name]) return env[name]
      if (kind === '?') throw new Error(`${name}: ${rest}`)
      return rest
    })
  }
  if (Array.isArray(value)) return value.map(one => filled(one, env))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, filled(one, env)]))
}

function normalized (written: Written): Service {
  const listOf = <T>(value: unknown) => (value ?? []) as readonly T[]
  return {
    ...written as Service,
    command: wordsOf(written.command),
    entrypoint: wordsOf(written.entrypoint),
    // Compose passes on a variable without a value if it is set outside; here none is.
    environment: Object.fromEntries(Object.entries(written.environment ?? {})
      .filter(([, value]) => value !== null).map(([key, value]) => [key, String(value)])),
    depends_on: (written.depends_on ?? {}) as Service['depends_on'],
    networks: Array.isArray(written.networks)
      ? Object.fromEntries(listOf<string>(written.networks).map(name => [name, null]))
      : (written.networks ?? {}) as Service['networks'],
    ports: listOf<string>(written.ports).map(port =>
      ({ host_ip: String(port).split(':').length === 3 ? String(port).split(':')[0] ?? '' : '' })),
    profiles: listOf(written.profiles),
    volumes: listOf<string>(written.volumes).map(volume => {
      const source = volume.split(':')[0] ?? ''
      const isPath = /^[./]/.test(source)
      return isPath
        ? { type: 'bind', source: resolve(dirname(composeFile), source) }
        : { type: 'volume', source }
    }),
    read_only: written.read_only === true,
    mem_limit: bytesOf(String(written.mem_limit ?? 0)),
  }
}

function wordsOf (value: unknown): readonly string[] | null {
  if (value === undefined || value === null) return null
  return typeof value === 'string' ? value.split(/\s+/) : value as readonly string[]
}

function bytesOf (text: string): number {
  const [, amount = '', unit = ''] = /^(\d+)([kmg]?)b?$/i.exec(text) ?? []
  return Number(amount) * 1_024 ** ' kmg'.indexOf(unit.toLowerCase() || ' ')
}
