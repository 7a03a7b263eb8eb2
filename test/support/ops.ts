import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { createProgram } from '../../services/ops/program.ts'
import { startProgram, type Started } from './started.ts'
import type { Environment } from './environment.ts'

type Ended = ReturnType<Started['ended']>

/** The commands of operators for an environment, with a folder as `up` keeps it. */
export function openOps ({ env, services }: Environment) {
  const folder = mkdtempSync(`${tmpdir()}/verification-jobs-ops-`)
  const { KAFKA_BROKERS: kafkaBrokers, REDIS_STATE_URL: redisStateUrl } = env
  writeFileSync(`${folder}/stack.json`, JSON.stringify({ kafkaBrokers, redisStateUrl }))
  const targets = `${folder}/targets.json`
  process.env['METRICS_TARGETS_FILE'] = targets
  /** What runs, as it is now. */
  const noteTargets = () =>
    writeFileSync(targets, JSON.stringify(services.list().map(({ metricsUrl }) => metricsUrl)))
  /** What a command answers. */
  const ops = async <T>(...words: readonly string[]): Promise<T> => {
    const lines: string[] = []
    noteTargets()
    await createProgram(line => { lines.push(line) }, { errors: { write: () => {} } })
      .parseAsync(['--json', '--data', folder, ...words], { from: 'user' })
    return JSON.parse(lines.join('\n')) as T
  }
  /** The command as a process of its own, in an environment that names the stack. */
  const run = (more: object, ...words: readonly string[]): Ended => {
    noteTargets()
    const around = { ...env, METRICS_TARGETS_FILE: targets, ...more }
    return startProgram(process.execPath, ['services/ops/main.ts', ...words], around).ended()
  }
  const close = () => {
    delete process.env['METRICS_TARGETS_FILE']
    rmSync(folder, { recursive: true })
  }
  return { ops, run, close }
}
