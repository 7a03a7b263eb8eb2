import { seededRandom } from '../support/random.ts'

/** Everything a run decides by chance, from one seed: the same seed makes the same choices. */
export type Chaos = {
  readonly random: () => number
  /** True with this probability. */
  readonly happens: (probability: number) => boolean
  /** A whole number from 0 to below `end`. */
  readonly below: (end: number) => number
  readonly pick: <T>(values: readonly T[]) => T
}

/** The chance of a seed. */
export function createChaos (seed: number): Chaos {
  const random = seededRandom(seed)
  const below = (end: number) => Math.floor(random() * end)
  return {
    random,
    below,
    happens: probability => random() < probability,
    pick: values => values[below(values.length)] as never,
  }
}
