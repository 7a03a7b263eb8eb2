import type { Report, TestResult } from './report.ts'

/** The share of mutants that a test finds, in percent with one decimal. */
export function scoreOf (report: Report): { readonly score: number, readonly mutants: number } {
  const { length } = report.mutants
  const found = length - missedOf(report).length
  return { score: Math.round(1_000 * found / length) / 10, mutants: length }
}

/** The mutants that no test finds. */
export function missedOf ({ mutants, tests }: Report): Report['mutants'] {
  const found = new Set(tests.flatMap(({ kills }) => kills))
  return mutants.filter(({ id }) => !found.has(id))
}

/**
 * Tests that could all go together, because the rest finds every mutant that they find. Those that
 * find the fewest go first. A property says more than a case, so a file with any is not asked. Nor
 * is a test that reaches none: its values were computed while modules were loaded, for a table.
 */
export function spareTests (
  { tests }: Report, isProperty: (file: string) => boolean
): readonly string[] {
  const killers = new Map<string, number>()
  for (const { kills } of tests.filter(({ isDisturbed }) => !isDisturbed)) {
    for (const id of kills) killers.set(id, (killers.get(id) ?? 0) + 1)
  }
  return tests.filter(({ file }) => !isProperty(file))
    .toSorted((a, b) => a.kills.length - b.kills.length)
    .filter(test => {
      const isSpare = isFoundByOthers(test, killers)
      if (isSpare && !test.isDisturbed) {
        for (const id of test.kills) killers.set(id, (killers.get(id) ?? 0) - 1)
      }
      return isSpare
    })
    .map(({ file, name, kills }) => `${file} › ${name} (${kills.length} mutants)`)
    .toSorted()
}

const isFoundByOthers = (
  { kills, reached, isDisturbed, isSlow }: TestResult, killers: ReadonlyMap<string, number>
) => !isSlow && reached.length > 0 &&
  kills.every(id => (killers.get(id) ?? 0) > (isDisturbed ? 0 : 1))
