import { spawnSync } from 'node:child_process'
import { Command } from 'commander'
import { join } from 'node:path'

const { seeds, first } = new Command('simulate')
  .description('Runs the whole pipeline on an in-memory broker with seeded crashes, duplicates, ' +
    'outages and broken messages, and checks every law after each run. A failure names its seed.')
  .option('--seeds <number>', 'how many runs', '1000')
  .option('--first <number>', 'the first seed; later runs count on from it', '1')
  .parse()
  .opts<{ seeds: string, first: string }>()

const root = join(import.meta.dirname, '..', '..')
const vitest = join(root, 'node_modules', '.bin', 'vitest')
const flags = ['run', '-c', 'test/vitest.config.ts', '--project', 'simulation']
const { status } = spawnSync(vitest, [...flags, '--testTimeout', '0'], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, SIMULATION_SEEDS: seeds, SIMULATION_FIRST: first },
})
process.exitCode = status ?? 1
