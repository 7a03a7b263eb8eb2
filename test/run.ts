import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

type Suite = {
  readonly name: string
  /**
   * What the suite may take on a busy two-core machine; beyond it the suite is ended and has
   * failed.
   */
  readonly budgetSeconds: number
  readonly command: readonly string[]
  readonly counted: boolean
  /** What `npm run test:full` asks of the suite beyond `npm test`, and the seconds that adds. */
  readonly full?: { readonly env: Readonly<Record<string, string>>, readonly moreSeconds: number }
}
type Tally = { readonly passed: number, readonly failed: number }

const root = join(import.meta.dirname, '..')
const tool = (name: string) => join(root, 'node_modules', '.bin', name)
const vitest = (project: string) =>
  [tool('vitest'), 'run', '-c', 'test/vitest.config.ts', '--project', project]

/** Cheapest first, so that a slip is told within seconds. */
const suites: readonly Suite[] = [
  { name: 'types', budgetSeconds: 90, command: [tool('tsc'), '-p', '.'], counted: false },
  {
    name: 'lint',
    budgetSeconds: 180,
    command: [tool('eslint'), '-c', 'test/eslint.config.js', '.', '--max-warnings', '0'],
    counted: false,
  },
  {
    name: 'audit',
    budgetSeconds: 90,
    command: [process.execPath, join(root, 'test', 'audit.ts')],
    counted: false,
  },
  { name: 'unit', budgetSeconds: 180, command: vitest('unit'), counted: true },
  { name: 'laws', budgetSeconds: 180, command: vitest('laws'), counted: true },
  {
    name: 'simulation',
    budgetSeconds: 180,
    command: vitest('simulation'),
    counted: true,
    full: { env: { SIMULATION_SECONDS: '600' }, moreSeconds: 540 },
  },
  // A fresh machine builds Helm and Compose first, which takes five minutes.
  { name: 'deploy', budgetSeconds: 900, command: vitest('deploy'), counted: true },
  { name: 'integration', budgetSeconds: 420, command: vitest('integration'), counted: true },
  {
    name: 'e2e',
    budgetSeconds: 900,
    command: vitest('e2e'),
    counted: true,
    full: {
      env: { FEED_CONTACTS: '250000', MEMORY_JOBS: '10', DOWNLOADED_ROWS: '100000' },
      moreSeconds: 600,
    },
  },
  {
    name: 'monitoring',
    budgetSeconds: 300,
    command: vitest('monitoring'),
    counted: true,
    full: { env: { CAUSED_ALERTS: 'all' }, moreSeconds: 420 },
  },
  // The whole of it is `npm run faults`.
  { name: 'faults', budgetSeconds: 300, command: vitest('faults'), counted: true },
]
const full = process.argv.includes('--full')

function execute (suite: Suite, report: string): Promise<boolean> {
  const [program = '', ...rest] = suite.command
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  const child = spawn(program, [...rest, ...(suite.counted ? reporters : [])], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, NODE_NO_WARNINGS: '1', ...(full ? suite.full?.env : {}) },
  })
  const seconds = suite.budgetSeconds + (full ? suite.full?.moreSeconds ?? 0 : 0)
  const budget = setTimeout(() => {
    console.error(`${suite.name} took longer than its ${seconds} s and is ended`)
    child.kill('SIGTERM')
    setTimeout(() => child.kill('SIGKILL'), 10_000).unref()
  }, seconds * 1_000)
  return new Promise(resolve => child.on('exit', code => {
    clearTimeout(budget)
    resolve(code === 0)
  }))
}

function countsOf (report: string): Tally {
  try {
    const { numPassedTests, numFailedTests } = JSON.parse(readFileSync(report, 'utf8'))
    return { passed: Number(numPassedTests), failed: Number(numFailedTests) }
  } catch {
    return { passed: 0, failed: 0 }
  }
}

/** A suite that ends badly has failed at least once, whatever its own count says. */
async function run (suite: Suite, folder: string): Promise<Tally> {
  const report = join(folder, `${suite.name}.json`)
  const startedAt = Date.now()
  console.log(`\n== ${suite.name}`)
  const well = await execute(suite, report)
  const { passed, failed } = suite.counted
    ? countsOf(report)
    : { passed: well ? 1 : 0, failed: well ? 0 : 1 }
  const seconds = ((Date.now() - startedAt) / 1_000).toFixed(1)
  console.log(`== ${suite.name}: ${well ? 'ok' : 'FAILED'} in ${seconds} s`)
  return { passed, failed: well ? failed : Math.max(1, failed) }
}

async function main (names: readonly string[]): Promise<void> {
  const unknown = names.filter(name => !suites.some(suite => suite.name === name))
  if (unknown.length > 0 || names.includes('--help')) {
    console.error(`usage: npm test [-- ${suites.map(suite => suite.name).join(' | ')}]`)
    process.exit(2)
  }
  const chosen = suites.filter(suite => names.length === 0 || names.includes(suite.name))
  const folder = mkdtempSync(join(tmpdir(), 'verification-jobs-report-'))
  const total = { passed: 0, failed: 0 }
  for (const suite of chosen) {
    const tally = await run(suite, folder)
    total.passed += tally.passed
    total.failed += tally.failed
  }
  rmSync(folder, { recursive: true, force: true })
  console.log(`\n${total.passed} passed, ${total.failed} failed`)
  process.exitCode = total.failed === 0 && total.passed > 0 ? 0 : 1
}

await main(process.argv.slice(2).filter(name => name !== '--full'))
