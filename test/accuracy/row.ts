/**
 * What one part of a suite came to: `total` is `right` + `wrong` + `missed`. Wrong is what misleads
 * (a real address called invalid, another number, a real domain corrected), missed what stays open
 * or unsaid.
 */
export type AccuracyRow = {
  readonly suite: string
  readonly part: string
  readonly total: number
  readonly right: number
  readonly wrong: number
  readonly missed: number
  /** Some of the cases that are not right, in words. */
  readonly cases: readonly string[]
}

type Judgment =
  | { readonly is: 'right' }
  | { readonly is: 'wrong' | 'missed', readonly case: string }

const MAX_CASES = 30

/** Judges every case of a part of a suite. */
export function measure<T> (
  name: Pick<AccuracyRow, 'suite' | 'part'>, cases: readonly T[], judge: (item: T) => Judgment
): AccuracyRow {
  const counts = { right: 0, wrong: 0, missed: 0 }
  const shown: string[] = []
  for (const item of cases) {
    const judgment = judge(item)
    counts[judgment.is]++
    if (judgment.is !== 'right' && shown.length < MAX_CASES) shown.push(judgment.case)
  }
  return { ...name, total: cases.length, ...counts, cases: shown }
}
