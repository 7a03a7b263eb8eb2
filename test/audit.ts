import { execFile } from 'node:child_process'
import { join } from 'node:path'

export type Finding = { readonly name: string, readonly severity: string, readonly range: string }

const GRAVE: ReadonlySet<string> = new Set(['high', 'critical'])
const ANSWERS_WITHIN_MS = 60_000

/** Grave findings in what `npm audit --json` wrote; undefined when it got no answer. */
export function findingsIn (output: string): readonly Finding[] | undefined {
  try {
    const report = JSON.parse(output) as { vulnerabilities?: Record<string, Finding> }
    if (report.vulnerabilities === undefined) return undefined
    return Object.values(report.vulnerabilities).filter(({ severity }) => GRAVE.has(severity))
  } catch {
    return undefined
  }
}

/** Whatever the exit code says: npm ends with 1 for findings and for silence alike. */
function askRegistry (): Promise<string> {
  const root = join(import.meta.dirname, '..')
  return new Promise(resolve => {
    execFile('npm', ['audit', '--omit=dev', '--json'], {
      cwd: root, timeout: ANSWERS_WITHIN_MS, maxBuffer: 64 * 1_024 * 1_024,
    }, (_error, stdout) => resolve(stdout))
  })
}

// Known vulnerabilities of what the services run with: a grave one fails. A registry that does not
// answer says nothing about the dependencies, so it is reported and does not fail.
if (import.meta.main) {
  const findings = findingsIn(await askRegistry())
  if (findings === undefined) {
    console.log('The registry answers no audits from here: known vulnerabilities were NOT checked.')
  }
  for (const { name, severity, range } of findings ?? []) {
    console.error(`${name} ${range} has a known vulnerability (${severity}); see "npm audit"`)
  }
  process.exitCode = (findings ?? []).length > 0 ? 1 : 0
}
