/** A change of the code in one place. */
export type Mutant = {
  readonly id: string
  /** Relative to the root. */
  readonly file: string
  readonly line: number
  readonly kind: string
  readonly replacement: string
}

/** What a test found. */
export type TestResult = {
  readonly file: string
  readonly name: string
  /** Of its run without a mutant. */
  readonly ms: number
  /** Identities of the mutants whose code it runs. */
  readonly reached: readonly string[]
  /** Those with which it fails. */
  readonly kills: readonly string[]
  /** It failed without a mutant, at first or after them: what it finds may be due to others. */
  readonly isDisturbed: boolean
  /** It would have taken too long, and ran only with mutants that no other test finds. */
  readonly isSlow: boolean
}

export type Report = {
  /** Without those that run only while modules are loaded. */
  readonly mutants: readonly Mutant[]
  readonly tests: readonly TestResult[]
}
