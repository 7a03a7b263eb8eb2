import { Command, InvalidArgumentError } from 'commander'
import { availableParallelism } from 'node:os'
import { installRedis } from '../../deploy/local/parts.ts'
import { runSeeds, wordsOf } from './runs.ts'

const EVERY_MS = 10_000

function whole (text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('a whole number from 1.')
  return Number(text)
}

const { seeds, first, workers } = new Command('simulate')
  .description('Runs the whole pipeline on an in-memory broker and two real Redis with seeded ' +
    'crashes, duplicates, outages, cancelled jobs, lost keys, broken messages and losses of ' +
    'Redis, and checks every invariant after each run. A seed determines its run completely; the ' +
    'first that violates an invariant stops the simulation.')
  .option('--seeds <number>', 'how many runs', whole, 1_000)
  .option('--first <number>', 'the first seed; the others follow it', whole, 1)
  .option('--workers <number>', 'processes, each with Redis of its own', whole,
    availableParallelism())
  .parse()
  .opts<{ seeds: number, first: number, workers: number }>()

await installRedis(line => console.log(line))
const startedMs = performance.now()
let done = 0
let reportedMs = startedMs
const rate = () => (done / (performance.now() - startedMs) * 1_000).toFixed(1)
const all = (count: number) => count.toLocaleString('en')
const { last, seconds, runs, failed } = await runSeeds({
  first,
  seeds,
  workers: Math.min(workers, seeds),
  onRun: () => {
    done += 1
    if (performance.now() - reportedMs < EVERY_MS) return
    reportedMs = performance.now()
    console.log(`${all(done)} of ${all(seeds)} seeds, ${rate()} a second, all invariants hold`)
  },
})
if (failed === undefined) {
  const crashes = runs.reduce((sum, run) => sum + run.crashes, 0)
  const losses = runs.reduce((sum, run) => sum + run.losses.length, 0)
  const cancelled = runs.reduce((sum, run) => sum + run.cancelled, 0)
  console.log(`all invariants hold: seeds ${first} to ${last}, ${all(crashes)} crashes, ` +
    `${all(losses)} losses of Redis, ${all(cancelled)} jobs cancelled midway, ` +
    `${seconds.toFixed(1)} s, ${rate()} a second`)
} else {
  console.error(wordsOf(failed))
  process.exitCode = 1
}
