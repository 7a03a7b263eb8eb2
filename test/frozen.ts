import { createHash } from 'node:crypto'
import { globSync, readFileSync, writeFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { basename } from 'node:path'
import { Command } from 'commander'
import { installRedis } from '../deploy/local/parts.ts'
import { METRICS } from '../services/runtime/platform/metric-list.ts'
import { allTopics, listSubscriptions } from '../services/runtime/platform/topics.ts'
import { READING_STAGES } from '../services/topology.ts'
import { runSeeds } from './simulation/runs.ts'

const SAVED = new URL('frozen.json', import.meta.url)
const SEEDS = 1_000
const SEEDS_A_LINE = 20

/** What others depend on, and what the pipeline does: a digest for each part. */
type Frozen = Readonly<Record<string, string>>

const digest = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16)

/** Lua texts by their own names, wherever their folder is. */
function freezeTexts (): Frozen {
  const scripts = globSync('services/**/*.lua').toSorted()
  return {
    'openapi.json': digest(readFileSync('schemas/api/openapi.json', 'utf8')),
    'names of topics': digest(JSON.stringify(allTopics())),
    'names of consumer groups':
      digest(JSON.stringify(READING_STAGES.map(stage => listSubscriptions(stage)))),
    'names of metrics': digest(JSON.stringify(METRICS.map(({ name, type, labels, help }) =>
      ({ name, type, labels, help })))),
    'schemas of messages': digest(globSync('schemas/*.avsc').toSorted()
      .map(path => readFileSync(path, 'utf8')).join('\n')),
    ...Object.fromEntries(scripts.map(path =>
      [`${basename(path)} ${digest(readFileSync(path, 'utf8'))}`, 'script'])),
  }
}

/** Traces have every command of Redis, with its keys, in its order. */
async function freezeRuns (seeds: number): Promise<Frozen> {
  await installRedis(line => console.error(line))
  const { runs, failed } = await runSeeds({ first: 1, seeds, workers: availableParallelism() })
  if (failed !== undefined) throw new Error(`seed ${failed.seed}: ${failed.breaches.join('; ')}`)
  const lines = Map.groupBy(runs, ({ seed }) => Math.ceil(seed / SEEDS_A_LINE) * SEEDS_A_LINE)
  return Object.fromEntries([...lines].map(([last, some]) =>
    [`runs to seed ${last}`, digest(some.map(({ trace }) => trace).join(' '))]))
}

const { save, seeds } = new Command('frozen')
  .description('Compares what a change of structure must not change with test/frozen.json: the ' +
    'traces of simulated runs, the OpenAPI document, scripts, and names of topics, groups and ' +
    'metrics. Prints what differs, and fails then.')
  .option('--seeds <number>', 'how many runs; 0 compares texts only', Number, SEEDS)
  .option('--save', 'replaces the file, because the change is meant')
  .parse().opts<{ readonly save?: true, readonly seeds: number }>()

const now: Frozen = { ...freezeTexts(), ...seeds > 0 ? await freezeRuns(seeds) : {} }
if (save) {
  writeFileSync(SAVED, `${JSON.stringify(now, null, 2)}\n`)
} else {
  const saved = JSON.parse(readFileSync(SAVED, 'utf8')) as Frozen
  const isCompared = (name: string) => !name.startsWith('runs to') || name in now
  const different = [...new Set([...Object.keys(saved), ...Object.keys(now)])]
    .filter(name => isCompared(name) && saved[name] !== now[name])
  for (const name of different) console.error(`differs: ${name}`)
  console.log(different.length === 0 ? 'nothing differs' : `${different.length} differ`)
  process.exitCode = different.length === 0 ? 0 : 1
}
