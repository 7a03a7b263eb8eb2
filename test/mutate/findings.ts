import type { Mutant, Report } from './stryker.ts'

const FOUND = ['Killed', 'Timeout', 'RuntimeError']
const COUNTED = [...FOUND, 'Survived', 'NoCoverage']

const mutantsOf = ({ files }: Report): readonly Mutant[] =>
  Object.values(files).flatMap(({ mutants }) => mutants)

/** The share of mutants that a test finds, in percent with one decimal. */
export function scoreOf (report: Report): { readonly score: number, readonly mutants: number } {
  const counted = mutantsOf(report).filter(({ status }) => COUNTED.includes(status))
  const found = counted.filter(({ status }) => FOUND.includes(status)).length
  return { score: Math.round(1_000 * found / counted.length) / 10, mutants: counted.length }
}

/**
 * Tests of a folder that could all go together, because the rest finds every mutant that they find.
 * Those that find the fewest go first. A property says more than a case, so it is not asked.
 */
export function spareTests (report: Report, folder: string): readonly string[] {
  const kills = new Map<string, Mutant[]>()
  const killers = new Map<Mutant, number>()
  for (const mutant of mutantsOf(report)) {
    for (const test of mutant.killedBy ?? []) {
      kills.set(test, [...kills.get(test) ?? [], mutant])
      killers.set(mutant, (killers.get(mutant) ?? 0) + 1)
    }
  }
  const tests = Object.entries(report.testFiles).flatMap(([file, { tests }]) =>
    tests.map(({ id, name }) => ({ id, file, name, kills: kills.get(id) ?? [] })))
  return tests.filter(({ file }) => file.startsWith(folder))
    .toSorted((a, b) => a.kills.length - b.kills.length)
    .filter(({ kills }) => {
      const isSpare = kills.every(mutant => (killers.get(mutant) ?? 0) > 1)
      if (isSpare) for (const mutant of kills) killers.set(mutant, (killers.get(mutant) ?? 0) - 1)
      return isSpare
    })
    .map(({ file, name, kills }) => `${file} › ${name} (${kills.length} mutants)`)
    .toSorted()
}
