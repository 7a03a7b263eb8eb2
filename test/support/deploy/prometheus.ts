import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { freePort } from '../../../deploy/local/ports.ts'
import { answersOk } from '../../../deploy/local/process.ts'
import type { RunningService } from '../../../deploy/local/launcher/services.ts'
import { createPart } from '../stacks/processes.ts'
import { installPrometheus } from './tools.ts'
import { newFolder } from '../folder.ts'

/** A series of an answer, with its value as a number. */
type Sample = { readonly labels: Readonly<Record<string, string>>, readonly value: number }
type Target = {
  readonly labels: Readonly<Record<string, string>>
  readonly health: string
  readonly lastError: string
}
type Rule = {
  readonly type: 'alerting' | 'recording'
  readonly name: string
  readonly query: string
  readonly health: string
  readonly lastError?: string
  readonly annotations?: Readonly<Record<string, string>>
}

type PrometheusOptions = {
  readonly services: readonly Pick<RunningService, 'name' | 'metricsUrl'>[]
  /** Interval of scrapes and of rule evaluations. */
  readonly everyMs?: number
  /** Rules with windows of seconds where the deployed ones have minutes, some at lower numbers. */
  readonly hurried?: true
}

const RULES = `${import.meta.dirname}/../../../deploy/prometheus`

/** A Prometheus with the rules as they are deployed, in a folder that ends with it. */
export async function startPrometheus (options: PrometheusOptions) {
  await installPrometheus(console.log)
  const dataDir = newFolder('verification-jobs-prometheus-')
  const configFile = `${dataDir}/prometheus.yml`
  // JSON is YAML as well.
  writeFileSync(configFile, JSON.stringify(configOf(options)))
  for (const name of ['recording.yml', 'alerts.yml']) {
    const text = readFileSync(`${RULES}/${name}`, 'utf8')
    writeFileSync(`${dataDir}/${name}`, options.hurried === true ? hurriedOf(text) : text)
  }
  const address = `127.0.0.1:${await freePort()}`
  const part = createPart({
    name: 'prometheus',
    command: 'prometheus',
    args: [
      `--config.file=${configFile}`, `--storage.tsdb.path=${dataDir}/data`,
      `--web.listen-address=${address}`, '--log.level=warn',
    ],
    dataDir,
    ready: () => answersOk(`http://${address}/-/ready`),
    graceMs: 5_000,
  })
  await part.up()
  const stop = async () => {
    await part.stop()
    rmSync(dataDir, { recursive: true, force: true })
  }
  return { ...clientOf(`http://${address}/api/v1`), stop }
}

/** The stage is what targets are called by, as with the configuration that is deployed. */
function configOf ({ services, everyMs = 1_000 }: PrometheusOptions): object {
  return {
    global: {
      scrape_interval: `${everyMs}ms`,
      scrape_timeout: `${everyMs}ms`,
      evaluation_interval: `${everyMs}ms`,
    },
    rule_files: ['recording.yml', 'alerts.yml'],
    scrape_configs: [{
      job_name: 'services',
      static_configs: services.map(({ name, metricsUrl }) => ({
        targets: [new URL(metricsUrl).host],
        labels: { job: name.replace(/-\d+$/, '') },
      })),
    }],
  }
}

const SECONDS_A_MINUTE = 2

/** Thresholds that a small machine reaches within seconds, by the text of the deployed ones. */
const THRESHOLDS: Readonly<Record<string, string>> = {
  'process_resident_memory_bytes > 700e6': 'process_resident_memory_bytes > 400e6',
  '{group=~".+[.]bulk([.].+)?"} > 120': '{group=~".+[.]bulk([.].+)?"} > 12',
  '{group=~"deliver|publish|ledger"} > 60': '{group=~"deliver|publish|ledger"} > 6',
  '{group=~".+[.]bulk([.].+)?"}) > bool 120': '{group=~".+[.]bulk([.].+)?"}) > bool 12',
  'max(webhook_queue_depth) > 500': 'max(webhook_queue_depth) > 5',
  'max by (table) (clickhouse_parts) > 600': 'max by (table) (clickhouse_parts) > 100',
  'max(clickhouse_mutation_seconds) > 900': 'max(clickhouse_mutation_seconds) > 5',
  'topic="wallet.journal"})) > 10000': 'topic="wallet.journal"})) > 20',
}

/** Ranges and pauses of minutes become seconds; all thresholds but a few stay what they are. */
function hurriedOf (rules: string): string {
  const lowered = Object.entries(THRESHOLDS)
    .reduce((text, [deployed, low]) => text.replace(deployed, low), rules)
  return lowered
    .replace(/(\[|offset |for: )(\d+)m/g, (_, before: string, minutes: string) =>
      `${before}${before === 'for: ' ? 2 : SECONDS_A_MINUTE * Number(minutes)}s`)
    // The steps of a range.
    .replace(/:(\d+)s\]/g, (_, seconds: string) =>
      `:${Math.round(Number(seconds) * SECONDS_A_MINUTE * 1_000 / 60)}ms]`)
}

type Found = { readonly metric: Sample['labels'], readonly value: readonly [number, string] }

function clientOf (baseUrl: string) {
  const ask = async (path: string): Promise<unknown> => {
    const response = await fetch(baseUrl + path, { signal: AbortSignal.timeout(10_000) })
    const { status, data, error } = await response.json() as {
      readonly status: string, readonly data: unknown, readonly error: string
    }
    if (status !== 'success') throw new Error(error)
    return data
  }
  /** The current samples; rejects with the error of Prometheus for an invalid query. */
  const query = async (expr: string): Promise<readonly Sample[]> => {
    const { result } = await ask(`/query?query=${encodeURIComponent(expr)}`) as {
      readonly result: readonly Found[]
    }
    return result.map(({ metric, value }) => ({ labels: metric, value: Number(value[1]) }))
  }
  return {
    query,
    targets: async () =>
      (await ask('/targets') as { readonly activeTargets: readonly Target[] }).activeTargets,
    rules: async () => {
      const { groups } = await ask('/rules') as {
        readonly groups: readonly { readonly rules: readonly Rule[] }[]
      }
      return groups.flatMap(({ rules }) => rules)
    },
    /** Names of the alerts that fire, each once, in order. */
    firing: async () => {
      const found = await query('count by (alertname) (ALERTS{alertstate="firing"})')
      return found.map(({ labels }) => labels.alertname ?? '').sort()
    },
  }
}
