import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join, relative } from 'node:path'
import type { Judgement } from './judge.ts'
import { plotPage } from './plot/page.ts'
import type { Report } from './report.ts'

const root = join(import.meta.dirname, '..', '..')
const folder = join(import.meta.dirname, 'results')

type Judged = Report & { readonly judgements: readonly Judgement[] }

/**
 * Writes what was measured and its plot, named by the day and the commit it belongs to; a second
 * run of the same day and commit replaces the first. Returns the files, seen from the root.
 */
export function saveResults (judged: Judged): readonly string[] {
  const { judgements, ...report } = judged
  const day = new Date().toISOString().slice(0, 10)
  const commit = git('rev-parse', '--short', 'HEAD') || 'unknown'
  const name = join(folder, `${day}-${commit}`)
  const about = { day, commit, uncommitted: git('status', '--porcelain') !== '', ...machine() }
  mkdirSync(folder, { recursive: true })
  writeFileSync(`${name}.json`, `${JSON.stringify({ about, ...judged }, null, 2)}\n`)
  writeFileSync(`${name}.svg`, plotPage(report, judgements))
  return [`${name}.json`, `${name}.svg`].map(file => relative(root, file))
}

/** What the times depend on, and nothing that names the machine. */
function machine () {
  const cores = cpus()
  return { cores: cores.length, cpu: cores[0]?.model ?? 'unknown', node: process.version }
}

/** Empty without git, or outside of a checkout. */
function git (...words: readonly string[]): string {
  try {
    const stdio = ['ignore', 'pipe', 'ignore'] as const
    return execFileSync('git', words, { cwd: root, encoding: 'utf8', stdio: [...stdio] }).trim()
  } catch {
    return ''
  }
}
