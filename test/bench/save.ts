import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join, relative } from 'node:path'
import type { LimitCheck } from './limits.ts'
import { plotPage } from './plot.ts'
import type { Report } from './run.ts'

const root = join(import.meta.dirname, '..', '..')
const folder = join(import.meta.dirname, 'results')

type CheckedReport = Report & { readonly limitChecks: readonly LimitCheck[] }

/**
 * Writes the report, with its day and commit, and its plot over those of the run before; history
 * keeps them. Returns the paths relative to the project.
 */
export function saveResults (checked: CheckedReport): readonly string[] {
  const { limitChecks, ...report } = checked
  const day = new Date().toISOString().slice(0, 10)
  const commit = git('rev-parse', '--short', 'HEAD') || 'unknown'
  const name = join(folder, 'newest')
  const about = { day, commit, uncommitted: git('status', '--porcelain') !== '', ...machine() }
  mkdirSync(folder, { recursive: true })
  writeFileSync(`${name}.json`, `${inLines({ about, ...checked })}\n`)
  writeFileSync(`${name}.svg`, plotPage(report, limitChecks))
  return [`${name}.json`, `${name}.svg`].map(file => relative(root, file))
}

/** JSON with a line for each object or list of figures. */
const inLines = (report: object) => JSON.stringify(report, null, 2)
  .replaceAll(/[{[]\n[^{}[\]]*[}\]]/g, figures => figures.replaceAll(/\n\s*/g, ' '))

/** What absolute times depend on, without anything that identifies the machine. */
function machine () {
  const cores = cpus()
  return { cores: cores.length, cpu: cores[0]?.model ?? 'unknown', node: process.version }
}

/** Returns an empty string without git or outside a checkout. */
function git (...args: readonly string[]): string {
  try {
    const stdio = ['ignore', 'pipe', 'ignore'] as const
    return execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: [...stdio] }).trim()
  } catch {
    return ''
  }
}
